/**
 * A tick's head, which determines the rows that it may draw. Pack writes it next to the slot's
 * parameters, and the kernel draw_places reads it on the device.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { arrayOf } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';

const WORD = 2 ** 32;

/** The rows that a tick draws from: [low, low + span) of a ring of `places` places. */
export interface Head {
  /** 0 to 2⁵³ − 1 */
  readonly seed: number;
  readonly tick: number;
  readonly low: number;
  readonly span: number;
  readonly places: number;
}

export function writeHead(words: Int32Array, { seed, tick, low, span, places }: Head): void {
  words[0] = seed % WORD;
  words[1] = Math.floor(seed / WORD);
  words[2] = tick % WORD;
  words[3] = Math.floor(tick / WORD);
  words[4] = low % places;
  words[5] = span;
  words[6] = places;
  words[7] = 0;
}

/** Returns the upper 32 bits of the product of two 32-bit numbers. */
function upper(a: number, b: number): number {
  const [a0, a1, b0, b1] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  return (
    (a1 * b1 + Math.floor(middle / 65_536) + (((a0 * b1 + (middle % 65_536)) / 65_536) >>> 0)) >>> 0
  );
}

/** Returns Philox4x32-10 (Salmon et al. 2011) of a counter of four words and a key of two words. */
function philox(
  x: [number, number, number, number],
  key: readonly [number, number],
): [number, number, number, number] {
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [x0, x1, x2, x3] = x;
    x = [
      (upper(0xcd9e8d57, x2) ^ x1 ^ k0) >>> 0,
      Math.imul(0xcd9e8d57, x2) >>> 0,
      (upper(0xd2511f53, x0) ^ x3 ^ k1) >>> 0,
      Math.imul(0xd2511f53, x0) >>> 0,
    ];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return x;
}

/** Maps 64 bits, given as their upper and lower half, to an index below `span`. */
function drawn(high: number, low: number, span: number): number {
  const carry = upper(low, span) + (Math.imul(high, span) >>> 0);
  return upper(high, span) + Math.floor(carry / WORD);
}

/** Options of a draw out of `span` rows. */
export interface PhiloxIndices {
  /** the pipeline's baseSeed, 0 to 2⁵³ − 1 */
  readonly seed: number;
  readonly tick: number;
  /** the oldest row that may be drawn, as an absolute number, and the number of rows from it on */
  readonly low: number;
  readonly span: number;
  /** number of places of the ring, at most 2³² − 1 */
  readonly capacity: number;
  readonly count: number;
}

/**
 * Returns the rows that a pipeline with `rows: 'device'` samples in a tick, with the same bits as
 * on every device. The indices are uniform over the absolute rows [low, low + span).
 *
 * @param options `seed` is the pipeline's baseSeed
 * @returns uint32[count], each below `capacity`, as `buffer.gather()` takes them
 * @throws {RangeError} for a span of no rows, or of more rows than the capacity
 * @example
 * const rows = philoxIndices({ seed: 0, tick: 7, low: 0, span: 1000, capacity: 1000, count: 256 });
 */
export function philoxIndices(options: PhiloxIndices): Uint32Array {
  checkKeys('philoxIndices', options, ['seed', 'tick', 'low', 'span', 'capacity', 'count']);
  const { seed, tick, low, span, capacity, count } = options;
  for (const [name, value] of Object.entries({ seed, tick, low })) checkCount(name, value, 0);
  checkCount('capacity', capacity, 1, WORD - 1);
  checkCount('span', span, 1, WORD - 1);
  checkCount('count', count, 1, 2 ** 31 - 1);
  if (span > capacity)
    throw rangeError(`span must be at most the capacity ${capacity}, got ${span}`);
  const out = arrayOf('uint32', count);
  const key = [seed % WORD, Math.floor(seed / WORD)] as const;
  const [tick0, tick1, first] = [tick % WORD, Math.floor(tick / WORD), low % capacity];
  const place = (index: number) =>
    first + index < capacity ? first + index : first + index - capacity;
  for (let i = 0; i < count; i += 2) {
    const [a, b, c, d] = philox([i / 2, tick0, tick1, 0x776f7273], key);
    out[i] = place(drawn(a, b, span));
    if (i + 1 < count) out[i + 1] = place(drawn(c, d, span));
  }
  return out;
}
