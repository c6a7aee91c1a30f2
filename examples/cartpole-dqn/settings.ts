/**
 * All settings of the training. They are plain data, because they are posted to the collectors'
 * threads.
 */
import { ACTIONS, OBS_DIM } from './cartpole.ts';

export const replays = ['uniform', 'prioritized'] as const;
export type Replay = (typeof replays)[number];

export interface Settings {
  /** number of poles in each collector thread */
  environments: number;
  /** number of rows that the buffer can store */
  capacity: number;
  /** number of rows before the first update */
  warmUp: number;
  /** rows sampled for each row inserted. The limiter keeps learner and collectors at this ratio */
  samplesPerInsert: number;
  /** rows of a minibatch. `minibatches` is the number of minibatches in a tick */
  batchSize: number;
  minibatches: number;
  hidden: readonly number[];
  learningRate: number;
  gamma: number;
  /** how rows are drawn. `nStep` is the number of steps of a row's return */
  replay: Replay;
  nStep: number;
  /**
   * exponent of the priorities, for prioritized replay. The exponent beta of the importance weights
   * rises from firstBeta to 1 within betaSteps environment steps
   */
  alpha: number;
  firstBeta: number;
  betaSteps: number;
  /** share of the online network that enters the target network after each minibatch */
  tau: number;
  maxGradNorm: number;
  /** number of environment steps in which exploration falls from 1 to leastEpsilon */
  exploreSteps: number;
  leastEpsilon: number;
  /** number of ticks from one publication of the weights to the next */
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
  replay: 'uniform',
  nStep: 1,
  alpha: 0.6,
  firstBeta: 0.4,
  betaSteps: 100_000,
  tau: 0.005,
  maxGradNorm: 10,
  exploreSteps: 10_000,
  leastEpsilon: 0.02,
  publishEvery: 1,
};

export function networkSizes({ hidden }: Settings): number[] {
  return [OBS_DIM, ...hidden, ACTIONS];
}

/**
 * Returns whether the buffer must store each pole's steps in order. Only uniform replay of single
 * steps works with unordered rows.
 */
export function needsOrder({ replay, nStep }: Settings): boolean {
  return replay !== 'uniform' || nStep > 1;
}

/** Returns the exponent of the importance weights after a number of environment steps. */
export function betaAfter(steps: number, { firstBeta, betaSteps }: Settings): number {
  return Math.min(1, firstBeta + ((1 - firstBeta) * steps) / betaSteps);
}
