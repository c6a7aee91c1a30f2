/**
 * All settings of the run, and the network that learner and collectors build from them. The
 * settings are plain data, because they are posted to the collectors' threads.
 */
import type { QNetworkOptions } from '../../src/entries/learner.ts';
import { ACTIONS, FRAME, SIDE } from '../environments/catch.ts';

/** Fields of a step. Each frame is stored once, as bytes. */
export const fields = {
  obs: { shape: [SIDE, SIDE], dtype: 'uint8', observation: true },
  actions: { shape: [], dtype: 'uint8' },
} as const;

export interface Settings {
  /** number of games, each with its own lane. `workers` is the number of threads that play them */
  lanes: number;
  workers: number;
  /** number of steps that the buffer can store */
  capacity: number;
  /** number of frames that the agent observes at once */
  stack: number;
  nStep: number;
  gamma: number;
  /**
   * number of rows in a batch. `samplesPerInsert` is the number of steps drawn for each step
   * written, or 0 for no limit
   */
  rows: number;
  samplesPerInsert: number;
  /** number of steps before the first batch */
  warmUp: number;
  /** channels of the two convolutions. `hidden` is the number of neurons in the layer after them */
  filters: readonly [number, number];
  hidden: number;
  learningRate: number;
  /** number of steps in which exploration falls from 1 to leastEpsilon */
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

/**
 * Returns the options of the network. Its first convolution reads every pixel once, so that playing
 * stays cheap.
 */
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
