/** What every benchmark shares: interleaved rounds, medians, and one line per figure. */

export interface Figure {
  bench: string;
  case: string;
  metric: string;
  value: number;
  unit: string;
  /** the same work done the other way, in the same run */
  baseline?: number;
  /** how much better than the baseline: > 1 is better */
  ratio?: number;
}

export type Report = (figure: Omit<Figure, 'bench'>) => void;

export interface Options {
  device: string;
  quick: boolean;
}

export type Benchmark = (report: Report, options: Options) => Promise<void>;

export function median(values: number[]): number {
  return percentile(values, 0.5);
}

export function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] as number;
}

/** Milliseconds of each contender per round, run in turn so that a noisy moment hits all of them; the first round warms. */
export function interleaved<K extends string>(rounds: number, contenders: Record<K, () => void>): Record<K, number[]> {
  const names = Object.keys(contenders) as K[];
  const times = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>;
  for (let round = -1; round < rounds; round++) {
    for (const name of names) {
      const begin = performance.now();
      contenders[name]();
      if (round >= 0) times[name].push(performance.now() - begin);
    }
  }
  return times;
}
