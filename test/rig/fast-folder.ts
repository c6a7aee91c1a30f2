/**
 * A new folder for a test that flushes files many times. It is in memory if the system has such a
 * folder with enough room.
 */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
const ENOUGH = 2 ** 28;

/** Returns the folder in which such folders are created. */
export function fastFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ENOUGH ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Creates a folder for `use`, and removes it even if `use` fails. */
export async function withFastFolder<T>(use: (folder: string) => Promise<T> | T): Promise<T> {
  const folder = mkdtempSync(join(fastFolder(), 'hotslot-checkpoint-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
