/**
 * Typed arrays that were given back and wait to be asked for again: `cpu` is no device that could
 * keep them. One per thread.
 */

import { arrayOf, type DType, dtypes, type TypedArray } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import type { CacheCounts } from '../../device/facts.ts';

/** What is more goes, the longest unused first. */
const MAX_BYTES = 256 << 20;

/** The latest last. */
const kept: TypedArray[] = [];
const counts: CacheCounts = { hits: 0, misses: 0, bytes: 0 };

/** With whatever is in it. Throws ERR_HOTSLOT_MEMORY when there is no room for so many elements. */
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
