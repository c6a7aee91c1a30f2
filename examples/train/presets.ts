/**
 * Hyperparameters for each environment and algorithm, with their sources. "The zoo" is
 * rl-baselines3-zoo, hyperparams/*.yml, tuned for Stable-Baselines3. Comments give the reasons for
 * differences from the zoo.
 */
import type { TrainOptions } from '../../src/entries/collect.ts';

export type Algorithm = 'dqn' | 'td3' | 'sac' | 'fast-td3' | 'fast-sac';
export type Preset = Omit<
  TrainOptions,
  'environment' | 'device' | 'seed' | 'signal' | 'display' | 'onPoint' | 'onOpen'
>;

export interface Task {
  /** Gymnasium's id */
  readonly id: string;
  readonly module: URL;
  readonly options?: unknown;
  /** mean return that counts as solved, over 100 episodes, or over 10 for robots */
  readonly goal: number;
  readonly presets: Partial<Readonly<Record<Algorithm, Preset>>>;
}

const module = (name: string) => new URL(`../environments/${name}.js`, import.meta.url);
/** Returns the options that give an actor and its critics the same learning rate. */
const rate = (learningRate: number) => ({
  actorOptimizer: { learningRate },
  criticOptimizer: { learningRate },
});
const nets = (...hidden: number[]) => ({ actorHidden: hidden, criticHidden: hidden });

/**
 * Returns the task of a robot. SAC is from CleanRL's sac_continuous_action.py, and TD3 from the
 * zoo's td3.yml for MuJoCo. fast-td3 and fast-sac have the form of FastTD3's learners and of
 * UniLab's FastSAC, but smaller. The originals are made for batches of 32,768 rows on a GPU.
 */
function robot(name: string, goal: number, span: readonly [min: number, max: number]): Task {
  const [min, max] = span;
  const looks = { every: 10_000, episodes: 10, confirm: 10 };
  const wide = { critic: { kind: 'categorical', atoms: 101, min, max }, gamma: 0.99 } as const;
  const fast = {
    environments: 16,
    workers: 1,
    steps: 1_000_000,
    updatesPerStep: 0.125,
    evaluation: looks,
  };
  return {
    id: `${name}-v5`,
    module: new URL('../environments/mujoco/robot.js', import.meta.url),
    options: { robot: name },
    goal,
    presets: {
      sac: {
        learner: {
          algorithm: 'sac',
          actorOptimizer: { learningRate: 3e-4 },
          criticOptimizer: { learningRate: 1e-3 },
          actorEvery: 2,
          policyRepeats: 2,
          batchSize: 256,
        },
        environments: 1,
        steps: 1_000_000,
        warmUp: 5_000,
        evaluation: looks,
      },
      td3: {
        learner: { algorithm: 'td3', ...nets(400, 300), ...rate(1e-3), batchSize: 256 },
        environments: 1,
        steps: 1_000_000,
        warmUp: 10_000,
        noise: 0.1,
        evaluation: looks,
      },
      'fast-td3': {
        learner: {
          algorithm: 'td3',
          ...nets(256, 128, 64),
          ...rate(3e-4),
          ...wide,
          batchSize: 1024,
          tau: 0.1,
          clippedDouble: true,
          targetActor: false,
          policyNoise: 0.1,
          noiseClip: 0.5,
          normalizer: { form: 'deviation', epsilon: 1e-2 },
        },
        ...fast,
        noise: 0.2,
      },
      'fast-sac': {
        learner: {
          algorithm: 'sac',
          ...nets(256, 128, 64),
          ...rate(3e-4),
          ...wide,
          batchSize: 1024,
          tau: 0.1,
          layerNorm: true,
          activation: 'silu',
          correction: 'split',
          initialTemperature: 0.1,
          actorEvery: 2,
          normalizer: true,
        },
        ...fast,
      },
    },
  };
}

