/**
 * Takes the steps of a buffer to send them elsewhere. Each place is taken once, as a row. The
 * places of a lane are taken in order.
 *
 * A writer must not overwrite a place before it is taken. The buffer's limiter (gateAdd,
 * samplesPerInsert 1, minSize 1) makes writers wait, because a step counts as sampled only when it
 * is taken. So at most errorBuffer + 1 steps are not taken yet. All of them may be in one lane,
 * each with a final observation. So a lane needs 2 × (errorBuffer + the steps of one add + 1)
 * places. If a writer overwrites a place nevertheless, take() throws, and never sends that place.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { type LanesHandle, lanesAddon, spanOf } from './lanes-addon.ts';
import { rowBytesOf } from './packed-rows.ts';
import { internalsOfTrajectories, type TrajectoryBuffer } from './trajectory-buffer.ts';

/** Largest number of lanes, because a row stores its lane in 16 bits. */
const MAX_LANES = 2 ** 16;
/**
 * Smallest `most` of take(). A step that ends its episode and the final observation after it are
 * taken together.
 */
const MIN_ROWS = 2;

export interface TakenSteps {
  /** number of steps and final observations */
  readonly rows: number;
  /** number of steps, which the limiter counts */
  readonly steps: number;
}

export interface StepsOutgoing {
  /** bytes of a row, as writer.addPacked() of a buffer with the same fields accepts it */
  readonly rowBytes: number;
  /** Returns the number of rows that are committed and were not taken yet. */
  waiting(): number;
  /**
   * Writes up to `most` rows (at least two) to `out`, from each lane in turn. A row that was
   * written counts as taken. Returns the same object each time, with the counts of this call.
   * Writes fewer rows only if all are taken, or if a step and its final observation do not both
   * fit.
   *
   * Throws RangeError for wrong arguments. Throws ERR_HOTSLOT_STATE_BUSY in this and every later
   * call if a writer has overwritten a place before it was taken.
   */
  take(out: Uint8Array, most: number): TakenSteps;
}

/**
 * Returns an object that takes steps from the first step of a buffer on. Throws a RangeError if
 * there are more lanes than a row can number, and ERR_HOTSLOT_STATE_BUSY if a lane has already lost
 * its first steps.
 */
export function stepsOutgoing(buffer: TrajectoryBuffer): StepsOutgoing {
  return new LanesOutgoing(buffer);
}

class LanesOutgoing implements StepsOutgoing {
  readonly rowBytes: number;
  readonly #handle: LanesHandle;
  readonly #lanes: number;
  readonly #perLane: number;
  /**
   * for each lane, the next place to take (`#next`), and the place after the last committed one
   * (`#ends`)
   */
  readonly #next: Float64Array;
  readonly #ends: Float64Array;
  /** rows and steps of one packLane() call */
  readonly #counts = new Float64Array(2);
  readonly #taken = { rows: 0, steps: 0 };
  /** lane from which the next rows are taken */
  #turn = 0;

  constructor(buffer: TrajectoryBuffer) {
    const { lanes, laneCapacity, layout } = buffer;
    const { memory } = internalsOfTrajectories(buffer);
    if (lanes > MAX_LANES)
      throw rangeError(`steps of at most ${MAX_LANES} lanes can go out, got ${lanes}`);
    this.rowBytes = rowBytesOf(layout);
    this.#handle = lanesAddon().openLanes(memory);
    this.#lanes = lanes;
    this.#perLane = laneCapacity;
    this.#next = new Float64Array(lanes);
    this.#ends = new Float64Array(lanes);
    for (let lane = 0; lane < lanes; lane++) {
      const { from } = spanOf(this.#handle, lane);
      if (from > 0)
        throw stateError(
          'BUSY',
          `lane ${lane} has lost its first ${from} places; take lanes from their start`,
        );
    }
  }

  waiting(): number {
    this.#poll();
    let rows = 0;
    for (let lane = 0; lane < this.#lanes; lane++) rows += this.#ends[lane]! - this.#next[lane]!;
    return rows;
  }

  take(out: Uint8Array, most: number): TakenSteps {
    if (!(out instanceof Uint8Array))
      throw typeError(`out must be a Uint8Array, got ${describeValue(out)}`);
    checkCount('most', most, MIN_ROWS);
    const { rowBytes } = this;
    if (out.length < most * rowBytes)
      throw rangeError(
        `out must hold ${most} rows × ${rowBytes} bytes = ${most * rowBytes}, got ${out.length}`,
      );
    this.#poll();
    const taken = this.#taken;
    taken.rows = 0;
    taken.steps = 0;
    const share = this.#share(most);
    // The loop ends after it has tried every lane once in succession without a row. Each lane then
    // has no rows left, or none that fit into `out`.
    for (let idle = 0; idle < this.#lanes && taken.rows < most; ) {
      const lane = this.#turn;
      this.#turn = lane + 1 === this.#lanes ? 0 : lane + 1;
      const rows = this.#pack(lane, Math.min(share, most - taken.rows), out);
      idle = rows > 0 ? 0 : idle + 1;
    }
    return taken;
  }

  #poll(): void {
    lanesAddon().laneEnds(this.#handle, this.#ends);
  }

  /**
   * Returns how many rows to take from a lane in one turn. The number is the same for all lanes
   * that have rows.
   */
  #share(most: number): number {
    let lanes = 0;
    for (let lane = 0; lane < this.#lanes; lane++)
      if (this.#ends[lane]! > this.#next[lane]!) lanes++;
    return Math.max(MIN_ROWS, Math.floor(most / lanes));
  }

  /** Writes rows of a lane after the rows that are already in `out`, and returns their number. */
  #pack(lane: number, most: number, out: Uint8Array): number {
    const from = this.#next[lane]!;
    const count = Math.min(this.#ends[lane]! - from, most);
    if (count === 0) return 0;
    const at = this.#taken.rows * this.rowBytes;
    if (!lanesAddon().packLane(this.#handle, lane, from, count, out, at, this.#counts))
      throw stateError(
        'BUSY',
        `lane ${lane} was written over before its steps from place ${from} on were taken: ` +
          `${this.#perLane} places are too few for the steps that the limiter admits between two polls`,
      );
    const rows = this.#counts[0]!;
    this.#next[lane] = from + rows;
    this.#taken.rows += rows;
    this.#taken.steps += this.#counts[1]!;
    return rows;
  }
}
