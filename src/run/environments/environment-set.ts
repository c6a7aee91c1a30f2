/**
 * Environments that are stepped together: what collectors and evaluations know of them, whoever
 * steps them.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { Spaces } from './spaces.ts';

/** What whoever plays episodes is asked and told. */
export interface EpisodeHooks {
  /** the seed of an environment's next episode, its first one too; null: it has none, and rests */
  nextSeed(environment: number): number | null;
  /** an episode is over */
  ended?(environment: number, episodeReturn: number, length: number): void;
  /** how errors call the environments */
  name?: (environment: number) => string;
}

/** Episodes of `count` environments. Their observations lie in one array, one behind the other. */
export interface SteppedSet {
  readonly count: number;
  readonly spaces: Spaces;
  /** what each shows now: of one that began anew the first observation of its episode */
  readonly obs: TypedArray;
  /** what each showed behind its last action, also where the episode ended with it */
  readonly nextObs: TypedArray;
  readonly rewards: Float32Array;
  /** of the last step: the episode ended by itself */
  readonly terminated: Uint8Array;
  /** of the last step: it was cut, and had not ended by itself */
  readonly truncated: Uint8Array;
  /** of the last step: it was none, an episode only began; null where every step is one */
  readonly skipped: Uint8Array | null;
  /** environments that have an episode under way */
  readonly going: number;
  /** Begins the first episode of each. A promise where an environment gives one. */
  begin(): void | Promise<void>;
  /**
   * One step of each that has an episode under way; count × size numbers. A promise where an
   * environment gives one.
   */
  step(actions: ArrayLike<number>): void | Promise<void>;
}

/** Environments that are one thing, such as a process that steps them; `gymnasium()` opens such. */
export interface EnvironmentSet {
  readonly count: number;
  readonly spaces: Spaces;
  /** Episodes of all of them, from begin() on; those of an earlier call are over. */
  play(hooks: EpisodeHooks): SteppedSet;
  close(): void | Promise<void>;
}

/** What opens sets; in place of a function that makes one environment. */
export interface EnvironmentSets {
  /** `options`: those of the pool, or of train(). Rejects with what the user can do. */
  open(wanted: { readonly count: number; readonly options: unknown }): Promise<EnvironmentSet>;
}

export const isEnvironmentProvider = (make: unknown): make is EnvironmentSets =>
  typeof make === 'object' && make !== null && typeof (make as EnvironmentSets).open === 'function';
