/**
 * Caches the buffers of finalized transformers for 'cpu', which has no device that could cache
 * them. Each thread has its own cache.
 */

import { arrayOf, type DType, dtypes, type TypedArray } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import type { CacheCounts } from '../../device/facts.ts';

/**
 * Maximum bytes in the cache. When they exceed this limit, giveBuffer() drops the arrays that were
 * returned first.
 */
const MAX_BYTES = 256 << 20;

/** Cached arrays, in the order in which they were returned. */
const kept: TypedArray[] = [];
const counts: CacheCounts = { hits: 0, misses: 0, bytes: 0 };

/**
 * Returns an array of `length` elements with unspecified contents, from the cache if possible.
 * Throws ERR_HOTSLOT_MEMORY if the array cannot be allocated.
 */
export function takeBuffer(dtype: DType, length: number): TypedArray {
  const { array, bytes } = dtypes[dtype];
  const at = kept.findLastIndex((each) => each instanceof array && each.length === length);
  if (at < 0) {
    counts.misses++;
    try {
      return arrayOf(dtype, length);
    } catch (error) {
      const text = `a halo buffer of ${length} ${dtype} is ${length * bytes} bytes: ${(error as Error).message}`;
      throw rangeError(text, 'ERR_HOTSLOT_MEMORY');
    }
  }
  const [buffer] = kept.splice(at, 1) as [TypedArray];
  counts.hits++;
  counts.bytes -= buffer.byteLength;
  return buffer;
}

export function giveBuffer(buffer: TypedArray): void {
  kept.push(buffer);
  counts.bytes += buffer.byteLength;
  while (counts.bytes > MAX_BYTES) counts.bytes -= (kept.shift() as TypedArray).byteLength;
}

export function bufferCounts(): CacheCounts {
  return { ...counts };
}
