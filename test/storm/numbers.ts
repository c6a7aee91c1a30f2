/**
 * What every step and row of a storm contains: its maker, its number, and a number that fills each
 * word of its body. All numbers are integers below 2²⁴, so their sums and differences are exact in
 * float32, on every device.
 */
import { rowsAddon } from '../../src/store/rows/rows-addon.ts';

export const BODY = 16;
/**
 * A number is stored in two words: number / ROUND and number % ROUND. No ring has a multiple of
 * ROUND places.
 */
export const ROUND = 4001;

export const stepFields = {
  /** lane, number / ROUND, number % ROUND; 1 in a final observation */
  obs: { shape: [4], observation: true },
  body: { shape: [BODY] },
  /** the step's priority, which the learner copies */
  prio: { shape: [] },
} as const;
export const rowFields = {
  /**
   * the host's seed, the worker, the row's number, and the number that filled the collector's
   * weights (0: none yet, −1: torn)
   */
  value: { shape: [4], dtype: 'float64' },
  body: { shape: [BODY] },
} as const;

export const bodyOf = (who: number, number: number): number => who * ROUND + (number % ROUND);
export const prioOf = (lane: number, number: number): number => 1 + ((number * 31 + lane * 7) % 13);
/**
 * Whether a step ends its episode. The steps differ between lanes, and some episodes have only one
 * step.
 */
export const endsAt = (lane: number, number: number): boolean => (number * 7 + lane * 3) % 11 < 2;
/** Whether an episode ends by termination. Otherwise it is truncated. */
export const terminates = (number: number): boolean => number % 2 === 0;
export const numberOf = (rounds: number, rest: number): number => rounds * ROUND + rest;

/**
 * Returns readers for two counts of a lane's header (native/rows/lanes.hpp): committed places, and
 * steps.
 */
export function laneCounts(shared: { memory: SharedArrayBuffer; offset: number }, lanes: number) {
  const words = new BigUint64Array(
    shared.memory,
    shared.offset + rowsAddon().layouts.lanes.bytes,
    4 * lanes,
  );
  return {
    committed: (lane: number): number => Number(Atomics.load(words, 4 * lane + 1)),
    steps: (lane: number): number => Number(Atomics.load(words, 4 * lane + 2)),
  };
}
export type LaneCounts = ReturnType<typeof laneCounts>;

/**
 * What the pool's collectors and the oracle share. The words are the confirmed steps of each lane,
 * then two alarms.
 */
export interface Common {
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly lanes: number;
  /**
   * Int32 words. For each lane: the number of steps that were certainly added. Then two counts: how
   * often a collector was given torn weights, and older weights than before.
   */
  readonly words: Int32Array;
}

/**
 * Returns the number that fills the weights, or −1 if they are torn. Each version is filled with
 * the number of its update.
 */
export const filledWith = (weights: Float32Array): number =>
  weights.every((each) => each === weights[0]) ? (weights[0] as number) : -1;
