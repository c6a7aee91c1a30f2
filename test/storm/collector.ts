/**
 * The collector of a storm. In a pool, its steps have numbers that follow from the counts of its
 * lanes. On a remote host, its rows have numbers from 0 on.
 */
import type { Collector, CollectorContext } from '../../src/index.ts';
import {
  BODY,
  bodyOf,
  type Common,
  endsAt,
  filledWith,
  type LaneCounts,
  laneCounts,
  prioOf,
  ROUND,
  terminates,
} from './numbers.ts';

export default function stormCollector(context: CollectorContext): Collector {
  return context.writer === null ? rows(context) : steps(context);
}

function rows({ seed, worker, report }: CollectorContext): Collector {
  let number = 0;
  let weight = 0;
  return {
    load(weights) {
      weight = filledWith(weights);
    },
    collect() {
      const band = 8;
      const value = new Float64Array(4 * band);
      const body = new Float32Array(BODY * band);
      for (let row = 0; row < band; row++) {
        body.fill(bodyOf(worker, number), row * BODY, (row + 1) * BODY);
        value.set([seed, worker, number++, weight], 4 * row);
      }
      report.steps(band);
      if (number % 80 === 0) report.episode(number, 80);
      return { value, body };
    },
  };
}

function steps({ writer, report, options }: CollectorContext): Collector {
  const { firstLane, lanes } = writer!;
  const common = options as Common;
  const counts: LaneCounts = laneCounts(common, common.lanes);
  let last = 0;
  const each = <T>(of: (lane: number) => T): T[] =>
    Array.from({ length: lanes }, (_, i) => of(firstLane + i));
  return {
    state: () => 'with its episodes',
    load(weights) {
      const now = filledWith(weights);
      if (now < 0) Atomics.add(common.words, common.lanes, 1);
      else if (now < last) Atomics.add(common.words, common.lanes + 1, 1);
      else last = now;
    },
    collect() {
      // collect() is called again only after the steps before were added, so the lanes' counts
      // include them.
      const numbers = each(counts.steps);
      for (const [i, number] of numbers.entries())
        Atomics.store(common.words, firstLane + i, number);
      const of = (final: number) =>
        Float32Array.from(
          numbers.flatMap((n, i) => [firstLane + i, Math.floor(n / ROUND), n % ROUND, final]),
        );
      const ends = numbers.map((n, i) => endsAt(firstLane + i, n));
      report.steps(lanes);
      if (ends[0]) report.episode(numbers[0]!, 5);
      return {
        obs: of(0),
        finalObs: of(1),
        rewards: new Float32Array(lanes).fill(1),
        body: Float32Array.from({ length: BODY * lanes }, (_, i) => {
          const lane = Math.floor(i / BODY);
          return bodyOf(firstLane + lane, numbers[lane]!);
        }),
        prio: Float32Array.from(numbers, (n, i) => prioOf(firstLane + i, n)),
        terminated: Uint8Array.from(numbers, (n, i) => Number(ends[i]! && terminates(n))),
        truncated: Uint8Array.from(numbers, (n, i) => Number(ends[i]! && !terminates(n))),
      };
    },
  };
}
