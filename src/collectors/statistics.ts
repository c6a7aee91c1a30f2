/**
 * What collectors count, a page of shared memory per worker. Each worker writes its own page only; readers get numbers for
 * people, at most a moment old.
 */
import { nowMs } from '../clock.ts';
import { allocateShared, type Place } from '../shared-memory.ts';
import type { CollectorReport } from './collector.ts';

/** returns remembered per worker */
const REMEMBERED = 100;
/** Float64 places of a page */
const STEPS = 0;
const EPISODES = 1;
/** times it parked because the limiter said not yet */
const WAITS = 2;
/** version of the weights it acts by */
const VERSION = 3;
/** when the collect() under way began, by nowMs(); 0: none is */
const SINCE = 4;
const RETURNS = 8;
const PAGE = RETURNS + REMEMBERED + 4;

export interface StatisticsShare {
  readonly place: Place;
  readonly workers: number;
}

/** Sums over all workers. */
export interface CollectorStatistics {
  /** environment steps */
  steps: number;
  episodes: number;
  /** mean return of the last episodes, at most 100 of each worker; NaN before the first */
  meanReturn: number;
  /** episodes in that mean */
  recent: number;
  /** how often a collector had to wait for the limiter */
  waits: number;
  /** the oldest version of the weights that a collector acts by; 0 before the first */
  version: number;
}

export class StatisticsPages {
  readonly #share: StatisticsShare;
  readonly #pages: Float64Array[];

  constructor(share: StatisticsShare) {
    this.#share = share;
    const { place, workers } = share;
    this.#pages = Array.from(
      { length: workers },
      (_, worker) => new Float64Array(place.memory, place.offset + worker * PAGE * 8, PAGE),
    );
  }

  static create(workers: number): StatisticsPages {
    return new StatisticsPages({ place: allocateShared('collector statistics', workers * PAGE * 8, 64), workers });
  }

  share(): StatisticsShare {
    return this.#share;
  }

  /** Of each worker, when the collect() under way began; 0 for none. */
  since(): number[] {
    return this.#pages.map((page) => page[SINCE] as number);
  }

  /** The pen of one worker; its thread only. */
  writer(worker: number): StatisticsWriter {
    return new StatisticsWriter(this.#pages[worker] as Float64Array);
  }

  read(): CollectorStatistics {
    const sum = { steps: 0, episodes: 0, meanReturn: 0, recent: 0, waits: 0, version: Number.POSITIVE_INFINITY };
    let returns = 0;
    for (const page of this.#pages) {
      const episodes = page[EPISODES] as number;
      const recent = Math.min(episodes, REMEMBERED);
      for (let i = 0; i < recent; i++) returns += page[RETURNS + i] as number;
      sum.steps += page[STEPS] as number;
      sum.episodes += episodes;
      sum.recent += recent;
      sum.waits += page[WAITS] as number;
      sum.version = Math.min(sum.version, page[VERSION] as number);
    }
    sum.meanReturn = sum.recent > 0 ? returns / sum.recent : Number.NaN;
    return sum;
  }
}

export class StatisticsWriter implements CollectorReport {
  readonly #page: Float64Array;

  constructor(page: Float64Array) {
    this.#page = page;
  }

  steps(count: number): void {
    this.#page[STEPS] = (this.#page[STEPS] as number) + count;
  }

  episode(episodeReturn: number): void {
    const episodes = this.#page[EPISODES] as number;
    // The return first: a reader that sees the new count finds its return in place.
    this.#page[RETURNS + (episodes % REMEMBERED)] = episodeReturn;
    this.#page[EPISODES] = episodes + 1;
  }

  collects(): void {
    this.#page[SINCE] = nowMs();
  }
  collected(): void {
    this.#page[SINCE] = 0;
  }

  waited(): void {
    this.#page[WAITS] = (this.#page[WAITS] as number) + 1;
  }

  acts(version: number): void {
    this.#page[VERSION] = version;
  }
}
