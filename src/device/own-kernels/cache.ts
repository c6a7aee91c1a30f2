/** Images that were made here, kept on disk by their content: the same source is compiled once. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Hex digits that say all of what they are made of. */
export function contentKey(...parts: readonly (string | Uint8Array)[]): string {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(String(part.length)).update(':').update(part);
  return digest.digest('hex').slice(0, 40);
}

let folder: Promise<string> | undefined;

/**
 * HOTSLOT_CACHE, else hotslot's folder in the user's cache, open to this user alone since what lies
 * there is run; one in the system's temporary folder where that cannot be.
 */
function place(): Promise<string> {
  folder ??= (async () => {
    const { HOTSLOT_CACHE, XDG_CACHE_HOME } = process.env;
    const wanted = join(
      HOTSLOT_CACHE || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'hotslot'),
      'kernels',
    );
    try {
      await mkdir(wanted, { recursive: true, mode: 0o700 });
      await access(wanted, constants.W_OK);
      const { uid, mode } = await stat(wanted);
      if (uid === process.getuid?.() && (mode & 0o022) === 0) return wanted;
    } catch {
      // Then there is no such place.
    }
    return mkdtemp(join(tmpdir(), 'hotslot-kernels-'));
  })();
  return folder;
}

/**
 * The path of the file of this name: there already, or made by `make` at the path that it is given.
 */
export async function cached(name: string, make: (path: string) => Promise<void>): Promise<string> {
  const path = join(await place(), name);
  const there = await access(path).then(
    () => true,
    () => false,
  );
  if (there) return path;
  // Whole or not at all: another process may make the same.
  const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  return path;
}

/** The path of a file with these bytes. */
export const cachedBytes = (bytes: Uint8Array, ending: string): Promise<string> =>
  cached(`${contentKey(bytes)}${ending}`, (path) => writeFile(path, bytes));
