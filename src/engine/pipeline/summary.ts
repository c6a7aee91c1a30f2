/** Statistics of finished ticks, computed from the journal only: how long each stage took. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { EndingName } from '../../shm/ending.ts';
import type { JournalEntry } from '../ring/journal.ts';
import { Field } from '../ring/slot.ts';

/** Each stage, as the time between two fields of the record. */
export const stages = {
  /** from the request until pack began: it waits for rows, the limiter, or pack */
  queued: [Field.requestedAt, Field.packBegin],
  pack: [Field.packBegin, Field.packEnd],
  submit: [Field.submitBegin, Field.submitEnd],
  /**
   * from the enqueued copy until poll saw it done. In autonomous runs on a device that rings no
   * bell, until poll made the slot Ready
   */
  copy: [Field.submitEnd, Field.readyAt],
  /** from Ready until the launch: the batch waits for the learner */
  hot: [Field.readyAt, Field.replayBegin],
  launch: [Field.replayBegin, Field.replayEnd],
  /** from the launch until poll saw `spent` */
  learn: [Field.replayEnd, Field.doneAt],
  total: [Field.requestedAt, Field.doneAt],
} as const;
export type StageName = keyof typeof stages;

/** Percentiles and maximum of a stage's time, in microseconds. */
export interface StageTimes {
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

export interface Summary<S extends string = string> {
  /** number of ticks finished in this run */
  ticks: number;
  seconds: number;
  ticksPerSecond: number;
  /** number of rows in the batches of these ticks */
  rows: number;
  /** true if the signal ended the run before all its ticks were finished */
  aborted: boolean;
  /**
   * why the run ended: its ticks are finished, its signal was aborted, or this learner left its
   * group. If another rank of the group ended it, that rank and its reason
   */
  ended: EndingName | { rank: number; why: EndingName };
  /**
   * number of ticks whose times are in `stages`. It is less than `ticks` if the journal overwrote
   * ticks before they were read
   */
  sampled: number;
  stages: Record<StageName, StageTimes>;
  /** means of the scalars over the sampled ticks, by the names given to capture() */
  scalars: Record<S, number>;
}

/**
 * Statistics of one run at a time. A pipeline has one such object and resets it for each run. The
 * object's histograms take about 0.4 MB of native memory, whose size the garbage collector does not
 * know. If each run had its own object, short runs could accumulate much memory before a
 * collection.
 *
 * The histograms keep two significant figures, so percentiles are right within 1 %. Three figures
 * would take eight times the memory, and each opening and each run would have to clear it.
 */
export class Statistics {
  readonly #histograms = Object.fromEntries(
    Object.keys(stages).map((name) => [name, createHistogram({ figures: 2 })]),
  ) as Record<StageName, RecordableHistogram>;
  #names: readonly string[] = [];
  #sums = new Float64Array();
  sampled = 0;

  begin(scalarNames: readonly string[]): this {
    this.sampled = 0;
    this.#names = scalarNames;
    this.#sums = new Float64Array(scalarNames.length);
    for (const histogram of Object.values(this.#histograms))
      if (histogram.count > 0) histogram.reset();
    return this;
  }

  add({ record, scalars }: JournalEntry): void {
    this.sampled++;
    for (const name of Object.keys(stages) as StageName[]) {
      const [begin, end] = stages[name];
      const ns = Math.round(((record[end] as number) - (record[begin] as number)) * 1e6);
      this.#histograms[name].record(Math.max(1, ns));
    }
    for (let i = 0; i < this.#sums.length; i++)
      this.#sums[i] = (this.#sums[i] as number) + (scalars[i] as number);
  }

  stages(): Record<StageName, StageTimes> {
    const us = (ns: number) => Math.round(ns) / 1000;
    return Object.fromEntries(
      (Object.keys(stages) as StageName[]).map((name) => {
        const h = this.#histograms[name];
        const empty = this.sampled === 0;
        const at = (p: number) => (empty ? 0 : us(h.percentile(p)));
        return [name, { p50: at(50), p90: at(90), p99: at(99), max: empty ? 0 : us(h.max) }];
      }),
    ) as Record<StageName, StageTimes>;
  }

  scalars(): Record<string, number> {
    return Object.fromEntries(
      this.#names.map((name, i) => [name, (this.#sums[i] as number) / Math.max(1, this.sampled)]),
    );
  }
}
