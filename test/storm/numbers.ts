/**
 * What every step and row of a storm carries: who made it, which it is, and the same number in each
 * word of its body. All numbers are whole and below 2²⁴, so that sums and differences in float32
 * are exact wherever they are made.
 */
import { rowsAddon } from '../../src/store/rows/rows-addon.ts';

export const BODY = 16;
/**
 * A number is kept in two words: how often it went round, and the rest. No ring has a multiple of
 * so many places.
 */
export const ROUND = 4001;

export const stepFields = {
  /** lane, rounds, rest; 1 in a final observation */
  obs: { shape: [4], observation: true },
  body: { shape: [BODY] },
  /** what the learner makes of it: the step's priority */
  prio: { shape: [] },
} as const;
export const rowFields = {
  /**
   * seed of its host, worker, number, and what the weights were filled with: 0 before the first, −1
   * where they are torn
   */
  value: { shape: [4], dtype: 'float64' },
  body: { shape: [BODY] },
} as const;

export const bodyOf = (who: number, number: number): number => who * ROUND + (number % ROUND);
export const prioOf = (lane: number, number: number): number => 1 + ((number * 31 + lane * 7) % 13);
/** Which steps end their episode: of every lane others, some at once behind another. */
export const endsAt = (lane: number, number: number): boolean => (number * 7 + lane * 3) % 11 < 2;
/** By itself, or cut. */
export const terminates = (number: number): boolean => number % 2 === 0;
export const numberOf = (rounds: number, rest: number): number => rounds * ROUND + rest;

/** Of a lane, what its header counts (native/rows/lanes.hpp): committed places, and steps. */
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
 * What collectors of a pool and the oracle have in common. Words: what is confirmed of each lane,
 * and then alarms.
 */
export interface Common {
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly lanes: number;
  /**
   * Int32: of each lane, how many of its steps were added for certain; behind them how often
   * weights were torn, and went back
   */
  readonly words: Int32Array;
}

/** Weights of one version are filled with the number of their update; −1: they are torn. */
export const filledWith = (weights: Float32Array): number =>
  weights.every((each) => each === weights[0]) ? (weights[0] as number) : -1;
