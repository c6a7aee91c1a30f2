/** The options, results and events of a checkpoint. */
import type { CheckpointParts } from './parts.ts';

/** Options of Checkpoint.open() and Checkpoint.restore(): the parts, and `every`. */
export interface CheckpointOptions extends CheckpointParts {
  /**
   * interval between automatic saves, such as '60 s': a number with the unit ms, s, min or h. From
   * 10 ms to 24 days. Default: no automatic saves
   */
  every?: string;
}

/** The counts of a save that is on the disk. */
export interface SavedCheckpoint {
  /** number of the save, counted from 1 over all runs that resume each other */
  save: number;
  /** the last tick in the checkpoint, −1 before the first tick and without a pipeline */
  tick: number;
  /** bytes that this save wrote */
  bytes: number;
  /** seconds from the call until the checkpoint was on the disk */
  seconds: number;
  /**
   * seconds in which the state of the parts was taken, while the pipeline and a pool's collectors
   * stood still
   */
  stillSeconds: number;
}

/**
 * The result of Checkpoint.restore(): facts of the checkpoint, and values that the caller passes
 * on.
 */
export interface RestoredCheckpoint {
  /** number of the save, counted from 1 */
  save: number;
  /** the last tick in the checkpoint, −1 before the first tick and without a pipeline */
  tick: number;
  /** time of the save, ISO 8601 */
  time: string;
  /**
   * for a pool or remote collectors, the value for open({ resume }). For your own collectors, a
   * clone of the result of their state()
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
   * an automatic save failed. The previous checkpoint is unchanged, and the next automatic save
   * follows after `every`. Without a listener, the error becomes a process warning
   */
  error: [error: Error];
  /**
   * collectors did not return from collect() within 5 s, so the checkpoint lacks their states.
   * Without a listener, the text becomes a process warning
   */
  warning: [message: string];
}
