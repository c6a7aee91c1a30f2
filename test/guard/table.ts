/**
 * Reads and renews test/guard/known.json, the known costs of a tick that the guard compares with.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../../../test/guard/known.json', import.meta.url));

/** Costs by name, in groups. Less is better. */
export type Costs = Readonly<Record<string, Readonly<Record<string, number>>>>;
export type Known = Record<string, Costs>;

export const known = (): Known => JSON.parse(readFileSync(file, 'utf8')) as Known;

export const RENEW =
  'HOTSLOT_GUARD=renew node dist/test/rig/run.js all dist/test/guard/guard.long.test.js';

/** Returns whether this run writes the table instead of comparing. */
export const renewing = (): boolean => process.env.HOTSLOT_GUARD === 'renew';

export function renew(part: string, costs: Costs): void {
  const all = { ...known(), [part]: costs };
  const sorted = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`);
}

const told = (value: number) => value.toLocaleString('en');

/** What got worse and what got better, one line for each cost. */
export interface Changes {
  readonly worse: readonly string[];
  readonly better: readonly string[];
}

/**
 * Compares costs. Differences within `tolerance` count as equal. A cost that the table lacks counts
 * as worse. Better costs are listed too, because the table must be renewed so that they cannot get
 * worse again.
 */
export function changes(before: Costs, now: Costs, tolerance: number): Changes {
  const found = { worse: [] as string[], better: [] as string[] };
  for (const group of new Set([...Object.keys(before), ...Object.keys(now)])) {
    for (const name of new Set([
      ...Object.keys(before[group] ?? {}),
      ...Object.keys(now[group] ?? {}),
    ])) {
      const [was, is] = [before[group]?.[name] ?? 0, now[group]?.[name] ?? 0];
      const line = `${group}, ${name}: ${told(is)}, was ${told(was)}`;
      if (is > was * (1 + tolerance)) found.worse.push(line);
      else if (is < was * (1 - tolerance)) found.better.push(line);
    }
  }
  return found;
}
