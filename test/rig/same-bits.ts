/** The meaning of "the same bits" for numbers: equal bits, or NaN for NaN. */
import type { TypedArray } from '../../src/base/dtype.ts';

const bytesOf = ({ buffer, byteOffset, byteLength }: TypedArray) =>
  Buffer.from(buffer, byteOffset, byteLength);

/**
 * Returns the index of the first element that differs, or −1. All NaNs are the same, because sign
 * and payload depend on the processor (x86 makes 0xffc00000, PTX 0x7fffffff).
 */
export function firstDifference(got: TypedArray, want: TypedArray): number {
  if (bytesOf(got).equals(bytesOf(want))) return -1;
  const both = Math.min(got.length, want.length);
  for (let at = 0; at < both; at++) {
    if (Number.isNaN(got[at]) && Number.isNaN(want[at])) continue;
    if (!bytesOf(got.subarray(at, at + 1)).equals(bytesOf(want.subarray(at, at + 1)))) return at;
  }
  return got.length === want.length ? -1 : both;
}
