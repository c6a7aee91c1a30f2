/**
 * Drawing rows: the options of a draw, and uniform indices, bit-equal to torch's CPU generator.
 * Pure, so any thread may call it.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { arrayOf, type TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { rowsAddon } from './rows-addon.ts';

export interface SampleOptions {
  /** see uniformIndices */
  seed: number | bigint;
  /** rows to draw, with replacement */
  count: number;
  /** filled with the drawn indices if given, at least `count` long */
  indices?: Uint32Array;
}

export interface Sample<T extends TypedArray = TypedArray> {
  /** count × rowBytes bytes, packed */
  rows: T;
  /** rows ever committed, and rows drawn from, at the snapshot */
  ptr: number;
  size: number;
}

/** Largest number of rows to draw from. From 2³² on torch uses another draw. */
export const MAX_DRAW_SIZE = 2 ** 32 - 1;

/** Throws unless `out` holds `count` rows of `rowBytes` bytes. */
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
 * Returns the part of a seed that torch's generator uses: its low 32 bits. Throws a TypeError
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
 * Returns `count` indices below `size`, drawn with replacement: exactly the values that torch
 * returns for `torch.Generator('cpu').manual_seed(seed)` and `torch.randint(0, size, (count,),
 * generator=g)`. `size` is 1 … 2³² − 1. Throws TypeError or RangeError naming the value that is not
 * allowed.
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
