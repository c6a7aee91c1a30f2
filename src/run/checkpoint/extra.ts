/** Reads `extra` alone, for a run that needs it to make its parts. */
import { Folder } from './folder.ts';
import { readManifest } from './manifest.ts';
import { plainOf } from './restore.ts';

/**
 * Resolves with undefined if the folder holds no checkpoint yet. Throws as Checkpoint.restore()
 * does.
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
