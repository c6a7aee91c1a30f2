/** The interface of a user's environment, with Gymnasium's names. */
import type { Box, Discrete } from './spaces.ts';

/**
 * One observation: the numbers of the observation space, in one flat array. It is copied at once.
 */
export type Observation = ArrayLike<number>;

export interface Step {
  /** observation after the action, also after an episode's last step */
  readonly obs: Observation;
  readonly reward: number;
  /** the task itself ended, so that the learner does not bootstrap */
  readonly terminated: boolean;
  /**
   * the episode was cut, for example by a time limit, so that the learner bootstraps from `obs`,
   * default false
   */
  readonly truncated?: boolean;
}

type Soon<T> = T | Promise<T>;

/**
 * An environment steps itself, and resets when reset() is called. `A`: number for Discrete actions,
 * Float32Array for boxes.
 */
export interface Environment<A = never> {
  readonly observationSpace: Box;
  readonly actionSpace: Box | Discrete;
  /** steps after which an episode is truncated, default: no limit */
  readonly maxEpisodeSteps?: number;
  /**
   * Begins an episode and returns its first observation. Equal seeds give equal episodes. Each
   * episode gets another seed.
   */
  reset(seed: number): Soon<Observation | { readonly obs: Observation }>;
  /** Takes a step. A box's action array is the caller's and valid until the step is over. */
  step(action: A): Soon<Step>;
  close?(): Soon<void>;
}

/** An environment whose actions are of unknown type. */
export type AnyEnvironment = Environment<never>;

/** The arguments of a function that makes an environment. */
export interface EnvironmentContext<O = unknown> {
  /** 0 … : number among all environments of a collector pool, continued for evaluations */
  readonly index: number;
  /** the options of the pool or of train() */
  readonly options: O;
}
