/** The interface of a user's environment, with Gymnasium's names. */
import type { Box, Discrete } from './spaces.ts';

/**
 * One observation: the numbers of the observation space, in one flat array. It is copied at once.
 */
export type Observation = ArrayLike<number>;

/** The result of a step. */
export interface Step {
  /** observation after the action, also after an episode's last step */
  readonly obs: Observation;
  /** reward of the action, finite in float32 */
  readonly reward: number;
  /** whether the task itself ended, so that the learner does not bootstrap */
  readonly terminated: boolean;
  /**
   * whether the episode was cut, for example by a time limit, default false. The learner then
   * bootstraps from `obs`.
   */
  readonly truncated?: boolean;
}

type Soon<T> = T | Promise<T>;

/**
 * An environment with an observation space, an action space, reset() and step(). `A` is number for
 * Discrete actions, and Float32Array for boxes.
 * @example
 * export default class Target implements Environment<Float32Array> {
 *   readonly observationSpace = { shape: [1] };
 *   readonly actionSpace = { shape: [1], low: -1, high: 1 };
 *   reset = (seed: number) => [seed % 2];
 *   step = ([action = 0]: Float32Array) => ({ obs: [0], reward: action, terminated: true });
 * }
 */
export interface Environment<A = never> {
  readonly observationSpace: Box;
  readonly actionSpace: Box | Discrete;
  /** steps after which an episode is truncated, at least 1, default: no limit */
  readonly maxEpisodeSteps?: number;
  /**
   * Begins an episode and returns its first observation.
   *
   * @param seed another one for each episode. Equal seeds must give equal episodes
   */
  reset(seed: number): Soon<Observation | { readonly obs: Observation }>;
  /**
   * Takes a step. An episode that has ended is reset before the next step.
   *
   * @param action a number from 0, or for a box an array that is valid until the step is over
   */
  step(action: A): Soon<Step>;
  /** Closes the environment, when its collector ends. */
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
