/**
 * Makes folders for event files and removes them after each test. Collects warnings of the monitor.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];

/** Returns the path of a folder that does not exist yet. */
export function place(): string {
  const parent = mkdtempSync(join(tmpdir(), 'hotslot-monitor-'));
  made.push(parent);
  return join(parent, 'curves');
}

/** Removes the folders. Call it in afterEach. */
export function removeAll(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Returns the texts of the monitor's warnings that `act` causes. */
export async function warningsOf(act: () => Promise<void>): Promise<string[]> {
  const heard: string[] = [];
  const listener = ({ name, message }: Error) => {
    if (name === 'MonitorWarning') heard.push(message);
  };
  process.on('warning', listener);
  try {
    await act();
    // Node emits a warning on the next tick of the process.
    await new Promise(setImmediate);
    return heard;
  } finally {
    process.off('warning', listener);
  }
}
