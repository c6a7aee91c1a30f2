/**
 * How long each test file took in its last measured run. `npm test` begins with the longest files,
 * so that at the end no core is idle. A run with HOTSLOT_TEST_TIMES=write stores the seconds of its
 * files in times.json.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

type Seconds = Record<string, number>;

const root = fileURLToPath(new URL('../../../', import.meta.url));
const kept = `${root}test/rig/times.json`;
const read = () => JSON.parse(readFileSync(kept, 'utf8')) as Record<string, Seconds>;

/**
 * Returns the name of a file: `…/dist/test/ring/slot.test.js` and
 * `…/dist/test/ring/slot.long.test.js` are both ring/slot.
 */
export const nameOf = (file: string): string =>
  file.replace(/^.*\/dist\/test\//, '').replace(/(\.long)?\.test\.js$/, '');

/** Orders the files, the longest first. Files without a measured time come in the middle. */
export function inOrder(setting: string, files: readonly string[]): string[] {
  const seconds = read()[setting] ?? {};
  const all = Object.values(seconds).sort((a, b) => a - b);
  const middle = all[all.length >> 1] ?? 0;
  const of = (file: string) => seconds[nameOf(file)] ?? middle;
  return [...files].sort((a, b) => of(b) - of(a) || (a < b ? -1 : 1));
}

/** Stores the seconds of these files, and removes files that no longer exist. */
export function keepTimes(setting: string, took: ReadonlyMap<string, number>): void {
  const times = read();
  const all = { ...times[setting], ...Object.fromEntries(took) };
  const names = Object.keys(all).filter((name) =>
    ['.test.ts', '.long.test.ts'].some((ending) => existsSync(`${root}test/${name}${ending}`)),
  );
  times[setting] = Object.fromEntries(
    names.sort().map((name) => [name, Number(all[name]!.toFixed(1))]),
  );
  writeFileSync(kept, `${JSON.stringify(times, null, 2)}\n`);
}
