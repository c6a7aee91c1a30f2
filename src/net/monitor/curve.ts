/** A curve of the live page, which merges points so that it never exceeds `MAX_POINTS` points. */

/**
 * A point of a curve. `seconds` counts from the opening of the monitor. `value` is null if it is
 * NaN or infinite.
 */
export type Point = readonly [seconds: number, step: number, value: number | null];

/**
 * Maximum number of points of a curve. At the maximum, each pair of points is merged into one
 * point. From then on, a new point is the mean of twice as many added values.
 */
export const MAX_POINTS = 600;

export class Curve {
  #points: Point[] = [];
  /** number of added values of which a new point is the mean */
  #stride = 1;
  #sum = 0;
  #count = 0;
  /** how often the points were thinned */
  #thinned = 0;
  /** the latest value, as passed to add() */
  latest = Number.NaN;

  get points(): readonly Point[] {
    return this.#points;
  }
  /**
   * How often the points were thinned. When it grows, points that were already sent have changed,
   * so all points must be sent again.
   */
  get thinned(): number {
    return this.#thinned;
  }

  add(seconds: number, step: number, value: number): void {
    this.latest = value;
    this.#sum += value;
    if (++this.#count < this.#stride) return;
    const mean = this.#sum / this.#count;
    [this.#sum, this.#count] = [0, 0];
    this.#points.push([rounded(seconds), step, Number.isFinite(mean) ? rounded(mean) : null]);
    if (this.#points.length === MAX_POINTS) this.#thin();
  }

  /** Merges points in pairs, except the first one, so that the curve keeps its beginning. */
  #thin(): void {
    const [first, ...rest] = this.#points as [Point, ...Point[]];
    const kept: Point[] = [first];
    for (let i = 1; i < rest.length; i += 2)
      kept.push(between(rest[i - 1] as Point, rest[i] as Point));
    if (rest.length % 2 === 1) kept.push(rest.at(-1) as Point);
    this.#points = kept;
    this.#stride *= 2;
    this.#thinned++;
  }
}

function between([, , a]: Point, [seconds, step, b]: Point): Point {
  return [seconds, step, a === null || b === null ? (a ?? b) : rounded((a + b) / 2)];
}

/** Rounds to six digits, which is more than a screen shows. */
const rounded = (value: number) => Number(value.toPrecision(6));
