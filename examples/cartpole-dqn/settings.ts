/** Every number of the training. Plain data, because it travels to the collectors' threads. */
import { ACTIONS, OBS_DIM } from './cartpole.ts';

export interface Settings {
  /** poles per collector thread */
  environments: number;
  /** rows the buffer holds */
  capacity: number;
  /** rows before the first update */
  warmUp: number;
  /** rows sampled per row inserted: keeps learner and collectors in proportion */
  samplesPerInsert: number;
  /** rows of a minibatch, and minibatches of a tick */
  batchSize: number;
  minibatches: number;
  hidden: readonly number[];
  learningRate: number;
  gamma: number;
  /** the target network follows by this much a minibatch */
  tau: number;
  maxGradNorm: number;
  /** exploration falls from 1 to leastEpsilon over so many environment steps */
  exploreSteps: number;
  leastEpsilon: number;
  /** ticks between two publications of the weights */
  publishEvery: number;
}

export const defaults: Settings = {
  environments: 16,
  capacity: 50_000,
  warmUp: 1_000,
  samplesPerInsert: 32,
  batchSize: 128,
  minibatches: 8,
  hidden: [64, 64],
  learningRate: 1e-3,
  gamma: 0.99,
  tau: 0.005,
  maxGradNorm: 10,
  exploreSteps: 10_000,
  leastEpsilon: 0.02,
  publishEvery: 1,
};

export function networkSizes({ hidden }: Settings): number[] {
  return [OBS_DIM, ...hidden, ACTIONS];
}
