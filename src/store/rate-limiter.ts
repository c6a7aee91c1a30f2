/**
 * Bounds how many rows are sampled per row inserted, by Reverb's SampleToInsertRatio. Its counts
 * lie in shared memory and move natively (native/rows/limiter.hpp); any thread may ask and count.
 */
import {
  checkCount,
  checkFlag,
  checkInternal,
  checkKeys,
  describeValue,
  INTERNAL,
} from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { BELL_WORDS, BellBoard } from '../shm/bell.ts';
import { allocateShared, checkRoom, checkShared, LINE } from '../shm/memory.ts';
import { persistenceAddon } from './rows/persistence-addon.ts';
import { type LimiterHandle, rowsAddon } from './rows/rows-addon.ts';

/** collectors that can wait for room to add */
const BELLS = 16;
/** Behind what native code counts: a cache line with the largest batch, then the bells. */
function placesOf() {
  const batchAt = rowsAddon().layouts.limiter.bytes;
  const bellsAt = batchAt + LINE * 4;
  return { batchAt, bellsAt, bytes: bellsAt + BELLS * BELL_WORDS * 4 };
}

const KIND = 'hotslot.RateLimiter';

export type { LimiterHandle };

export interface RateLimiterOptions {
  /** rows sampled per row inserted, on average; more than 0 */
  samplesPerInsert: number;
  /** rows that must be inserted before the first sample; at least 1 */
  minSize: number;
  /**
   * how far samples and inserts × samplesPerInsert may drift apart, in sampled rows; at least a
   * batch. Default: minSize rows, or the samples of as many inserts where those are more
   */
  errorBuffer?: number;
  /**
   * whether add() too answers "not yet" when inserts lead by more than the error buffer (default
   * false)
   */
  gateAdd?: boolean;
}

/** What share() gives and attach() takes; goes through postMessage as it is. */
export interface SharedRateLimiter extends Required<RateLimiterOptions> {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
}

/** For the package itself; not exported from it. */
export let internalsOfLimiter: (limiter: RateLimiter) => {
  /** rung after samples are counted: bells of collectors that wait to add */
  readonly bells: BellBoard;
  /** for the native add, which admits and counts inserts in the same call as it writes the rows */
  readonly handle: LimiterHandle;
  /**
   * After add() was told "not yet": throws a RangeError when `rows` at once could never be
   * admitted.
   */
  checkAdd(rows: number): void;
  /**
   * rows that an add may have at once, beside the largest batch: what must not wait for ever is no
   * longer
   */
  mostAtOnce(): number;
  /**
   * takeSamples() that leaves `value` in `word[0]`: both or neither, whenever the thread is ended
   */
  take(rows: number, word: Int32Array, value: number): boolean;
  /** rows that were taken, and never sampled; the word in the same way */
  giveBack(rows: number, word: Int32Array, value: number): void;
  /** as a restore has it; nobody uses it yet */
  restore(inserts: number, samples: number): void;
};

export class RateLimiter {
  readonly samplesPerInsert: number;
  readonly minSize: number;
  readonly errorBuffer: number;
  readonly gateAdd: boolean;
  readonly #bells: BellBoard;
  readonly #handle: LimiterHandle;
  readonly #memory: Float64Array;
  readonly #shared: SharedRateLimiter;
  readonly #counts = new Float64Array(3);
  /**
   * largest batch a pipeline said it asks for, so that an add that could block it is refused; 0
   * while unknown
   */
  readonly #batch: Int32Array;

