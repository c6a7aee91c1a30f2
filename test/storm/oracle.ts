/**
 * The checks of a storm's buffers, made while the buffers are written: every row is there once, in
 * order, and not torn.
 */

import { type RateLimiter, ReplayBuffer, type TrajectoryBuffer } from '../../src/index.ts';
import type { FieldLayout } from '../../src/store/rows/pack-layout.ts';
import {
  BODY,
  bodyOf,
  endsAt,
  type LaneCounts,
  numberOf,
  prioOf,
  rowFields,
  type stepFields,
} from './numbers.ts';

export type StormSteps = TrajectoryBuffer<typeof stepFields>;
export type StormRows = ReturnType<typeof stormRows>;

export const stormRows = (capacity: number, limiter?: RateLimiter) =>
  ReplayBuffer.create({ capacity, fields: rowFields, ...(limiter && { limiter }) });

/** Called with a text for each error. */
export type Wrong = (text: string) => void;

const whole = (body: ArrayLike<number>, at: number, value: number): boolean => {
  for (let i = 0; i < BODY; i++) if (body[at * BODY + i] !== value) return false;
  return true;
};

/** Reads each lane as far as it is committed, from where the last scan ended. */
export class LaneScan {
  /**
   * number of steps that were read, and of places that were overwritten before the scan reached
   * them
   */
  seen = 0;
  passed = 0;
  readonly #buffer: StormSteps;
  readonly #counts: LaneCounts;
  readonly #wrong: Wrong;
  readonly #next: number[];
  /** for each lane, the number of the newest step read; null if unknown */
  readonly #last: (number | null)[];
  readonly #open: boolean[];

