/**
 * Environments that are stepped together: their interface for collectors and evaluations, whoever
 * steps them.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { Spaces } from './spaces.ts';

/** Callbacks of the player of episodes. */
export interface EpisodeHooks {
  /**
   * Returns the seed of an environment's next episode, also of its first, or null if it has none
   * and rests.
   */
  nextSeed(environment: number): number | null;
  /** Receives the return and the number of steps of an episode that is over. */
  ended?(environment: number, episodeReturn: number, length: number): void;
  /** returns an environment's name for errors, default: 'environment' and its number */
  name?: (environment: number) => string;
}

/** Episodes of `count` environments. Their observations lie in one array, one after the other. */
export interface SteppedSet {
  /** number of environments */
  readonly count: number;
  /** spaces of each environment */
  readonly spaces: Spaces;
  /** each one's current observation, which after the end of an episode is the first of the next */
  readonly obs: TypedArray;
  /** each one's observation after its last action, also if the episode ended with it */
  readonly nextObs: TypedArray;
  /** reward of each last step */
  readonly rewards: Float32Array;
  /** 1 if the last step terminated the episode */
  readonly terminated: Uint8Array;
  /** 1 if the last step truncated the episode without terminating it */
  readonly truncated: Uint8Array;
  /** 1 if the last call only began an episode, without a step, null if every call is a step */
  readonly skipped: Uint8Array | null;
  /** number of environments that have an episode under way */
  readonly going: number;
  /**
   * Begins the first episode of each environment. Returns a promise if an environment returns one.
   */
  begin(): void | Promise<void>;
  /**
   * Steps each environment that has an episode under way. Returns a promise if an environment
   * returns one.
   *
   * @param actions count × size numbers, one environment after the other
   * @throws {RangeError} for another length, and for an action outside the space
   */
  step(actions: ArrayLike<number>): void | Promise<void>;
}

/**
 * Environments that are one thing, such as a process that steps them. `gymnasium()` opens such a
 * set.
 */
export interface EnvironmentSet {
  /** number of environments */
  readonly count: number;
  /** spaces of each environment */
  readonly spaces: Spaces;
  /** Begins to play episodes of all environments. Those of an earlier call are over. */
  play(hooks: EpisodeHooks): SteppedSet;
  /** Closes all environments. */
  close(): void | Promise<void>;
}

/**
 * Opens sets of environments, in place of a function that makes one environment. gymnasium()
 * returns such an object.
 */
export interface EnvironmentSets {
  /**
   * Opens a set. It rejects with what the user can do.
   *
   * @param wanted `count` of environments, and `options` of the pool or of train()
   */
  open(wanted: { readonly count: number; readonly options: unknown }): Promise<EnvironmentSet>;
}

export const isEnvironmentProvider = (make: unknown): make is EnvironmentSets =>
  typeof make === 'object' && make !== null && typeof (make as EnvironmentSets).open === 'function';
