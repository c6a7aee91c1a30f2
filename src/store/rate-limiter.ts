/**
 * Bounds how many rows are sampled per row inserted, as Reverb's SampleToInsertRatio does. Its
 * counts are in shared memory, and native code changes them (native/rows/limiter.hpp). Any thread
 * may check and count.
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

/** Largest number of collectors that can wait to add at the same time. */
const BELLS = 16;
/**
 * Returns the offsets of the parts that follow native code's counts: a cache line with the largest
 * batch, then the bells. `bytes` is the size of the whole memory.
 */
function placesOf() {
  const batchAt = rowsAddon().layouts.limiter.bytes;
  const bellsAt = batchAt + LINE * 4;
  return { batchAt, bellsAt, bytes: bellsAt + BELLS * BELL_WORDS * 4 };
}

const KIND = 'hotslot.RateLimiter';

export type { LimiterHandle };

/** Options of RateLimiter.create(). */
export interface RateLimiterOptions {
  /** mean number of sampled rows per inserted row, more than 0 */
  samplesPerInsert: number;
  /** inserted rows before the first sample, at least 1 */
  minSize: number;
  /**
   * allowed drift of samples from inserts × samplesPerInsert, in sampled rows. It must be at least
   * a batch plus an add. Default: minSize × max(1, samplesPerInsert)
   */
  errorBuffer?: number;
  /** whether add() returns 0 while inserts lead by more than the error buffer, default false */
  gateAdd?: boolean;
}

/** The object that share() returns and attach() accepts. postMessage sends it as it is. */
export interface SharedRateLimiter extends Required<RateLimiterOptions> {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
}

/**
 * Returns parts of a limiter for other modules of the package. The package does not export this
 * function.
 */
export let internalsOfLimiter: (limiter: RateLimiter) => {
  /** bells of collectors that wait to add, rung after samples are counted */
  readonly bells: BellBoard;
  /**
   * handle for the native add, which admits and counts inserts in the same call as it writes the
   * rows
   */
  readonly handle: LimiterHandle;
  /**
   * Throws a RangeError if an add of `rows` rows can never be admitted. A buffer calls it after the
   * limiter has admitted no row, before add() returns 0.
   */
  checkAdd(rows: number): void;
  /**
   * Returns the most rows that one add may have, next to the largest batch that a pipeline
   * declared. The limiter might never admit a larger add. Returns infinity without gateAdd
   */
  mostAtOnce(): number;
  /**
   * Does takeSamples(), and stores `value` in `word[0]` if the batch was admitted. Both happen in
   * one native call, so a thread that is terminated has done both or neither
   */
  take(rows: number, word: Int32Array, value: number): boolean;
  /**
   * Subtracts rows that were counted as sampled, but will not be sampled. Stores `value` in
   * `word[0]` in the same native call
   */
  giveBack(rows: number, word: Int32Array, value: number): void;
  /** Sets the counts of a limiter that is being restored and is not in use yet */
  restore(inserts: number, samples: number): void;
};

