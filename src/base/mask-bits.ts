/**
 * Masks of legal actions as bits. Buffers store them in this form: bit i % 32 of word ⌊i / 32⌋ is 1
 * if action i is legal.
 */
import { checkCount } from './checks.ts';

/** Most actions of a mask. */
export const MAX_MASKED = 4096;

/** Returns `n`. Throws a TypeError or RangeError unless it is a number of actions of a mask. */
export const checkMaskSize = (name: string, n: unknown): number =>
  checkCount(name, n as number, 1, MAX_MASKED);

/** Returns the number of 32-bit words of one mask of `n` actions. */
export const maskWords = (n: number): number => Math.ceil(n / 32);

/**
 * Packs masks of one byte for each action.
 *
 * @param bytes [rows × n]. A byte that is not 0 is a legal action
 * @param n number of actions
 * @param into array of rows × maskWords(n) words to write, default: a new one
 * @returns the words. Bits after the last action of a mask are 0
 */
export function packMasks(
  bytes: ArrayLike<number>,
  n: number,
  into: Uint32Array = new Uint32Array((bytes.length / n) * maskWords(n)),
): Uint32Array {
  let at = 0;
  for (let word = 0; at < bytes.length; ) {
    const end = at + n;
    while (at < end) {
      let bits = 0;
      const last = Math.min(32, end - at);
      for (let bit = 0; bit < last; bit++) if (bytes[at + bit] !== 0) bits |= 1 << bit;
      into[word++] = bits;
      at += last;
    }
  }
  return into;
}

/** Returns masks of one byte for each action, 0 or 1, from words that packMasks() wrote. */
export function unpackMasks(words: Uint32Array, n: number): Uint8Array {
  const each = maskWords(n);
  const rows = words.length / each;
  const bytes = new Uint8Array(rows * n);
  for (let row = 0, at = 0; row < rows; row++)
    for (let i = 0; i < n; i++)
      bytes[at++] = ((words[row * each + (i >> 5)] as number) >>> (i & 31)) & 1;
  return bytes;
}
