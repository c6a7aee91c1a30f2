/** Folders for event files, gone after each test; and warnings of the process. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];

/** A folder's path that nothing is at. */
export function place(): string {
  const parent = mkdtempSync(join(tmpdir(), 'hotslot-monitor-'));
  made.push(parent);
  return join(parent, 'curves');
}

/** For afterEach. */
export function removeAll(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Monitor warnings that `act` leads to, told or about to be. */
export async function warningsOf(act: () => Promise<void>): Promise<string[]> {
  const heard: string[] = [];
  const listener = ({ name, message }: Error) => {
    if (name === 'MonitorWarning') heard.push(message);
  };
  process.on('warning', listener);
  try {
    await act();
    // A warning is emitted on the next tick of the process.
    await new Promise(setImmediate);
    return heard;
  } finally {
    process.off('warning', listener);
  }
}
