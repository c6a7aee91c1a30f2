/**
 * Defines the curves of the benchmark `scale`: the horizontal axis, the metrics, and how much worse
 * each may become along it.
 */
import type { Figure } from '../harness.ts';

export interface Curve {
  /** the name of its file, and the first part of its figures' cases */
  name: string;
  title: string;
  /** the title of the horizontal axis */
  x: string;
  /**
   * the metrics on the vertical axis. Each has its own panel with all series that have the metric
   */
  metrics: readonly Metric[];
}

export interface Metric {
  metric: string;
  unit: string;
  /** whether smaller or larger values are better */
  better: 'less' | 'more';
  /**
   * How much worse the last point of a series may be than the point at `since`. From there on the
   * curve should be level, because no cache holds the data any more or because fixed costs are
   * spread enough. The limits are measured values with some margin. null for a metric that grows by
   * nature.
   */
  level: { since: number; within: number } | null;
}

export const curves: readonly Curve[] = [
  {
    name: 'rows-stored',
    title: 'Cost against rows stored, small rows',
    x: 'rows stored',
    metrics: [
      // From a million rows on, no cache holds them. The rest of the growth comes from a deeper
      // tree and from TLB misses.
      { metric: 'time of 256', unit: 'µs', better: 'less', level: { since: 1e6, within: 2.5 } },
      {
        metric: 'time of 16 added',
        unit: 'µs',
        better: 'less',
        level: { since: 1e6, within: 1.5 },
      },
    ],
  },
  {
    name: 'row-size',
    title: 'Gather against row size, one thread, rows that no cache holds',
    x: 'bytes a row',
    metrics: [
      // From 4 KiB on, a row fills a page and is read sequentially.
      { metric: 'speed', unit: 'GB/s', better: 'more', level: { since: 4096, within: 1.3 } },
      { metric: 'time per row', unit: 'ns', better: 'less', level: null },
    ],
  },
  {
    name: 'batch',
    title: 'A row against the rows of its batch, 172 B a row out of 1,000,000',
    x: 'rows of a batch',
    metrics: [
      { metric: 'time per row', unit: 'ns', better: 'less', level: { since: 1024, within: 1.6 } },
    ],
  },
  {
    name: 'depth',
    title: 'A tick against the slots of the ring',
    x: 'slots',
    metrics: [
      { metric: 'time per tick', unit: 'µs', better: 'less', level: { since: 2, within: 1.3 } },
    ],
  },
  {
    name: 'writers',
    title: 'Steps of 172 B written, all threads together',
    x: 'threads that write',
    metrics: [
      { metric: 'steps written', unit: 'M/s', better: 'more', level: { since: 2, within: 1.5 } },
    ],
  },
];

/** Returns the figure's curve, or undefined. */
export const curveOf = (figure: Pick<Figure, 'at'>): Curve | undefined =>
  curves.find(({ name }) => name === figure.at?.curve);

/**
 * Returns how many times worse the last point of a series is than the point at `since`. 1 is level.
 */
export function rise(metric: Metric, points: readonly { x: number; value: number }[]): number {
  const first = points.find(({ x }) => x >= (metric.level?.since ?? 0));
  const last = points.at(-1);
  if (!first || !last) return 1;
  return metric.better === 'less' ? last.value / first.value : first.value / last.value;
}
