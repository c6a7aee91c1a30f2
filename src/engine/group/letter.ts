/**
 * The letter before a vector of a learner group: what the sender does with the vector, and whether
 * its run ends.
 */
import { stateError, typeError } from '../../base/errors.ts';
import { Ending } from '../../shm/ending.ts';
import type { Outcome } from './verdict.ts';

export const Purpose = {
  average: 1,
  broadcast: 2,
  /** the end of a run between two means. If another rank is due for a mean, all ranks take it */
  end: 3,
  /** the same for a pipeline that was closed during its run. No mean is taken then */
  leave: 4,
} as const;
export type Purpose = (typeof Purpose)[keyof typeof Purpose];
const inWords = [
  'nothing',
  'averages',
  'broadcasts',
  'ends its run with',
  'closes its pipeline with',
];

/** Index of each float64 of a letter. */
export const Letter = {
  purpose: 0,
  length: 1,
  /** ticks from one mean to the next, 0 outside runs */
  every: 2,
  /** checksum of the mean of the exchange before, NaN if it is not compared */
  sum: 3,
  /** why the sender's run ends with this exchange (Ending), 0 if it continues */
  ends: 4,
  count: 5,
} as const;

/**
 * Returns the purpose to compare between ranks. The end of a run counts as `average`, because other
 * ranks may be due for a mean.
 */
const kindOf = (letter: Float64Array) =>
  (letter[Letter.purpose] as number) >= Purpose.end ? Purpose.average : letter[Letter.purpose];
const inText = (letter: Float64Array) =>
  `${inWords[letter[Letter.purpose] as number]} ${letter[Letter.length]} parameters every ${letter[Letter.every]} ticks`;

/**
 * Group-3: throws if a rank does something other than `rank` does, or if the mean of the previous
 * exchange differs between the two ranks.
 */
export function checkLetters(
  letters: readonly Float64Array[],
  rank: number,
  exchange: number,
): void {
  const mine = letters[rank] as Float64Array;
  for (const [other, letter] of letters.entries()) {
    if (
      kindOf(letter) !== kindOf(mine) ||
      letter[Letter.length] !== mine[Letter.length] ||
      letter[Letter.every] !== mine[Letter.every]
    )
      throw typeError(
        `rank ${other} ${inText(letter)} where rank ${rank} ${inText(mine)}; learners of a group must do the same in the same order`,
      );
    const [there, here] = [letter[Letter.sum] as number, mine[Letter.sum] as number];
    if (!Number.isNaN(there) && !Number.isNaN(here) && there !== here)
      throw stateError(
        'CLOSED',
        `the mean before exchange ${exchange} was not the same for rank ${other} as for rank ${rank}; a message or a parameter on a device was changed in between`,
      );
  }
}

/**
 * Group-6: returns the outcome of an exchange from the letters of all ranks, for `rank`. If the run
 * of `rank` ends, the reason of `rank` itself has priority.
 */
export function outcomeOf(letters: readonly Float64Array[], rank: number): Outcome {
  let due = false;
  let left = false;
  let by = -1;
  for (const [other, letter] of letters.entries()) {
    due ||= letter[Letter.purpose] === Purpose.average;
    left ||= letter[Letter.purpose] === Purpose.leave;
    if (letter[Letter.ends] !== Ending.none && (by < 0 || other === rank)) by = other;
  }
  const why = letters[by]?.[Letter.ends] as Ending;
  return { averages: due && !left, ended: by < 0 ? null : { rank: by, why } };
}

/**
 * Returns a checksum of all bits, a whole number below 2^53. Two vectors that differ in one bit
 * have different checksums.
 */
export function checksum(values: Float32Array): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  let [low, high] = [1, 0];
  for (let i = 0; i < bits.length; i++) {
    low = (Math.imul(low, 31) + (bits[i] as number)) | 0;
    high = (high + Math.imul(low, 0x9e3779b1)) | 0;
  }
  return (low >>> 0) + (high & 0x1fffff) * 2 ** 32;
}
