/**
 * Environments that are stepped together: their interface for collectors and evaluations, whoever
 * steps them.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { Spaces } from './spaces.ts';

/** Callbacks of a player of episodes. */
export interface EpisodeHooks {
  /**
   * returns the seed of an environment's next episode, also of its first, or null if it has none
   * and rests
   */
  nextSeed(environment: number): number | null;
  /** an episode is over */
  ended?(environment: number, episodeReturn: number, length: number): void;
  /** name of an environment in errors */
  name?: (environment: number) => string;
}

/** Episodes of `count` environments. Their observations lie in one array, one after the other. */
export interface SteppedSet {
  readonly count: number;
  readonly spaces: Spaces;
  /** each one's current observation, which after the end of an episode is the first of the next */
  readonly obs: TypedArray;
  /** each one's observation after its last action, also if the episode ended with it */
  readonly nextObs: TypedArray;
  readonly rewards: Float32Array;
  /** 1 if the last step terminated the episode */
  readonly terminated: Uint8Array;
  /** 1 if the last step truncated the episode without terminating it */
  readonly truncated: Uint8Array;
  /** 1 if the last call only began an episode, without a step, null if every call is a step */
  readonly skipped: Uint8Array | null;
  /** number of environments that have an episode under way */
  readonly going: number;
  /** Begins the first episode of each. Returns a promise if an environment returns one. */
  begin(): void | Promise<void>;
  /**
   * Steps each environment that has an episode under way, with count × size numbers. Returns a
   * promise if an environment returns one.
   */
  step(actions: ArrayLike<number>): void | Promise<void>;
}

/**
 * Environments that are one thing, such as a process that steps them. `gymnasium()` opens such a
 * set.
 */
export interface EnvironmentSet {
  readonly count: number;
  readonly spaces: Spaces;
  /** Begins to play episodes of all environments. Those of an earlier call are over. */
  play(hooks: EpisodeHooks): SteppedSet;
  close(): void | Promise<void>;
}

/** Opens sets, instead of a function that makes one environment. */
export interface EnvironmentSets {
  /** Opens a set. `options`: those of the pool or of train(). Rejects with what the user can do. */
  open(wanted: { readonly count: number; readonly options: unknown }): Promise<EnvironmentSet>;
}

export const isEnvironmentProvider = (make: unknown): make is EnvironmentSets =>
  typeof make === 'object' && make !== null && typeof (make as EnvironmentSets).open === 'function';
