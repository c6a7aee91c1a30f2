/**
 * A folder of its own for a test that flushes files again and again: in memory where the system has
 * such a place, and room in it.
 */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
const ENOUGH = 2 ** 28;

/** Where such folders are made. */
export function fastFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ENOUGH ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Goes again, whatever `use` does. */
export async function withFastFolder<T>(use: (folder: string) => Promise<T> | T): Promise<T> {
  const folder = mkdtempSync(join(fastFolder(), 'hotslot-checkpoint-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
