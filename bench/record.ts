/**
 * Writes a device's record, bench/results/<device>.json. It contains the device, its driver and the
 * figures of each benchmark, with the command that measured them. New figures delete those of
 * another commit or driver.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { listDevices } from '../src/index.ts';
import type { Figure } from './harness.ts';
import type { Spread } from './quiet.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
export const folder = join(root, 'bench/results');

interface Setting {
  /** the device's name for itself */
  device: string;
  /** the version of the driver's interface, and the driver's own version if it is known */
  driver: string;
  cpu: string;
  node: string;
  commit: string;
}

export interface Entry {
  date: string;
  command: string;
  /** the spread of the machine's reference work during the whole benchmark */
  spread?: Spread;
  figures: readonly Omit<Figure, 'bench'>[];
}

export interface DeviceRecord extends Setting {
  benches: Record<string, Entry>;
}

/** Returns the reason why figures of this device must not be recorded, or null. */
export function refusal(device: string): string | null {
  const description = listDevices().find(({ name }) => name === device)?.description ?? '';
  if (/software driver/i.test(description))
    return `'${description}' is no device: its figures are not recorded`;
  return null;
}

/**
 * Returns the measured commit. HOTSLOT_COMMIT names it if the tree was copied without its Git
 * history.
 */
export function commit(): string {
  if (process.env.HOTSLOT_COMMIT) return process.env.HOTSLOT_COMMIT;
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  const head = git('rev-parse', 'HEAD');
  if (head.status !== 0)
    throw new Error('no commit is known to record: run in a clone, or set HOTSLOT_COMMIT');
  const changed = git('status', '--porcelain', '--', '.', ':!bench/results').stdout.trim() !== '';
  return head.stdout.trim() + (changed ? ' with changes' : '');
}

function driverVersion(): string | null {
  try {
    return (
      /\b\d{3}\.\d+(\.\d+)?\b/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[0] ??
      null
    );
  } catch {
    const asked = spawnSync('nvidia-smi', ['--query-gpu=driver_version', '--format=csv,noheader'], {
      encoding: 'utf8',
    });
    return asked.status === 0 ? (asked.stdout.trim().split('\n')[0] ?? null) : null;
  }
}

const slug = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/\(r\)|\(tm\)/g, '')
    .replaceAll(/[^a-z0-9]+/g, '-');

function setting(device: string): Setting {
  const { description = device, family } = listDevices().find(({ name }) => name === device) ?? {};
  const [title = device, ...rest] = description.split(', ');
  const version = family === 'cuda' ? driverVersion() : null;
  return {
    device: title,
    driver: [...(version ? [`driver ${version}`] : []), ...rest].join(', '),
    cpu: `${cpus()[0]?.model.trim()}, ${cpus().length} cores`,
    node: process.versions.node,
    commit: commit(),
  };
}

/**
 * Writes the figures of the benchmarks that `spreads` names. Returns the file's path and its new
 * contents.
 */
export function record(
  device: string,
  command: string,
  figures: readonly Figure[],
  spreads: Readonly<Record<string, Spread>>,
): { file: string; written: DeviceRecord } {
  const now = setting(device);
  // The file of the CPU device is named after the CPU and its number of cores.
  const name = device.startsWith('host') ? now.cpu : now.device;
  const file = join(folder, `${slug(name)}.json`);
  let benches: Record<string, Entry> = {};
  if (existsSync(file)) {
    const { benches: before, ...then } = JSON.parse(readFileSync(file, 'utf8')) as DeviceRecord;
    if (JSON.stringify(then) === JSON.stringify(now)) benches = before;
  }
  const date = new Date().toISOString();
  for (const [bench, spread] of Object.entries(spreads)) {
    const own = figures
      .filter((figure) => figure.bench === bench)
      .map(({ bench: _, ...figure }) => figure);
    benches[bench] = { date, command, spread, figures: own };
  }
  mkdirSync(folder, { recursive: true });
  const written: DeviceRecord = { ...now, benches };
  writeFileSync(file, `${JSON.stringify(written, null, 2)}\n`);
  return { file, written };
}
