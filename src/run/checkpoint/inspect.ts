/** The contents of a checkpoint, for a person or a program to read: its manifest in other words. */
import { join } from 'node:path';
import type { Folder } from './folder.ts';
import type { Manifest, PartName, Plain } from './manifest.ts';

/** The result of Checkpoint.inspect(). */
export interface CheckpointContents {
  /** absolute path */
  folder: string;
  /** number of the save, counted from 1 */
  save: number;
  /** the last tick, −1 before the first and without a pipeline */
  tick: number;
  /** when it was taken, ISO 8601 */
  time: string;
  /** size of all files */
  bytes: number;
  /** each part by name: the facts that must be equal to restore it (`is`), and its counts */
  parts: Partial<Record<PartName, Readonly<Record<string, Plain>>>>;
  /** `learner.state()` as safetensors, which torch reads, null without a learner */
  learnerFile: string | null;
  /** absolute path and size of each file */
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
