/**
 * Damaged bytes from outside, as values: the name of a sample and a list of edits. Each edit can be
 * left out to make a failing case smaller.
 */
import type { Random } from '../../src/index.ts';
import { code, either, form, type Gen, list, one, type Value, whole } from './values.ts';

export type Edit = readonly [kind: number, at: number, value: number];

/** Bytes that have a meaning in the parsers of texts and numbers. */
const signs = '0123456789[]{}",:\\ eE-+.*$%&?/=#\r\n\0';

/** Returns a copy of the sample with the edits made in order. Positions are modulo the length. */
export function edited(sample: Uint8Array, edits: readonly Edit[]): Uint8Array {
  let bytes = Buffer.from(sample);
  for (const [kind, place, value] of edits) {
    if (bytes.length === 0) return new Uint8Array();
    const at = place % bytes.length;
    const to = Math.min(bytes.length, at + 1 + (value % 8));
    if (kind < 4) bytes[at] = (bytes[at] as number) ^ (1 << (value % 8));
    else if (kind < 6) bytes[at] = [0, 255, 127, 128][value % 4] as number;
    else if (kind < 8) bytes[at] = signs.charCodeAt(value % signs.length);
    else if (kind === 8) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    else if (kind === 9) bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    else if (kind === 10) bytes = bytes.subarray(0, at);
    else bytes.fill(255, at, Math.min(bytes.length, at + 4));
  }
  return new Uint8Array(bytes);
}

const edit = (near: number): Gen =>
  either(
    (random) => ({ list: [whole(0, 11)(random), whole(0, near)(random), whole(0, 255)(random)] }),
    (random) => ({ list: [whole(0, 11)(random), whole(0, 5000)(random), whole(0, 255)(random)] }),
  );

/** Draws a list of edits. Most of them are within the first `near` bytes. */
export const edits = (near: number): Gen => list(edit(near), 0, 4);

/** Draws `edited(samples.name, [[kind, at, value], …])` for one of these samples. */
export const damaged = (names: readonly string[], near = 100): Gen =>
  form('edited(samples[$], $)', one(...names.map((name) => `'${name}'`)), edits(near));

/** Draws texts, of which some are right. */
export const texts = (...right: readonly string[]): Gen =>
  either(
    one(...right.map((each) => JSON.stringify(each))),
    one(...right.map((each) => JSON.stringify(each))),
    one(
      "''",
      "'-'",
      "'--'",
      "'x'",
      "'0'",
      "'-1'",
      "'1e9'",
      "'99999999999999999999'",
      "'\\u00e9'",
      "'a b'",
      "'../..'",
      "'/'",
      "'x'.repeat(3000)",
      "'='",
    ),
    (random: Random): Value => {
      const text = right[random.below(right.length)] as string;
      const at = random.below(text.length + 1);
      return code(
        JSON.stringify(
          text.slice(0, at) +
            (random.below(2) ? '' : signs[random.below(30)]) +
            text.slice(at + random.below(2)),
        ),
      );
    },
  );
