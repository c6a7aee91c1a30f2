/** What a tick is known to cost, test/guard/known.json: the table that the guard compares with, and how it is renewed. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../../../test/guard/known.json', import.meta.url));

/** Numbers by name, in groups: less is better. */
export type Costs = Readonly<Record<string, Readonly<Record<string, number>>>>;
export type Known = Record<string, Costs>;

export const known = (): Known => JSON.parse(readFileSync(file, 'utf8')) as Known;

export const RENEW = 'HOTSLOT_GUARD=renew node dist/test/rig/run.js all dist/test/guard/guard.test.js';

/** Whether this run writes the table anew instead of comparing. */
export const renewing = (): boolean => process.env.HOTSLOT_GUARD === 'renew';

export function renew(part: string, costs: Costs): void {
  const all = { ...known(), [part]: costs };
  const sorted = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`);
}

const told = (value: number) => value.toLocaleString('en');

/**
 * What is worse than it was, a line each; none where all is as good. `tolerance`: how much more is still the same. What is better
 * by more than that is told as well: the table would let it get worse again. What the table does not know is worse.
 */
export function worse(before: Costs, now: Costs, tolerance: number): string[] {
  const lines: string[] = [];
  for (const group of new Set([...Object.keys(before), ...Object.keys(now)])) {
    for (const name of new Set([...Object.keys(before[group] ?? {}), ...Object.keys(now[group] ?? {})])) {
      const [was, is] = [before[group]?.[name] ?? 0, now[group]?.[name] ?? 0];
      if (is > was * (1 + tolerance)) lines.push(`${group}, ${name}: ${told(is)}, was ${told(was)}`);
      else if (is < was * (1 - tolerance))
        lines.push(`${group}, ${name}: ${told(is)}, better than ${told(was)}: renew`);
    }
  }
  return lines;
}
