/** What is asked of a checkpoint, and what it tells. */
import type { CheckpointParts } from './parts.ts';

export interface CheckpointOptions extends CheckpointParts {
  /** saves by itself so often: a number of ms, s, min or h, such as '60 s'; never when left out */
  every?: string;
}

/** A save that is on the disk. */
export interface SavedCheckpoint {
  /** counted from 1, over all runs that go on from each other */
  save: number;
  /** the last tick that it holds; −1 before the first, and without a pipeline */
  tick: number;
  /** written for it */
  bytes: number;
  /** from the call to the disk */
  seconds: number;
  /** of those, the time in which nothing moved */
  stillSeconds: number;
}

/** What restore() has read, besides what it gave to the parts. */
export interface RestoredCheckpoint {
  save: number;
  tick: number;
  /** when it was taken, ISO 8601 */
  time: string;
  /** of a pool or of remote ones: for open({ resume }); else what their state() gave */
  collectors: unknown;
  extra: unknown;
}

export interface CheckpointEvents {
  /** a save is on the disk */
  saved: [saved: SavedCheckpoint];
  /** a save by `every` failed; the one before is as it was, and the next is tried in time */
  error: [error: Error];
  warning: [message: string];
}
