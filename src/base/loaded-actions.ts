/**
 * Actions that load() added without the learner's action space. A buffer remembers the extremes of
 * each number, with their rows. A learner compares them with its own space at the first update
 * whose batch comes from that buffer.
 */
import type { ExplainOutside } from './action-space.ts';

interface Extreme {
  readonly value: number;
  readonly j: number;
  readonly row: string;
}

/**
 * The least and the greatest value of each number of one buffer's actions, and the first value that
 * is not a whole number.
 */
class Extremes {
  readonly #least: (Extreme | undefined)[] = [];
  readonly #most: (Extreme | undefined)[] = [];
  readonly #fraction: (Extreme | undefined)[] = [];

  readonly note = (
    values: ArrayLike<number | bigint>,
    size: number,
    name: (row: number) => string,
  ): void => {
    for (let at = 0; at < values.length; at++) {
      const value = Number(values[at]);
      const j = at % size;
      const [least, most] = [this.#least[j], this.#most[j]];
      const lesser = least === undefined || value < least.value;
      const greater = most === undefined || value > most.value;
      const fraction = this.#fraction[j] === undefined && !Number.isInteger(value);
      // With `nonFinite: 'keep'` NaN is the user's.
      if (!(lesser || greater || fraction) || Number.isNaN(value)) continue;
      const extreme = { value, j, row: name(Math.floor(at / size)) };
      if (lesser) this.#least[j] = extreme;
      if (greater) this.#most[j] = extreme;
      if (fraction) this.#fraction[j] = extreme;
    }
  };

  outside(explain: ExplainOutside): string | undefined {
    for (const extreme of [...this.#least, ...this.#most, ...this.#fraction]) {
      if (extreme === undefined) continue;
      const { value, j, row } = extreme;
      const why = explain(value, j);
      if (why !== undefined) return `actions of ${row} ${why}`;
    }
    return undefined;
  }
}

const extremes = new WeakMap<object, Extremes>();
/** by a batch's tensor of actions */
const buffers = new WeakMap<object, object>();

/** Records the actions that load() adds to the buffer. */
export function noteActions(buffer: object): Extremes['note'] {
  const known = extremes.get(buffer) ?? new Extremes();
  extremes.set(buffer, known);
  return known.note;
}

/** Records the buffer from which a pipeline draws a batch's tensor of actions. */
export function drawnFrom(actions: object, buffer: object): void {
  buffers.set(actions, buffer);
}

/**
 * For one learner. Explains, once for each buffer, which loaded action lies outside of the
 * learner's action space.
 */
export function loadedActionsCheck(
  explain: ExplainOutside,
): (actions: object | undefined) => string | undefined {
  const compared = new WeakSet<object>();
  return (actions) => {
    const buffer = actions && buffers.get(actions);
    if (buffer === undefined || compared.has(buffer)) return undefined;
    compared.add(buffer);
    return extremes.get(buffer)?.outside(explain);
  };
}
