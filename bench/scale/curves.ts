/**
 * The curves of the benchmark `scale`: what they are drawn along, what is measured at each place,
 * and how far they may rise.
 */
import type { Figure } from '../harness.ts';

export interface Curve {
  /** its file, and the first half of its figures' cases */
  name: string;
  title: string;
  /** along the picture */
  x: string;
  /** up it; several are pictures side by side, each of the series that have that metric */
  metrics: readonly Metric[];
}

export interface Metric {
  metric: string;
  unit: string;
  /** less is better, or more is */
  better: 'less' | 'more';
  /**
   * How much worse the last place of a series may be than `since`, the place from which it should
   * be level: where nothing is in a cache any more, or where what is fixed is spread over enough.
   * Measured, with some room; null where it must rise.
   */
  level: { since: number; within: number } | null;
}

export const curves: readonly Curve[] = [
  {
    name: 'rows-stored',
    title: 'Cost against rows stored, small rows',
    x: 'rows stored',
    metrics: [
      // From a million on no cache holds them: what is left is a deeper tree, and pages that the
      // processor has to look up.
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
      // From a page of 4 KiB on a row is a run of its own.
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

/** The figure's curve. */
export const curveOf = (figure: Pick<Figure, 'at'>): Curve | undefined =>
  curves.find(({ name }) => name === figure.at?.curve);

/** How much worse a series is at its last place than at `since`; 1: level. */
export function rise(metric: Metric, points: readonly { x: number; value: number }[]): number {
  const first = points.find(({ x }) => x >= (metric.level?.since ?? 0));
  const last = points.at(-1);
  if (!first || !last) return 1;
  return metric.better === 'less' ? last.value / first.value : first.value / last.value;
}
