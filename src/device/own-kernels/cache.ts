/**
 * Stores compiled images on disk, under a hash of their content, so that the same source is
 * compiled once.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Returns 40 hex digits that identify the content of all parts. */
export function contentKey(...parts: readonly (string | Uint8Array)[]): string {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(String(part.length)).update(':').update(part);
  return digest.digest('hex').slice(0, 40);
}

let folder: Promise<string> | undefined;

/**
 * Returns the directory of the cache. The directory is `kernels` in HOTSLOT_CACHE, or else
 * `hotslot/kernels` in the user's cache directory. Only this user may be able to write to it,
 * because its files are executed. If no such directory can be used, returns a new one in the
 * system's temporary directory.
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
      // The directory cannot be used.
    }
    return mkdtemp(join(tmpdir(), 'hotslot-kernels-'));
  })();
  return folder;
}

/**
 * Returns the path of the cached file with this name. If the file is missing, calls `make` with the
 * path at which it must write the file.
 */
export async function cached(name: string, make: (path: string) => Promise<void>): Promise<string> {
  const path = join(await place(), name);
  const there = await access(path).then(
    () => true,
    () => false,
  );
  if (there) return path;
  // Writes to a temporary path and renames it, so that the file at `path` is always complete.
  // Another process may write the same file at the same time.
  const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  return path;
}

/** Stores these bytes in the cache, and returns the path of their file. */
export const cachedBytes = (bytes: Uint8Array, ending: string): Promise<string> =>
  cached(`${contentKey(bytes)}${ending}`, (path) => writeFile(path, bytes));
