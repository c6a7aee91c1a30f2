/** The options, results and events of a checkpoint. */
import type { CheckpointParts } from './parts.ts';

export interface CheckpointOptions extends CheckpointParts {
  /** interval of automatic saves, a number of ms, s, min or h, such as '60 s', default: none */
  every?: string;
}

/** A save that is on the disk. */
export interface SavedCheckpoint {
  /** counted from 1, over all runs that resume each other */
  save: number;
  /** the last tick that it holds, −1 before the first and without a pipeline */
  tick: number;
  /** bytes written for it */
  bytes: number;
  /** seconds from the call to the disk */
  seconds: number;
  /** seconds of those in which nothing moved */
  stillSeconds: number;
}

/** The values that restore() has read but not given to the parts. */
export interface RestoredCheckpoint {
  save: number;
  tick: number;
  /** when it was taken, ISO 8601 */
  time: string;
  /**
   * for open({ resume }) if they were of a pool or of remote ones, otherwise the value of their
   * state()
   */
  collectors: unknown;
  extra: unknown;
}

export interface CheckpointEvents {
  /** a save is on the disk */
  saved: [saved: SavedCheckpoint];
  /** a save by `every` failed: the previous one is unchanged, and the next is tried in time */
  error: [error: Error];
  warning: [message: string];
}
