/** The options, results and events of a checkpoint. */
import type { CheckpointParts } from './parts.ts';

/** Options of Checkpoint.open() and Checkpoint.restore(): the parts, and `every`. */
export interface CheckpointOptions extends CheckpointParts {
  /**
   * interval of automatic saves, such as '60 s': a number of ms, s, min or h, at least 10 ms and at
   * most 24 days. Default: none
   */
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

/** The result of Checkpoint.restore(): values that were not given to the parts. */
export interface RestoredCheckpoint {
  /** number of the save, counted from 1 */
  save: number;
  /** the last tick that it holds, −1 before the first and without a pipeline */
  tick: number;
  /** when it was taken, ISO 8601 */
  time: string;
  /**
   * of a pool or of remote collectors: the value for open({ resume }). Otherwise the clone of the
   * result of their state()
   */
  collectors: unknown;
  /** a clone of the saved `extra`, or of its result if it was a function */
  extra: unknown;
}

/** Events of a checkpoint, with the arguments of their listeners. */
export interface CheckpointEvents {
  /** a save is on the disk */
  saved: [saved: SavedCheckpoint];
  /**
   * a save by `every` failed. The previous checkpoint is unchanged, and the next save is tried on
   * time. Without a listener it is a process warning
   */
  error: [error: Error];
  /**
   * collectors did not return from collect() in time, so that their state is missing. Without a
   * listener it is a process warning
   */
  warning: [message: string];
}
