/**
 * Reads and writes the record of an environment and an algorithm, bench/results/curves/<name>.json.
 * It has a curve for each seed, and the machine and commit that it was measured on.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commit } from '../record.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = join(root, 'bench/results/curves');

/** An evaluation: greedy episodes with the newest weights. */
export interface Look {
  steps: number;
  seconds: number;
  /** mean and standard deviation over the episodes of the evaluation */
  meanReturn: number;
  deviation: number;
}

/** Returns an evaluation of a curve with numbers that are rounded for the record. */
export const rounded = ({ steps, seconds, meanReturn, deviation }: Look, digits = 2): Look => ({
  steps,
  seconds: Number(seconds.toFixed(2)),
  meanReturn: Number(meanReturn.toFixed(digits)),
  deviation: Number(deviation.toFixed(digits)),
});

export interface SeedRun {
  seed: number;
  steps: number;
  updates: number;
  seconds: number;
  curve: Look[];
}

export interface CurveRecord {
  environment: string;
  algorithm: string;
  /** episodes of an evaluation */
  episodes: number;
  cpu: string;
  node: string;
  commit: string;
  date: string;
  command: string;
  runs: SeedRun[];
}

const pathOf = (name: string) => join(folder, `${name}.json`);

export function readRecord(name: string): CurveRecord | null {
  const path = pathOf(name);
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as CurveRecord) : null;
}

type What = Pick<CurveRecord, 'environment' | 'algorithm' | 'episodes' | 'command'>;

/**
 * Adds the run to the record. It replaces a run of the same seed. A record has one setting, so runs
 * of another commit, machine or command are deleted.
 */
export function keepRun(name: string, what: What, run: SeedRun): void {
  const setting = {
    ...what,
    cpu: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    node: process.version,
    commit: commit(),
  };
  const before = readRecord(name);
  const same =
    before &&
    Object.entries(setting).every(([key, value]) => before[key as keyof CurveRecord] === value);
  const runs = [...(same ? before.runs : []).filter(({ seed }) => seed !== run.seed), run];
  runs.sort((a, b) => a.seed - b.seed);
  const date = new Date().toISOString().slice(0, 10);
  const head = Object.entries({ ...setting, date }).map(
    ([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},`,
  );
  // An evaluation is written as one line.
  const lines = runs.map(({ curve, ...of }) => {
    const looks = curve.map((look) => `        ${JSON.stringify(look)}`).join(',\n');
    return `    ${JSON.stringify(of).slice(0, -1)}, "curve": [\n${looks}\n    ]}`;
  });
  mkdirSync(folder, { recursive: true });
  writeFileSync(pathOf(name), `{\n${head.join('\n')}\n  "runs": [\n${lines.join(',\n')}\n  ]\n}\n`);
}

export function writePicture(name: string, svg: string): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.svg`);
  writeFileSync(path, svg);
  return path;
}
