/** Reads only the saved `extra`, for a run that needs it to create its parts. */
import { Folder } from './folder.ts';
import { readManifest } from './manifest.ts';
import { plainOf } from './restore.ts';

/**
 * Returns the saved `extra`, or undefined if the folder has no checkpoint yet. Throws as
 * Checkpoint.restore() does.
 */
export async function extraOf(folder: string | URL): Promise<unknown> {
  const place = new Folder('Checkpoint.restore', folder);
  if (!(await place.hasCheckpoint())) return undefined;
  place.lock({ reads: true });
  try {
    return (await plainOf(place, await readManifest(place))).extra;
  } finally {
    place.unlock();
  }
}
