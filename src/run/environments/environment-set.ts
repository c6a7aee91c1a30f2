/**
 * The interface of environments that are stepped together. Collectors and evaluations use it for
 * environments in JavaScript and in Python.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { Spaces } from './spaces.ts';

/** Callbacks from a set to the code that plays its episodes. */
export interface EpisodeHooks {
  /**
   * Returns the seed of an environment's next episode, including the first one. Null means that the
   * environment plays no more episodes.
   */
  nextSeed(environment: number): number | null;
  /** Receives the return and the number of steps of an episode that has ended. */
  ended?(environment: number, episodeReturn: number, length: number): void;
  /** returns an environment's name for errors, default: 'environment' and its number */
  name?: (environment: number) => string;
}

/**
 * Episodes of `count` environments. Each array contains the values of one environment after the
 * other.
 */
export interface SteppedSet {
  /** number of environments */
  readonly count: number;
  /** spaces of each environment */
  readonly spaces: Spaces;
  /**
   * each environment's current observation. After the end of an episode this is the first
   * observation of the next episode. In a set with `skipped`, it is that observation only after one
   * more call of step()
   */
  readonly obs: TypedArray;
  /** each environment's observation after its last action, even if that ended the episode */
  readonly nextObs: TypedArray;
  /**
   * legal actions of each environment's current observation, as `obs`: count × n bytes, 1 for a
   * legal action. The bytes of an environment whose episode is over are 0. Null before begin(), and
   * for environments that give no masks
   */
  readonly actionMask: Uint8Array | null;
  /**
   * legal actions after each environment's last action, as `nextObs`: count × n bytes. They may all
   * be 0 if the step terminated. Null if `actionMask` is null
   */
  readonly nextActionMask: Uint8Array | null;
  /** reward of each environment's last step */
  readonly rewards: Float32Array;
  /** 1 for each environment whose last step terminated the episode */
  readonly terminated: Uint8Array;
  /** 1 for each environment whose last step truncated the episode without terminating it */
  readonly truncated: Uint8Array;
  /**
   * 1 for each environment that took no step in the last call of step(), because the call only
   * began its next episode. Null for a set in which every call is a step
   */
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
   * @param actions count × size values, one environment after the other
   * @throws {RangeError} for another number of values, for an action outside the space, and for an
   *   action that is illegal by `actionMask`. No environment has taken the step then
   */
  step(actions: ArrayLike<number>): void | Promise<void>;
}

/**
 * Environments that are opened and closed together, such as those of one Python process.
 * `gymnasium()` opens such a set.
 */
export interface EnvironmentSet {
  /** number of environments */
  readonly count: number;
  /** spaces of each environment */
  readonly spaces: Spaces;
  /**
   * Returns an object that plays episodes of all environments. The episodes of an earlier call end.
   */
  play(hooks: EpisodeHooks): SteppedSet;
  /** Closes all environments. */
  close(): void | Promise<void>;
}

/**
 * Opens sets of environments. gymnasium() returns such an object. Options that accept a function
 * that makes one environment accept such an object too.
 */
export interface EnvironmentSets {
  /**
   * Opens a set. If it rejects, the error text says what the user can do.
   *
   * @param wanted number of environments (`count`), and `options` of the pool or of train()
   */
  open(wanted: { readonly count: number; readonly options: unknown }): Promise<EnvironmentSet>;
}

export const isEnvironmentProvider = (make: unknown): make is EnvironmentSets =>
  typeof make === 'object' && make !== null && typeof (make as EnvironmentSets).open === 'function';