/**
 * Bounds how many rows are sampled per row inserted, as Reverb's SampleToInsertRatio does. Its
 * counts are in shared memory, so any thread may check and count.
 * @example
 * const limiter = RateLimiter.create({ samplesPerInsert: 8, minSize: 1000, gateAdd: true });
 * const buffer = ReplayBuffer.offPolicy({ capacity: 100_000, obsDim: 4, actionDim: 1, limiter });
 * console.log(limiter.waitingFor(256)); // samples: needs 1,000 rows, has 0
 */
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
   * rows of the largest batch that a pipeline declared, or 0 while unknown. An add that could block
   * such a batch is rejected
   */
  readonly #batch: Int32Array;

  /**
   * Returns true only for an object with this class's private field. A proxy of a limiter, or an
   * object that inherits from a limiter, lacks the field.
   */
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
   * Creates a limiter in new shared memory.
   *
   * @throws {TypeError|RangeError} for an invalid option. The text names it
   * @throws {ERR_HOTSLOT_MEMORY} if its memory cannot be allocated
   * @example
   * const limiter = RateLimiter.create({ samplesPerInsert: 8, minSize: 1000, errorBuffer: 4096 });
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
    // Other threads read this memory only after share(), which publishes it.
    const memory = new Float64Array(place.memory, place.offset, bytes / 8);
    rowsAddon().formatLimiter(memory, samplesPerInsert, minSize, errorBuffer, gateAdd);
    return new RateLimiter(
      INTERNAL,
      Object.freeze({ kind: KIND, ...place, samplesPerInsert, minSize, errorBuffer, gateAdd }),
    );
  }

  /**
   * Opens the same limiter in another thread, or again in this one.
   *
   * @param shared the result of share()
   * @throws {TypeError|RangeError} unless `shared` came from share()
   */
  static attach(shared: SharedRateLimiter): RateLimiter {
    checkShared(KIND, shared, shared?.memory, 'RateLimiter.attach() needs the result of share()');
    checkRoom(shared, placesOf().bytes);
    return new RateLimiter(INTERNAL, shared);
  }

  /** Returns a plain object for postMessage or workerData. */
  share(): SharedRateLimiter {
    return this.#shared;
  }

  /** Number of rows committed through the buffers that have this limiter. */
  get inserts(): number {
    return this.#read()[1]!;
  }

  /** Number of rows counted as sampled. */
  get samples(): number {
    return this.#read()[2]!;
  }

  /**
   * Returns whether a batch may be sampled now, without counting it. A batch is admitted if at
   * least minSize rows were inserted and samples + rows ≤ samplesPerInsert × (inserts − minSize) +
   * errorBuffer. If only one thread requests batches, it calls countSamples() afterwards. If
   * several threads do, they call takeSamples() instead.
   *
   * @param rows of the batch, at least 0
   * @throws {TypeError|RangeError} for another value
   */
  admitSample(rows: number): boolean {
    return rowsAddon().maySample(this.#handle, checkCount('rows', rows, 0));
  }

  /**
   * Counts rows as sampled, whether they were admitted or not, and wakes collectors that wait to
   * add.
   *
   * @param rows at least 0
   * @throws {TypeError|RangeError} for another value
   */
  countSamples(rows: number): void {
    rowsAddon().countSamples(this.#handle, checkCount('rows', rows, 0));
    this.#bells.ringAll();
  }

  /**
   * Checks as admitSample() and counts as countSamples(), in one step, so several threads may
   * sample.
   *
   * @param rows of the batch, at least 1
   * @returns whether the batch was admitted and counted
   * @throws {TypeError|RangeError} for another value
   * @example
   * if (limiter.takeSamples(256)) buffer.sample({ seed, count: 256 });
   */
  takeSamples(rows: number): boolean {
    return this.#rung(rowsAddon().takeSamples(this.#handle, checkCount('rows', rows)));
  }
  #rung(taken: boolean): boolean {
    if (taken) this.#bells.ringAll();
    return taken;
  }

  /**
   * Returns whether an add would be admitted now. Always true without gateAdd.
   *
   * @param rows of the add, at least 0
   * @throws {TypeError|RangeError} for another value
   */
  admitInsert(rows: number): boolean {
    return rowsAddon().mayInsert(this.#handle, checkCount('rows', rows, 0));
  }

  /**
   * Returns a text that says what a batch of `rows` rows waits for, or null if it would be
   * admitted.
   *
   * @throws {TypeError|RangeError} as admitSample()
   */
  waitingFor(rows: number): string | null {
    if (this.admitSample(rows)) return null;
    const [, inserts, samples] = this.#read() as unknown as [number, number, number];
    if (inserts < this.minSize)
      return `samples: needs ${count(this.minSize)} rows, has ${count(inserts)}`;
    const needed =
      Math.ceil((samples + rows - this.errorBuffer) / this.samplesPerInsert) + this.minSize;
    return `samples: a batch of ${count(rows)} needs ${count(needed)} rows inserted, has ${count(inserts)} (${count(samples)} sampled)`;
  }

  /**
   * Returns a text that says what an add of `rows` rows waits for, or null if it would be admitted.
   *
   * @throws {TypeError|RangeError} as admitInsert()
   */
  addWaitingFor(rows: number): string | null {
    if (this.admitInsert(rows)) return null;
    const [admitted, , samples] = this.#read() as unknown as [number, number, number];
    const needed = Math.ceil(
      this.samplesPerInsert * (admitted + rows - this.minSize) - this.errorBuffer,
    );
    return `inserts: an add of ${count(rows)} needs ${count(needed)} rows sampled, has ${count(samples)} (${count(admitted)} inserted)`;
  }

  /**
   * Throws unless the error buffer has room for one batch plus one add, in sampled rows. Without
   * that room, samplers and writers could wait for each other. A pipeline calls it before it
   * starts. The largest batch that was checked is stored, and later adds must fit next to it.
   *
   * @param options `sampleCount`: rows of a batch. `addCount`: rows of an add, default 1
   * @throws {RangeError} if errorBuffer < sampleCount + samplesPerInsert × addCount
   * @throws {TypeError|RangeError} for an invalid option
   */
  checkBand(options: { sampleCount: number; addCount?: number }): void {
    checkKeys('checkBand', options, ['sampleCount', 'addCount']);
    const { sampleCount, addCount = 1 } = options;
    checkCount('sampleCount', sampleCount);
    checkCount('addCount', addCount);
    this.#checkRoom(sampleCount, addCount);
    let known = Atomics.load(this.#batch, 0);
    // Stores the maximum. The word publishes no other data, because only the checks of adds read
    // it.
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

/** Throws a TypeError unless `limiter` is a limiter of this thread, or null. */
export function checkLimiter(limiter: unknown): asserts limiter is RateLimiter | null {
  if (limiter !== null && !(limiter instanceof RateLimiter))
    throw typeError(`limiter must be a RateLimiter, got ${describeValue(limiter)}`);
}
