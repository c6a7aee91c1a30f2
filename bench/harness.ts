/**
 * Helpers that all benchmarks share. They time contenders in turn, compute medians and quartiles,
 * and define the figures that the runner prints.
 */
import { ReplayBuffer } from '../src/index.ts';
import type { Spread } from './quiet.ts';

export interface Figure {
  bench: string;
  case: string;
  metric: string;
  value: number;
  unit: string;
  /** the quartiles of the rounds. `value` is their median */
  quartiles?: readonly [number, number];
  /** the result of the work that `value` is compared with, measured in the same run */
  baseline?: number;
  baselineQuartiles?: readonly [number, number];
  /** `value` compared with `baseline`: above 1 is better */
  ratio?: number;
  /** the result that the benchmark should reach */
  goal?: Goal;
  /** the figure's point on a curve of the benchmark `scale` */
  at?: { curve: string; series: string; x: number };
  /**
   * the spread of the machine's reference work before and after the figure. The runner measures it
   */
  spread?: Spread;
}

/** The least ratio, the least value or the most value that a figure should have. */
export type Goal = { ratio: number } | { least: number } | { most: number };

export function meets({ value, ratio = 0 }: Pick<Figure, 'value' | 'ratio'>, goal: Goal): boolean {
  if ('ratio' in goal) return ratio >= goal.ratio;
  return 'least' in goal ? value >= goal.least : value <= goal.most;
}

export type Report = (figure: Omit<Figure, 'bench'>) => void;

export interface Options {
  device: string;
  quick: boolean;
  /**
   * whether `tick` reports the time of each step of a tick instead of the ticks per second, and
   * `traced` prints plans
   */
  explained: boolean;
  /** whether `products` writes the limits that it finds to the source that has them */
  writes: boolean;
}

export type Benchmark = (report: Report, options: Options) => Promise<void>;

export function median(values: number[]): number {
  return percentile(values, 0.5);
}

export function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] as number;
}

/** Microseconds of one call, an element per round. */
export interface Times {
  /** the time until the calls returned */
  caller: number[];
  /** the time until the work that the calls enqueued was done */
  done: number[];
}

/**
 * Times the contenders in turn, so that a slow moment of the machine affects all of them. In a
 * round, it calls a contender `calls` times, then `drain` waits until the enqueued work is done.
 * The times of the first round are dropped, because its code is not compiled yet.
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

/** Returns the median and the quartiles of the values, each converted by `as`. */
export function middle(values: number[], as = (value: number) => value) {
  const [low, value, high] = [0.25, 0.5, 0.75].map((p) => as(percentile(values, p))) as [
    number,
    number,
    number,
  ];
  return { value, quartiles: [Math.min(low, high), Math.max(low, high)] as const };
}

/**
 * Compares our times with those of other code for the same work. Returns the medians and quartiles
 * of both, converted by `as`, and how many times faster ours are.
 */
export function beside(ours: number[], others: number[], as = (value: number) => value) {
  const { value: baseline, quartiles: baselineQuartiles } = middle(others, as);
  return { ...middle(ours, as), baseline, baselineQuartiles, ratio: median(others) / median(ours) };
}

/** Like `beside`, but converts microseconds for `bytes` bytes to GB/s. */
export function speedBeside(bytes: number, ours: number[], others: number[]) {
  return { ...beside(ours, others, (us) => bytes / us / 1e3), unit: 'GB/s' };
}

/** Creates a full buffer whose rows have `floats` floats, and two masks of `mask` actions. */
export function filledRows(capacity: number, floats: number, mask = 0): ReplayBuffer {
  const masks = mask > 0 ? { actionMask: { mask }, nextActionMask: { mask } } : {};
  const fields = { row: { shape: [floats] }, ...masks };
  const buffer: ReplayBuffer = ReplayBuffer.create({ capacity, fields });
  const chunk = new Float32Array(4096 * floats).map((_, i) => i);
  const legal = new Uint8Array(4096 * mask).map((_, i) => i % 2);
  for (let left = capacity; left > 0; left -= 4096) {
    const rows = Math.min(left, 4096);
    const bits = legal.subarray(0, rows * mask);
    const own = mask > 0 ? { actionMask: bits, nextActionMask: bits } : {};
    buffer.add({ row: chunk.subarray(0, rows * floats), ...own });
  }
  return buffer;
}

/**
 * Creates an empty buffer and touches all its pages. The system then allocates no memory while a
 * benchmark fills the buffer.
 */
export function touchedRows(capacity: number, floats: number): ReplayBuffer {
  const buffer = ReplayBuffer.create({ capacity, fields: { row: { shape: [floats] } } });
  const { memory } = buffer.share();
  const words = new Float64Array(memory, 0, Math.floor(memory.byteLength / 8));
  for (let at = 0; at < words.length; at += 512) words[at] = words[at] as number;
  return buffer;
}
