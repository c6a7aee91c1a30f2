/** Statistics of finished ticks, read from the journal alone: how long each stage took. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { EndingName } from '../../shm/ending.ts';
import type { JournalEntry } from '../ring/journal.ts';
import { Field } from '../ring/slot.ts';

/** A stage is the time between two fields of the record. */
export const stages = {
  /** asked for until pack began: waiting for rows, the limiter or pack itself */
  queued: [Field.requestedAt, Field.packBegin],
  pack: [Field.packBegin, Field.packEnd],
  submit: [Field.submitBegin, Field.submitEnd],
  /**
   * enqueued until poll saw it done, or, on a device that does not ring, in autonomous runs, until
   * poll passed it on
   */
  copy: [Field.submitEnd, Field.readyAt],
  /** hot, waiting for the learner */
  hot: [Field.readyAt, Field.replayBegin],
  launch: [Field.replayBegin, Field.replayEnd],
  /** launched until poll saw it spent */
  learn: [Field.replayEnd, Field.doneAt],
  total: [Field.requestedAt, Field.doneAt],
} as const;
export type StageName = keyof typeof stages;

/** Microseconds. */
export interface StageTimes {
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

export interface Summary<S extends string = string> {
  /** ticks finished in this run */
  ticks: number;
  seconds: number;
  ticksPerSecond: number;
  /** rows the learner was given */
  rows: number;
  /** true when the signal ended the run before its ticks were through */
  aborted: boolean;
  /**
   * Why the run ended: its ticks are through, its signal was aborted, or this learner left its
   * group. If another rank of the group ended it, that rank and its reason.
   */
  ended: EndingName | { rank: number; why: EndingName };
  /**
   * ticks whose times are in `stages`, fewer than `ticks` if the journal went by faster than it was
   * read
   */
  sampled: number;
  stages: Record<StageName, StageTimes>;
  /** means over the sampled ticks, by the names given to capture() */
  scalars: Record<S, number>;
}

/**
 * Statistics of one run at a time: a pipeline keeps one object and begins it anew. Its histograms
 * are some 0.4 MB of native memory that the garbage collector knows nothing of. One object per run
 * would let short runs in a row hold much before they are collected. Two figures of a time are
 * kept: percentiles are right within 1 %. Three would take eight times the memory, which each
 * opening and each run clears.
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
