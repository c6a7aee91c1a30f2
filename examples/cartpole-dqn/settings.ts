/** Every number of the training. Plain data, because it travels to the collectors' threads. */
import { ACTIONS, OBS_DIM } from './cartpole.ts';

export const replays = ['uniform', 'prioritized'] as const;
export type Replay = (typeof replays)[number];

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
  /** how rows are drawn, and over how many steps each looks ahead */
  replay: Replay;
  nStep: number;
  /**
   * prioritized: how far priorities count; beta rises from its first value to 1 over so many
   * environment steps
   */
  alpha: number;
  firstBeta: number;
  betaSteps: number;
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
 * Whole transitions, drawn uniformly, need no order: rows do. Anything else is made of each pole's
 * steps in order.
 */
export function needsOrder({ replay, nStep }: Settings): boolean {
  return replay !== 'uniform' || nStep > 1;
}

/** The importance weights' exponent after so many environment steps. */
export function betaAfter(steps: number, { firstBeta, betaSteps }: Settings): number {
  return Math.min(1, firstBeta + ((1 - firstBeta) * steps) / betaSteps);
}