  constructor(buffer: StormSteps, counts: LaneCounts, wrong: Wrong) {
    this.#buffer = buffer;
    this.#counts = counts;
    this.#wrong = wrong;
    const each = <T>(value: T) => Array.from({ length: buffer.lanes }, () => value);
    [this.#next, this.#last, this.#open] = [each(0), each<number | null>(null), each(false)];
  }

  /** Scans all lanes. If `still`, no writer is left, so the oldest places are read too. */
  look(still = false): void {
    for (let lane = 0; lane < this.#buffer.lanes; lane++) this.#lane(lane, still);
  }
  #lane(lane: number, still: boolean): void {
    const { lanes, laneCapacity } = this.#buffer;
    const end = this.#counts.committed(lane);
    const from = Math.max(
      this.#next[lane]!,
      end - laneCapacity + (still ? 0 : laneCapacity >> 2),
      0,
    );
    if (from > this.#next[lane]!) this.#pass(lane, from);
    for (let at = from; at < end; at = this.#next[lane]!) {
      const ids = Float64Array.from(
        { length: Math.min(512, end - at) },
        (_, i) => (at + i) * lanes + lane,
      );
      let read: ReturnType<StormSteps['read']>;
      try {
        read = this.#buffer.read(ids);
      } catch (error) {
        if ((error as { code?: string }).code !== 'ERR_HOTSLOT_RANGE' || still) throw error;
        this.#pass(lane, end);
        return;
      }
      this.#next[lane] = at + ids.length;
      for (let i = 0; i < ids.length; i++) this.#step(lane, read, i);
    }
    // Places are committed before their steps are counted, so the count is only checked when no
    // writer is left.
    const { steps } = this.#counts;
    if (still && this.#last[lane] !== null && steps(lane) !== this.#last[lane]! + 1)
      this.#wrong(
        `lane ${lane} counts ${steps(lane)} steps, its newest one is number ${this.#last[lane]}`,
      );
  }
  #pass(lane: number, to: number): void {
    this.passed += to - this.#next[lane]!;
    this.#next[lane] = to;
    this.#last[lane] = null;
  }
  #step(lane: number, read: ReturnType<StormSteps['read']>, i: number): void {
    const [of, rounds, rest, final] = read.obs.subarray(4 * i, 4 * i + 4);
    const number = numberOf(rounds!, rest!);
    const last = this.#last[lane];
    const where = `lane ${lane}: ${final ? 'the final observation of ' : ''}step ${number} behind ${last}`;
    if (of !== lane || read.final[i] !== final)
      this.#wrong(`${where} says lane ${of} and final ${final}`);
    if (final === 1) {
      if (last !== null && (last !== number || !this.#open[lane]))
        this.#wrong(`${where} does not belong there`);
      this.#open[lane] = false;
      return;
    }
    if (last !== null && last !== undefined && number !== last + 1)
      this.#wrong(`${where}: ${number <= last ? 'doubled' : 'lost'}`);
    if (last !== null && this.#open[lane]) this.#wrong(`${where}: a final observation is missing`);
    if (!whole(read.body, i, bodyOf(lane, number)) || read.prio[i] !== prioOf(lane, number))
      this.#wrong(`${where} is torn`);
    this.#open[lane] = endsAt(lane, number);
    this.#last[lane] = number;
    this.seen++;
  }
}

/** Reads new rows of a buffer, and remembers the last number of each writer. */
export class RowScan {
  seen = 0;
  passed = 0;
  /** number of missing rows, counted at the rows that came after the restored ones */
  gaps = 0;
  readonly #buffer: StormRows;
  readonly #wrong: Wrong;
  readonly #last = new Map<string, number>();
  #next: number;
  /**
   * number of collectors whose next row may follow a gap: the life before has already counted what
   * was lost with its learner
   */
  #cut = 0;
  #restored = new Set<string>();

  constructor(buffer: StormRows, wrong: Wrong, cut = 0) {
    this.#buffer = buffer;
    this.#wrong = wrong;
    this.#next = Math.max(0, buffer.ptr - buffer.size);
    // The restored rows may have gaps of an earlier life, which are not counted.
    this.look(true);
    this.gaps = 0;
    this.#cut = cut;
    this.#restored = new Set(this.#last.keys());
  }

  look(still = false): void {
    const { capacity } = this.#buffer;
    for (;;) {
      const end = this.#buffer.ptr;
      const oldest = Math.max(0, end - capacity + (still ? 0 : capacity >> 2));
      if (oldest > this.#next) {
        this.passed += oldest - this.#next;
        this.#next = oldest;
        this.#last.clear();
      }
      const count = Math.min(1024, end - this.#next);
      if (count <= 0) return;
      const { rowBytes, layout } = this.#buffer;
      const indices = Uint32Array.from({ length: count }, (_, i) => (this.#next + i) % capacity);
      const bytes = this.#buffer.gather(indices, new Uint8Array(count * rowBytes));
      // The rows may have been overwritten while they were copied, so they are read again.
      if (!still && this.#buffer.ptr > this.#next + capacity - (capacity >> 3)) continue;
      const view = new DataView(bytes.buffer);
      const { value, body } = layout.fields as { value: FieldLayout; body: FieldLayout };
      for (let i = 0; i < count; i++) {
        const values = Array.from({ length: 4 }, (_, j) =>
          view.getFloat64(i * rowBytes + value.offset + 8 * j, true),
        );
        const words = Array.from({ length: BODY }, (_, j) =>
          view.getFloat32(i * rowBytes + body.offset + 4 * j, true),
        );
        this.#row(values as [number, number, number, number], words);
      }
      this.#next += count;
      this.seen += count;
    }
  }
  #row([seed, worker, number, weight]: [number, number, number, number], body: number[]): void {
    const who = `${seed}/${worker}`;
    const last = this.#last.get(who);
    const where = `row ${number} of ${who} behind ${last}`;
    if (last !== undefined && number <= last) this.#wrong(`${where}: doubled`);
    if (last !== undefined && number > last + 1) {
      if (this.#cut > 0 && this.#restored.has(who)) this.#cut--;
      else this.gaps += number - last - 1;
    }
    this.#restored.delete(who);
    if (!whole(body, 0, bodyOf(worker, number))) this.#wrong(`${where} is torn`);
    if (weight < 0) this.#wrong(`${where} was acted by weights that were torn`);
    this.#last.set(who, number);
  }
}

/**
 * Checks the emitted ticks: their numbers are consecutive, each is applied once, and no row of a
 * batch is torn.
 */
export class TickScan {
  told = 0;
  missed = 0;
  #next: number | null = null;
  readonly #manual = new Set<number>();
  readonly #wrong: Wrong;

  constructor(wrong: Wrong) {
    this.#wrong = wrong;
  }
  /** Announces a manual tick, which has no scalars. */
  manual(tickId: number): void {
    this.#manual.add(tickId);
  }
  tick({ tickId, scalars }: { tickId: number; scalars: Readonly<Record<string, number>> }): void {
    if (this.#next !== null && tickId !== this.#next)
      this.#wrong(`tick ${tickId} was told where ${this.#next} was next`);
    this.#next = tickId + 1;
    this.told++;
    if (this.#manual.delete(tickId)) return;
    if (scalars.count !== tickId + 1) this.#wrong(`tick ${tickId} is update ${scalars.count}`);
    if (scalars.torn !== 0) this.#wrong(`tick ${tickId} had a torn row (${scalars.torn})`);
  }
  miss(count: number): void {
    this.missed += count;
    this.#next = null;
  }
}
