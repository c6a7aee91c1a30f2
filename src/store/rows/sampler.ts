/**
 * Checks the options of a draw, and draws uniform indices that equal those of torch's CPU generator
 * bit by bit. All functions are pure, so any thread may call them.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { arrayOf, type TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { rowsAddon } from './rows-addon.ts';

/** Options of ReplayBuffer.sample(). */
export interface SampleOptions {
  /** seed of the draw, a whole number of at least 0 or a bigint below 2⁶⁴, see uniformIndices() */
  seed: number | bigint;
  /** rows to sample, with replacement, at least 1 */
  count: number;
  /** destination of the sampled indices, at least `count` long, default: none */
  indices?: Uint32Array;
}

/** Sampled rows. */
export interface Sample<T extends TypedArray = TypedArray> {
  /** count × rowBytes bytes, packed */
  rows: T;
  /** rows ever committed when the rows were sampled */
  ptr: number;
  /** number of rows from which the rows were sampled */
  size: number;
}

/** Largest number of rows to draw from. From 2³² rows on, torch draws in another way. */
export const MAX_DRAW_SIZE = 2 ** 32 - 1;

/** Throws unless `out` has room for `count` rows of `rowBytes` bytes. */
export function checkOut(out: unknown, count: number, rowBytes: number): void {
  const least = count * rowBytes;
  if (!ArrayBuffer.isView(out) || out instanceof DataView)
    throw typeError(`out must be a typed array, got ${typeof out}`);
  if (out.byteLength < least)
    throw rangeError(
      `out must hold ${count} rows × ${rowBytes} bytes = ${least}, got ${out.byteLength} bytes`,
    );
}

/**
 * Returns the low 32 bits of a seed, which are all that torch's generator uses. Throws a TypeError
 * unless `seed` is a number or bigint. Throws a RangeError unless it is whole, not negative, and
 * (as a bigint) below 2⁶⁴ or (as a number) a safe integer.
 */
export function seedWord(seed: number | bigint): number {
  if (typeof seed === 'bigint') {
    if (seed < 0n || seed >= 1n << 64n)
      throw rangeError(`seed must be from 0 to 2^64 - 1, got ${seed}`);
    return Number(seed & 0xffff_ffffn);
  }
  if (typeof seed !== 'number')
    throw typeError(`seed must be a number or a bigint, got ${typeof seed}`);
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw rangeError(
      `seed must be a safe whole number of at least 0 (use a bigint beyond 2^53), got ${seed}`,
    );
  }
  return seed >>> 0;
}

/**
 * Checks the options of sample(). Throws a TypeError or RangeError that names the invalid value.
 */
export function checkSample(options: SampleOptions): {
  word: number;
  count: number;
  indices: Uint32Array | undefined;
} {
  checkKeys('sample', options, ['seed', 'count', 'indices']);
  const word = seedWord(options.seed);
  const { indices } = options;
  const count = checkCount('count', options.count, 1, MAX_DRAW_SIZE);
  if (indices !== undefined && !(indices instanceof Uint32Array && indices.length >= count))
    throw typeError(
      `indices must be a Uint32Array of at least ${count}, got ${indices?.length ?? typeof indices}`,
    );
  return { word, count, indices };
}

/**
 * Returns random indices below `size`, drawn with replacement, equal to those of torch's CPU
 * generator. They are the values of `torch.randint(0, size, (count,), generator=g)` with
 * `g = torch.Generator('cpu').manual_seed(seed)`.
 *
 * @param options `seed`: a whole number of at least 0 or a bigint below 2⁶⁴, of which the low 32
 *   bits count. `size`: 1 to 2³² − 1. `count`: 0 to 2³² − 1
 * @throws {TypeError|RangeError} for an invalid option. The text names it
 * @example
 * const indices = uniformIndices({ seed: 0, size: 10, count: 5 }); // 4 9 3 0 3
 */
export function uniformIndices(options: {
  seed: number | bigint;
  size: number;
  count: number;
}): Uint32Array {
  checkKeys('uniformIndices', options, ['seed', 'size', 'count']);
  const { seed, size, count } = options;
  const word = seedWord(seed);
  checkCount('size', size, 1, MAX_DRAW_SIZE);
  const indices = arrayOf('uint32', checkCount('count', count, 0, MAX_DRAW_SIZE));
  rowsAddon().drawIndices(word, size, indices);
  return indices;
}
