/**
 * Every number of the run. Plain data, because it travels to the collectors' threads, and the
 * network that both sides make of it.
 */
import type { QNetworkOptions } from '../../src/entries/learner.ts';
import { ACTIONS, FRAME, SIDE } from '../environments/catch.ts';

/** What a step of a game holds: its frame once, as bytes. */
export const fields = {
  obs: { shape: [SIDE, SIDE], dtype: 'uint8', observation: true },
  actions: { shape: [], dtype: 'uint8' },
} as const;

export interface Settings {
  /** games, each with a lane of its own, and the threads that play them */
  lanes: number;
  workers: number;
  /** places of the buffer */
  capacity: number;
  /** frames that the agent sees at once */
  stack: number;
  nStep: number;
  gamma: number;
  /** rows of a batch, and steps drawn per step written; 0: each side as fast as it can */
  rows: number;
  samplesPerInsert: number;
  /** steps before the first batch */
  warmUp: number;
  /** channels of the two convolutions, and neurons behind them */
  filters: readonly [number, number];
  hidden: number;
  learningRate: number;
  /** exploration falls from 1 to leastEpsilon over so many steps */
  exploreSteps: number;
  leastEpsilon: number;
}

export const defaults: Settings = {
  lanes: 16,
  workers: 1,
  capacity: 20_000,
  stack: 4,
  nStep: 3,
  gamma: 0.97,
  rows: 32,
  samplesPerInsert: 4,
  warmUp: 1000,
  filters: [8, 16],
  hidden: 64,
  learningRate: 1e-3,
  exploreSteps: 10_000,
  leastEpsilon: 0.02,
};

/** The first convolution looks at every pixel once, so that playing stays cheap. */
export const network = ({ stack, filters, hidden }: Settings): QNetworkOptions => ({
  obsDim: stack * FRAME,
  actions: ACTIONS,
  image: [stack, SIDE, SIDE],
  convolutions: [
    { filters: filters[0], kernel: 7, stride: 7 },
    { filters: filters[1], kernel: 3, stride: 2, padding: 1 },
  ],
  hidden: [hidden],
});
