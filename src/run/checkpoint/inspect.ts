/** Returns the contents of a checkpoint for a person or a program to read, from its manifest. */
import { join } from 'node:path';
import type { Folder } from './folder.ts';
import type { Manifest, PartName, Plain } from './manifest.ts';

/** The result of Checkpoint.inspect(). */
export interface CheckpointContents {
  /** absolute path of the folder */
  folder: string;
  /** number of the save, counted from 1 */
  save: number;
  /** the last tick requested, −1 before the first tick and without a pipeline */
  tick: number;
  /** time of the save, ISO 8601 */
  time: string;
  /** size of all files in bytes */
  bytes: number;
  /**
   * each part by name. `is` has the facts that must be equal to restore the part. The other entries
   * are its counts
   */
  parts: Partial<Record<PartName, Readonly<Record<string, Plain>>>>;
  /**
   * absolute path of the safetensors file with the result of `learner.state()`, which torch can
   * read. Null without a learner
   */
  learnerFile: string | null;
  /** absolute path of each file, and its size in bytes */
  files: { path: string; bytes: number }[];
}

export function contentsOf(
  folder: Folder,
  { save, tick, time, parts, files, segments }: Manifest,
): CheckpointContents {
  const all = [...files, ...segments].map(({ file, bytes }) => ({
    path: join(folder.path, file),
    bytes,
  }));
  const learner = files.find(({ file }) => file.startsWith('learner-'));
  return {
    folder: folder.path,
    save,
    tick,
    time,
    parts,
    files: all,
    bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
    learnerFile: learner ? join(folder.path, learner.file) : null,
  };
}
