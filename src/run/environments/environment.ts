/** What a user brings: one environment, in the words of Gymnasium. */
import type { Box, Discrete } from './spaces.ts';

/**
 * One observation: as many numbers as the observation space has, in one flat array. It is copied at
 * once.
 */
export type Observation = ArrayLike<number>;

export interface Step {
  /**
   * what the environment shows behind the action; of an episode's last step its last observation
   */
  readonly obs: Observation;
  readonly reward: number;
  /** the episode ended by itself: nothing comes behind, the learner adds no value */
  readonly terminated: boolean;
  /**
   * the episode was cut, as by a time limit: the learner goes on with the value of `obs`; default
   * false
   */
  readonly truncated?: boolean;
}

type Soon<T> = T | Promise<T>;

/**
 * An environment steps itself, and is told when to begin anew. `A`: number for Discrete actions,
 * Float32Array for boxes.
 */
export interface Environment<A = never> {
  readonly observationSpace: Box;
  readonly actionSpace: Box | Discrete;
  /** steps after which an episode is truncated; default: without a limit */
  readonly maxEpisodeSteps?: number;
  /**
   * Begins an episode and gives its first observation. Equal seeds give equal episodes; each
   * episode gets another one.
   */
  reset(seed: number): Soon<Observation | { readonly obs: Observation }>;
  /** Of a box of actions the array is the caller's: it is good until the step is over. */
  step(action: A): Soon<Step>;
  close?(): Soon<void>;
}

/** An environment of which the actions are not known. */
export type AnyEnvironment = Environment<never>;

/** What a function that makes an environment is told. */
export interface EnvironmentContext<O = unknown> {
  /** 0 … : of all environments of a collector pool; counted on for evaluations */
  readonly index: number;
  /** what the pool, or train(), was given */
  readonly options: O;
}
