/** What every benchmark shares: rounds taken in turn, medians, and one line per figure. */
import { ReplayBuffer } from '../src/index.ts';
import type { Spread } from './quiet.ts';

export interface Figure {
  bench: string;
  case: string;
  metric: string;
  value: number;
  unit: string;
  /** of the rounds whose median `value` is */
  quartiles?: readonly [number, number];
  /** the same work done the other way, in the same run */
  baseline?: number;
  baselineQuartiles?: readonly [number, number];
  /** how much better than the baseline: > 1 is better */
  ratio?: number;
  /** what it is to come to */
  goal?: Goal;
  /** where it lies, of a curve */
  at?: { curve: string; series: string; x: number };
  /** how far the same short work before and after it lay apart; the runner looks */
  spread?: Spread;
}

/** So many times better than the baseline, or a value that it may not pass. */
export type Goal = { ratio: number } | { least: number } | { most: number };

export function meets({ value, ratio = 0 }: Pick<Figure, 'value' | 'ratio'>, goal: Goal): boolean {
  if ('ratio' in goal) return ratio >= goal.ratio;
  return 'least' in goal ? value >= goal.least : value <= goal.most;
}

export type Report = (figure: Omit<Figure, 'bench'>) => void;

export interface Options {
  device: string;
  quick: boolean;
  /** where the time goes, in place of how much it is; of `tick` */
  explained: boolean;
}

export type Benchmark = (report: Report, options: Options) => Promise<void>;

export function median(values: number[]): number {
  return percentile(values, 0.5);
}

export function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] as number;
}

/** Of one call, in microseconds, a number per round. */
export interface Times {
  /** in the calling thread */
  caller: number[];
  /** until what it enqueued was done too */
  done: number[];
}

/**
 * Times contenders in turn, so that a noisy moment hits all of them; the first round warms. A
 * contender is called `calls` times at once, then `drain` waits until all of it is done.
 */
export async function inTurn<K extends string>(
  rounds: number,
  contenders: Record<K, () => unknown>,
  drain: () => unknown = () => {},
  calls = 1,
): Promise<Record<K, Times>> {
  const names = Object.keys(contenders) as K[];
  const times = Object.fromEntries(
    names.map((name) => [name, { caller: [], done: [] }]),
  ) as unknown as Record<K, Times>;
  for (let round = -1; round < rounds; round++) {
    for (const name of names) {
      const act = contenders[name];
      const begin = performance.now();
      for (let i = 0; i < calls; i++) act();
      const called = performance.now();
      await drain();
      if (round < 0) continue;
      times[name].caller.push(((called - begin) * 1000) / calls);
      times[name].done.push(((performance.now() - begin) * 1000) / calls);
    }
  }
  return times;
}

/** The median and the quartiles of what was measured, each told as `as` has it. */
export function middle(values: number[], as = (value: number) => value) {
  const [low, value, high] = [0.25, 0.5, 0.75].map((p) => as(percentile(values, p))) as [
    number,
    number,
    number,
  ];
  return { value, quartiles: [Math.min(low, high), Math.max(low, high)] as const };
}

/**
 * Median times, told as `as` has them, beside those of the same work done the other way: less time
 * is better.
 */
export function beside(ours: number[], others: number[], as = (value: number) => value) {
  const { value: baseline, quartiles: baselineQuartiles } = middle(others, as);
  return { ...middle(ours, as), baseline, baselineQuartiles, ratio: median(others) / median(ours) };
}

/** The same as GB/s, of so many bytes in microseconds. */
export function speedBeside(bytes: number, ours: number[], others: number[]) {
  return { ...beside(ours, others, (us) => bytes / us / 1e3), unit: 'GB/s' };
}

/** A full buffer of rows of so many floats. */
export function filledRows(capacity: number, floats: number): ReplayBuffer {
  const buffer = ReplayBuffer.create({ capacity, fields: { row: { shape: [floats] } } });
  const chunk = new Float32Array(4096 * floats).map((_, i) => i);
  for (let left = capacity; left > 0; left -= 4096)
    buffer.add({ row: chunk.subarray(0, Math.min(left, 4096) * floats) });
  return buffer;
}

/**
 * A fresh one that has all its pages, so that filling it takes no more memory and no time of the
 * system's for it.
 */
export function touchedRows(capacity: number, floats: number): ReplayBuffer {
  const buffer = ReplayBuffer.create({ capacity, fields: { row: { shape: [floats] } } });
  const { memory } = buffer.share();
  const words = new Float64Array(memory, 0, Math.floor(memory.byteLength / 8));
  for (let at = 0; at < words.length; at += 512) words[at] = words[at] as number;
  return buffer;
}