  /** Only what has what is private to it: a proxy of one, or what inherits from one, has not. */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #bells in made;
  }

  static {
    internalsOfLimiter = (limiter) => ({
      bells: limiter.#bells,
      handle: limiter.#handle,
      checkAdd: (rows) => limiter.#checkAdd(rows),
      mostAtOnce: () => {
        if (!limiter.gateAdd) return Number.POSITIVE_INFINITY;
        const room = limiter.errorBuffer - Atomics.load(limiter.#batch, 0);
        return Math.max(1, Math.floor(room / limiter.samplesPerInsert));
      },
      take: (rows, word, value) =>
        limiter.#rung(rowsAddon().takeSamples(limiter.#handle, rows, word, value)),
      giveBack: (rows, word, value) =>
        rowsAddon().countSamples(limiter.#handle, -rows, word, value),
      restore: (inserts, samples) =>
        persistenceAddon().setLimiter(limiter.#memory, inserts, samples),
    });
  }

  private constructor(key: unknown, shared: SharedRateLimiter) {
    checkInternal(key, 'RateLimiter', 'RateLimiter.create() or attach()');
    this.#shared = shared;
    this.samplesPerInsert = shared.samplesPerInsert;
    this.minSize = shared.minSize;
    this.errorBuffer = shared.errorBuffer;
    this.gateAdd = shared.gateAdd;
    const { memory, offset } = shared;
    const { batchAt, bellsAt, bytes } = placesOf();
    this.#batch = new Int32Array(memory, offset + batchAt, 1);
    this.#bells = BellBoard.over({ memory, offset: offset + bellsAt }, BELLS);
    this.#memory = new Float64Array(memory, offset, bytes / 8);
    this.#handle = rowsAddon().openLimiter(this.#memory);
  }

  /**
   * A limiter in shared memory of its own. Throws TypeError or RangeError naming the option that is
   * not allowed.
   */
  static create(options: RateLimiterOptions): RateLimiter {
    checkKeys('RateLimiter.create', options, [
      'samplesPerInsert',
      'minSize',
      'errorBuffer',
      'gateAdd',
    ]);
    const samplesPerInsert = checkPositive('samplesPerInsert', options.samplesPerInsert);
    const minSize = checkCount('minSize', options.minSize);
    const { gateAdd = false, errorBuffer = minSize * Math.max(1, samplesPerInsert) } = options;
    checkPositive('errorBuffer', errorBuffer);
    checkFlag('gateAdd', gateAdd);
    const { bytes } = placesOf();
    const place = allocateShared('a rate limiter', bytes, 64);
    // Read by other threads only after share(), which publishes it.
    const memory = new Float64Array(place.memory, place.offset, bytes / 8);
    rowsAddon().formatLimiter(memory, samplesPerInsert, minSize, errorBuffer, gateAdd);
    return new RateLimiter(
      INTERNAL,
      Object.freeze({ kind: KIND, ...place, samplesPerInsert, minSize, errorBuffer, gateAdd }),
    );
  }

  /** The same limiter in another thread. Throws a TypeError unless it came from share(). */
  static attach(shared: SharedRateLimiter): RateLimiter {
    checkShared(
      KIND,
      shared,
      shared?.memory,
      'RateLimiter.attach() needs what share() of a rate limiter returned',
    );
    checkRoom(shared, placesOf().bytes);
    return new RateLimiter(INTERNAL, shared);
  }

  share(): SharedRateLimiter {
    return this.#shared;
  }

  /** Rows committed through the buffers this limiter belongs to. */
  get inserts(): number {
    return this.#read()[1]!;
  }

  /** Rows counted as sampled. */
  get samples(): number {
    return this.#read()[2]!;
  }

  /**
   * Whether a batch of `rows` may be sampled now: at least minSize rows are in, and samples + rows
   * stay within samplesPerInsert × (inserts − minSize) + errorBuffer. Counts nothing: one requester
   * asks, then calls countSamples(); several at once use takeSamples().
   */
  admitSample(rows: number): boolean {
    return rowsAddon().maySample(this.#handle, checkCount('rows', rows, 0));
  }

  /** Counts `rows` as sampled, admitted or not, and wakes collectors that wait to add. */
  countSamples(rows: number): void {
    rowsAddon().countSamples(this.#handle, checkCount('rows', rows, 0));
    this.#bells.ringAll();
  }

  /**
   * admitSample() and countSamples() in one step: of several threads only as many pass as there is
   * room for.
   */
  takeSamples(rows: number): boolean {
    return this.#rung(rowsAddon().takeSamples(this.#handle, checkCount('rows', rows)));
  }
  #rung(taken: boolean): boolean {
    if (taken) this.#bells.ringAll();
    return taken;
  }

  /** Whether an add of `rows` would be taken now; always true unless gateAdd. */
  admitInsert(rows: number): boolean {
    return rowsAddon().mayInsert(this.#handle, checkCount('rows', rows, 0));
  }

  /** What a batch of `rows` waits for, in words, or null when it would be admitted. */
  waitingFor(rows: number): string | null {
    if (this.admitSample(rows)) return null;
    const [, inserts, samples] = this.#read() as unknown as [number, number, number];
    if (inserts < this.minSize)
      return `samples: needs ${count(this.minSize)} rows, has ${count(inserts)}`;
    const needed =
      Math.ceil((samples + rows - this.errorBuffer) / this.samplesPerInsert) + this.minSize;
    return `samples: a batch of ${count(rows)} needs ${count(needed)} rows inserted, has ${count(inserts)} (${count(samples)} sampled)`;
  }

  /** What an add of `rows` waits for, in words, or null when it would be taken. */
  addWaitingFor(rows: number): string | null {
    if (this.admitInsert(rows)) return null;
    const [admitted, , samples] = this.#read() as unknown as [number, number, number];
    const needed = Math.ceil(
      this.samplesPerInsert * (admitted + rows - this.minSize) - this.errorBuffer,
    );
    return `inserts: an add of ${count(rows)} needs ${count(needed)} rows sampled, has ${count(samples)} (${count(admitted)} inserted)`;
  }

  /**
   * Refuses a band in which batches and adds could each wait for the other: the error buffer must
   * hold one batch plus one add, in sampled rows. Pipelines call it before they start; adds that
   * come later are held to the same rule.
   */
  checkBand(options: { sampleCount: number; addCount?: number }): void {
    checkKeys('checkBand', options, ['sampleCount', 'addCount']);
    const { sampleCount, addCount = 1 } = options;
    checkCount('sampleCount', sampleCount);
    checkCount('addCount', addCount);
    this.#checkRoom(sampleCount, addCount);
    let known = Atomics.load(this.#batch, 0);
    // Keeps the largest; publishes a bound that only add() reads, to explain a refusal.
    while (known < sampleCount) known = Atomics.compareExchange(this.#batch, 0, known, sampleCount);
  }

  #checkAdd(rows: number): void {
    if (this.gateAdd) this.#checkRoom(Atomics.load(this.#batch, 0), rows);
  }

  #checkRoom(sampleCount: number, addCount: number): void {
    const needed = sampleCount + this.samplesPerInsert * addCount;
    if (this.errorBuffer >= needed) return;
    throw rangeError(
      `errorBuffer ${this.errorBuffer} is too small: a batch of ${sampleCount} rows plus an add of ${addCount} rows × ` +
        `samplesPerInsert ${this.samplesPerInsert} needs at least ${needed}`,
    );
  }

  #read(): Float64Array {
    rowsAddon().limiterCounts(this.#handle, this.#counts);
    return this.#counts;
  }
}

function checkPositive(name: string, value: unknown): number {
  if (typeof value !== 'number') throw typeError(`${name} must be a number, got ${typeof value}`);
  if (!Number.isFinite(value) || value <= 0)
    throw rangeError(`${name} must be a finite number above 0, got ${value}`);
  return value;
}

function count(rows: number): string {
  return rows.toLocaleString('en-US');
}

/** Throws a TypeError unless it is a limiter of this thread, or none. */
export function checkLimiter(limiter: unknown): asserts limiter is RateLimiter | null {
  if (limiter !== null && !(limiter instanceof RateLimiter))
    throw typeError(`limiter must be a RateLimiter, got ${describeValue(limiter)}`);
}