export const tasks: Readonly<Record<string, Task>> = {
  CartPole: {
    id: 'CartPole-v1',
    module: module('cart-pole'),
    goal: 475, // Gymnasium's reward_threshold
    presets: {
      // Updates per step, capacity and exploration are the zoo's. The network is smaller, the
      // target follows by Polyak averaging, gamma is smaller and rows have three steps (Hessel et
      // al., 2018). With these changes the learner seldom forgets what it has learned.
      dqn: {
        learner: {
          algorithm: 'dqn',
          hidden: [64, 64],
          batchSize: 128,
          learningRate: 1e-3,
          gamma: 0.98,
          maxGradNorm: 10,
        },
        environments: 8,
        steps: 200_000,
        updatesPerStep: 0.5,
        minibatches: 8,
        capacity: 100_000,
        nStep: 3,
        explore: { epsilon: { to: 0.04, steps: 8_000 } },
        evaluation: { every: 5_000, episodes: 20 },
      },
    },
  },
  Acrobot: {
    id: 'Acrobot-v1',
    module: module('acrobot'),
    goal: -100, // Gymnasium's reward_threshold
    presets: {
      // Rate, batch size, capacity and exploration are the zoo's. The target follows by Polyak
      // averaging, and the network is smaller.
      dqn: {
        learner: {
          algorithm: 'dqn',
          hidden: [128, 128],
          batchSize: 128,
          learningRate: 6.3e-4,
          maxGradNorm: 10,
        },
        environments: 8,
        steps: 200_000,
        updatesPerStep: 0.5,
        minibatches: 4,
        capacity: 50_000,
        warmUp: 1_000,
        explore: { epsilon: { to: 0.1, steps: 12_000 } },
        evaluation: { every: 5_000, episodes: 10 },
      },
    },
  },
  Pendulum: {
    id: 'Pendulum-v1',
    module: module('pendulum'),
    goal: -200, // Gymnasium has no threshold. The best possible return is about −150
    presets: {
      // The rate is the zoo's. Networks of 64-64 instead of 256-256 learn the task equally well.
      sac: {
        learner: { algorithm: 'sac', ...nets(64, 64), ...rate(1e-3), batchSize: 256 },
        environments: 4,
        steps: 20_000,
        evaluation: { every: 1_000 },
      },
      // Rate, gamma and noise are the zoo's. The networks are smaller, and the number of random
      // steps is a tenth of the zoo's.
      td3: {
        learner: { algorithm: 'td3', ...nets(64, 64), ...rate(1e-3), batchSize: 256, gamma: 0.98 },
        environments: 4,
        steps: 20_000,
        noise: 0.1,
        evaluation: { every: 1_000 },
      },
    },
  },
  MountainCarContinuous: {
    id: 'MountainCarContinuous-v0',
    module: module('mountain-car-continuous'),
    goal: 90, // Gymnasium's reward_threshold
    presets: {
      // Gamma, tau and temperature are the zoo's. The zoo finds the goal by state-dependent noise.
      // This preset repeats each random action for 50 steps instead.
      sac: {
        learner: {
          algorithm: 'sac',
          ...nets(64, 64),
          ...rate(1e-3),
          batchSize: 256,
          gamma: 0.9999,
          tau: 0.01,
          temperature: 0.1,
        },
        environments: 8,
        steps: 100_000,
        warmUp: 10_000,
        explore: { randomSteps: 10_000, hold: 50 },
        evaluation: { every: 5_000 },
      },
      // Rate and batch size are the zoo's. The zoo uses noise that is correlated in time. This
      // preset repeats each random action for 50 steps instead.
      td3: {
        learner: { algorithm: 'td3', ...nets(64, 64), ...rate(1e-3), batchSize: 256 },
        environments: 8,
        steps: 300_000,
        warmUp: 10_000,
        noise: 0.2,
        explore: { randomSteps: 10_000, hold: 50 },
        evaluation: { every: 5_000 },
      },
    },
  },
  Catch: {
    id: 'Catch (84×84 pixels)',
    module: module('catch'),
    goal: 6.5, // of 8. Doing nothing gives about −1
    presets: {
      // Stacks of four frames and convolutions are from Mnih et al. (2015). There are only two
      // small convolutions, and rows have three steps.
      dqn: {
        learner: {
          algorithm: 'dqn',
          hidden: [64],
          batchSize: 32,
          learningRate: 1e-3,
          tau: 0.01,
          maxGradNorm: 10,
          gamma: 0.97,
          convolutions: [
            { filters: 8, kernel: 7, stride: 7 },
            { filters: 16, kernel: 3, stride: 2, padding: 1 },
          ],
        },
        environments: 16,
        steps: 100_000,
        updatesPerStep: 0.25,
        minibatches: 2,
        capacity: 20_000,
        stack: 4,
        nStep: 3,
        explore: { epsilon: { to: 0.02, steps: 10_000 } },
        evaluation: { every: 5_000, episodes: 20 },
      },
    },
  },
  // Goals are Gymnasium's reward_threshold if it has one. Otherwise they are what CleanRL's SAC
  // reaches in a million steps.
  HalfCheetah: robot('HalfCheetah', 4800, [-100, 1000]),
  Hopper: robot('Hopper', 3800, [-20, 400]),
  Walker2d: robot('Walker2d', 4000, [-20, 500]),
  Ant: robot('Ant', 6000, [-100, 600]),
  Humanoid: robot('Humanoid', 5000, [-20, 600]),
};
