/** The interface of a user's environment. It uses Gymnasium's names. */
import type { Box, Discrete } from './spaces.ts';

/**
 * One observation: the values of the observation space in one flat array. Hotslot copies the array
 * at once.
 */
export type Observation = ArrayLike<number>;

/**
 * The legal actions of a state, for an action space of n actions: n entries, and an entry that is
 * not zero (or is true) marks a legal action. Hotslot copies the entries at once.
 */
export type ActionMask = ArrayLike<number | boolean>;

/** The result of a step. */
export interface Step {
  /** observation after the action, also after the last step of an episode */
  readonly obs: Observation;
  /** reward of the action, which must be finite in float32 */
  readonly reward: number;
  /** whether the task itself is over. The learner then does not bootstrap */
  readonly terminated: boolean;
  /**
   * whether the episode was cut off, for example by a time limit, default false. The learner then
   * bootstraps from `obs`.
   */
  readonly truncated?: boolean;
  /**
   * legal actions of the state after the action, default: those of `actionMask()`. After a step
   * that terminated, it may be missing, empty or all zero
   */
  readonly actionMask?: ActionMask | null | undefined;
}

type Soon<T> = T | Promise<T>;

/**
 * An environment with an observation space, an action space, reset() and step(). `A` is the type of
 * its actions: number for Discrete, and Float32Array for Box.
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
  /** number of steps after which an episode is truncated, at least 1, default: no limit */
  readonly maxEpisodeSteps?: number;
  /**
   * Begins an episode and returns its first observation.
   *
   * @param seed seed of the episode, different for each episode. Equal seeds must give equal
   *   episodes
   * @returns the observation, or an object with it and with the legal actions of the first state
   */
  reset(
    seed: number,
  ): Soon<
    Observation | { readonly obs: Observation; readonly actionMask?: ActionMask | null | undefined }
  >;
  /**
   * Takes a step. After the last step of an episode, reset() is called before the next step().
   *
   * @param action a number from 0 on, or for a box an array that is valid until the step is over
   */
  step(action: A): Soon<Step>;
  /**
   * Returns the legal actions of the current state, for an action space of at most 4,096 actions.
   * Hotslot calls it after each reset() and each step(), unless their results have an `actionMask`.
   * Policies then choose among these actions, and an illegal action throws a RangeError. An
   * environment gives masks after each reset() and each step(), or never.
   */
  actionMask?(): ActionMask | null | undefined;
  /** Closes the environment when its collector ends. */
  close?(): Soon<void>;
}

/** An environment whose actions are of unknown type. */
export type AnyEnvironment = Environment<never>;

/** The arguments of a function that makes an environment. */
export interface EnvironmentContext<O = unknown> {
  /**
   * number of the environment among all those of a collector pool, from 0. Environments of
   * evaluations continue the numbers
   */
  readonly index: number;
  /** the options of the pool or of train() */
  readonly options: O;
}
