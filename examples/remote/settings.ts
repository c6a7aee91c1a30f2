/**
 * What the example trains: environments, learners and their numbers. Plain data goes to the
 * collectors' machines, as JSON has it.
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

/** What a collector is told by the learner. */
export interface CollectorOptions {
  readonly environment: Name;
  readonly explore: Explore;
}

export interface Task {
  readonly id: string;
  /** the mean return at which it counts as solved, over 100 episodes */
  readonly goal: number;
  readonly obsDim: number;
  readonly explore: (hosts: number) => Explore;
  /** rows drawn for each row that came in, rows of a tick, and rows before the first */
  readonly samplesPerInsert: number;
  readonly sampleCount: number;
  readonly warmUp: number;
  /** rows between two looks at the weights, and rows at most */
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
  // As examples/cartpole-dqn has them.
  CartPole: {
    id: 'CartPole-v1',
    goal: 475,
    obsDim: 4,
    samplesPerInsert: 32,
    sampleCount: 8 * 128,
    warmUp: 1000,
    every: 5000,
    most: 1_000_000,
    // A host counts its own steps.
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
  // As `npm run train` has them.
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

/** What collectors get, and what greedy episodes act by. */
export const publishedOf = (learner: DqnLearner | SacLearner) =>
  learner instanceof DqnLearner ? learner.parameters : learner.published;

/** Environments that collectors of a worker step together. */
export const ENVIRONMENTS = 8;

/** Mean return of greedy episodes by these weights. */
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
