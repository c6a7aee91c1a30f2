/** Compiled images, kept on disk by their content: the same source is compiled once. */
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
 * Returns the directory `kernels` in HOTSLOT_CACHE, else in hotslot's directory of the user's
 * cache. Only this user may write there, because its files are executed. If that is impossible, it
 * returns a new directory in the system's temporary directory.
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
 * Returns the path of the file of this name, which exists already, or which `make` writes at the
 * path it is called with.
 */
export async function cached(name: string, make: (path: string) => Promise<void>): Promise<string> {
  const path = join(await place(), name);
  const there = await access(path).then(
    () => true,
    () => false,
  );
  if (there) return path;
  // The file appears whole or not at all, because another process may make the same.
  const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  return path;
}

/** Returns the path of a file with these bytes. */
export const cachedBytes = (bytes: Uint8Array, ending: string): Promise<string> =>
  cached(`${contentKey(bytes)}${ending}`, (path) => writeFile(path, bytes));
