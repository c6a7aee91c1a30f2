/**
 * Environments and learners of the example, and their settings. The options of collectors are plain
 * data, because they are sent to other machines as JSON.
 */
import {
  type AnyEnvironment,
  type Explore,
  evaluate,
  type Policy,
} from '../../src/entries/collect.ts';
import { DqnLearner, DqnPolicy, SacLearner, SacPolicy } from '../../src/entries/learner.ts';
import type { Device } from '../../src/index.ts';
import CartPole from '../environments/cart-pole.ts';
import Pendulum from '../environments/pendulum.ts';

export const names = ['CartPole', 'Pendulum'] as const;
export type Name = (typeof names)[number];

/** Options that the learner sends to the collectors. */
export interface CollectorOptions {
  readonly environment: Name;
  readonly explore: Explore;
}

export interface Task {
  readonly id: string;
  /** mean return over 100 episodes that counts as solved */
  readonly goal: number;
  readonly obsDim: number;
  readonly explore: (hosts: number) => Explore;
  /**
   * rows drawn for each row received. The next two are rows of a tick and rows before the first
   * tick
   */
  readonly samplesPerInsert: number;
  readonly sampleCount: number;
  readonly warmUp: number;
  /**
   * number of rows from one evaluation to the next. `most` is the number of rows after which the
   * run ends
   */
  readonly every: number;
  readonly most: number;
  environment(): AnyEnvironment;
  learner(device: Device, seed: number): DqnLearner | SacLearner;
  policy(options: {
    seed: number;
    greedy: boolean;
  }): Policy & { load(weights: Float32Array): unknown };
}

const qNetwork = { obsDim: 4, actions: 2, hidden: [64, 64] } as const;
const actor = {
  obsDim: 3,
  actionDim: 1,
  actionLow: [-2],
  actionHigh: [2],
  actorHidden: [64, 64],
} as const;
const rate = { learningRate: 1e-3 };

export const tasks: Readonly<Record<Name, Task>> = {
  // Values of examples/cartpole-dqn.
  CartPole: {
    id: 'CartPole-v1',
    goal: 475,
    obsDim: 4,
    samplesPerInsert: 32,
    sampleCount: 8 * 128,
    warmUp: 1000,
    every: 5000,
    most: 1_000_000,
    // Each host counts only its own steps, so each gets a share of the total.
    explore: (hosts) => ({ epsilon: { to: 0.02, steps: Math.ceil(10_000 / hosts) } }),
    environment: () => new CartPole(),
    learner: (device, seed) =>
      new DqnLearner(device, {
        ...qNetwork,
        hidden: [...qNetwork.hidden],
        batchSize: 128,
        learningRate: 1e-3,
        gamma: 0.99,
        tau: 0.005,
        maxGradNorm: 10,
        seed,
      }),
    policy: () => new DqnPolicy(qNetwork),
  },
  // Values of `npm run train`.
  Pendulum: {
    id: 'Pendulum-v1',
    goal: -200,
    obsDim: 3,
    samplesPerInsert: 256,
    sampleCount: 256,
    warmUp: 1000,
    every: 1000,
    most: 100_000,
    explore: () => ({}),
    environment: () => new Pendulum(),
    learner: (device, seed) =>
      new SacLearner(device, {
        ...actor,
        criticHidden: [64, 64],
        actorOptimizer: rate,
        criticOptimizer: rate,
        batchSize: 256,
        seed,
      }),
    policy: (options) => new SacPolicy(actor, options),
  },
};

/** Returns the vector that is published to collectors, and with which greedy episodes act. */
export const publishedOf = (learner: DqnLearner | SacLearner) =>
  learner instanceof DqnLearner ? learner.parameters : learner.published;

/** Number of environments that a worker's collectors step together. */
export const ENVIRONMENTS = 8;

/** Returns the mean return of greedy episodes with these weights. */
export async function greedyReturn(
  task: Task,
  weights: Float32Array,
  episodes: number,
  seed: number,
): Promise<number> {
  const policy = task.policy({ greedy: true, seed });
  policy.load(weights);
  const environments = Array.from({ length: 20 }, () => task.environment());
  return (await evaluate({ environments, policy, episodes, seed })).meanReturn;
}
