/**
 * What collectors count, a page of shared memory per worker. Each worker writes its own page only; readers get numbers for
 * people, at most a moment old.
 */
import { nowMs } from '../../base/clock.ts';
import { rangeError } from '../../base/errors.ts';
import { allocateShared, LINE, type Place, secondLook } from '../../shm/memory.ts';
import type { CollectorReport } from './collector.ts';

/** returns that a mean is of, per worker */
const REMEMBERED = 100;
/** episodes remembered per worker, for who reads each of them */
const KEPT = 256;
/** Float64 places of a page */
const STEPS = 0;
/** times it parked because the limiter said not yet */
const WAITS = 2;
/** version of the weights it acts by */
const VERSION = 3;
/** when the collect() under way began, by nowMs(); 0: none is */
const SINCE = 4;
/** from here on KEPT episodes: return, length (NaN: not told), version */
const EPISODES = 8;
const FIELDS = 3;
const PAGE = EPISODES + KEPT * FIELDS;

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

/** An episode that a collector told of. */
export interface Episode {
  worker: number;
  return: number;
  /** steps of its environment; null where the collector did not tell */
  length: number | null;
  /** version of the weights that the worker acted by when it ended; 0 before the first */
  version: number;
  /** episodes of this worker just before this one that were overwritten before they were read */
  missed: number;
}

/** A worker's page, and how many of its episodes have ended. */
export interface SavedPage {
  readonly page: Float64Array;
  readonly ended: number;
}

/** One worker's part of them. */
export interface WorkerStatistics {
  steps: number;
  episodes: number;
  waits: number;
  version: number;
  /** milliseconds that the collect() under way has taken; 0: none is */
  busyMs: number;
}

export class StatisticsPages {
  readonly #share: StatisticsShare;
  readonly #pages: Float64Array[];
  /** episodes that have ended, a cache line per worker; a worker adds to its own when the episode's numbers are in place */
  readonly #ended: Int32Array;

  constructor(share: StatisticsShare) {
    this.#share = share;
    const { place, workers } = share;
    this.#pages = Array.from(
      { length: workers },
      (_, worker) => new Float64Array(place.memory, place.offset + worker * PAGE * 8, PAGE),
    );
    this.#ended = new Int32Array(place.memory, place.offset + workers * PAGE * 8, workers * LINE);
  }

  static create(workers: number): StatisticsPages {
    return new StatisticsPages({
      place: allocateShared('collector statistics', workers * (PAGE * 8 + LINE * 4), 64),
      workers,
    });
  }

  share(): StatisticsShare {
    return this.#share;
  }

  /** How many episodes of a worker have ended. */
  ended(worker: number): number {
    return Atomics.load(this.#ended, worker * LINE) >>> 0;
  }

  /** A worker's episodes from number `from` on, oldest first; what comes next, and how many were missed since the last one. */
  episodes(worker: number, from: number, before = 0): { next: number; missed: number; episodes: Episode[] } {
    const page = this.#pages[worker] as Float64Array;
    const next = this.ended(worker);
    const episodes: Episode[] = [];
    // The oldest may be under the worker's pen: one episode's distance, and another look at the count after each copy.
    const first = Math.max(from, next - (KEPT - 1));
    let missed = before + first - from;
    for (let n = first; n < next; n++) {
      const [value, length, version] = page.slice(at(n), at(n) + FIELDS) as unknown as [number, number, number];
      if ((secondLook(this.#ended, worker * LINE) >>> 0) - n >= KEPT) missed++;
      else {
        episodes.push({ worker, return: value, length: Number.isNaN(length) ? null : length, version, missed });
        missed = 0;
      }
    }
    return { next, missed, episodes };
  }

  /** A worker's page as it is, for restore(). */
  saved(worker: number): SavedPage {
    return { page: (this.#pages[worker] as Float64Array).slice(), ended: this.ended(worker) };
  }
  /** Before the worker's thread is started. */
  restore(worker: number, { page, ended }: SavedPage): void {
    const into = this.#pages[worker] as Float64Array;
    if (!(page instanceof Float64Array) || page.length !== into.length)
      throw rangeError(`the statistics of collector ${worker} are not those of this version`);
    into.set(page);
    into[SINCE] = 0;
    Atomics.store(this.#ended, worker * LINE, ended | 0);
  }

  /** The worker's thread has ended, within a collect() or not, or has nothing to do. */
  over(worker: number): void {
    (this.#pages[worker] as Float64Array)[SINCE] = 0;
  }

  /** Of each worker, when the collect() under way began; 0 for none. */
  since(): number[] {
    return this.#pages.map((page) => page[SINCE] as number);
  }

  /** Worker by worker. */
  each(): WorkerStatistics[] {
    return this.#pages.map((page, worker) => ({
      ...{ steps: page[STEPS] as number, episodes: this.ended(worker), waits: page[WAITS] as number },
      version: page[VERSION] as number,
      busyMs: (page[SINCE] as number) > 0 ? Math.max(0, nowMs() - (page[SINCE] as number)) : 0,
    }));
  }

  /** The pen of one worker; its thread only. */
  writer(worker: number): StatisticsWriter {
    return new StatisticsWriter(this.#pages[worker] as Float64Array, this.#ended.subarray(worker * LINE));
  }

  read(): CollectorStatistics {
    const sum = { steps: 0, episodes: 0, meanReturn: 0, recent: 0, waits: 0, version: Number.POSITIVE_INFINITY };
    let returns = 0;
    for (const [worker, page] of this.#pages.entries()) {
      const episodes = this.ended(worker);
      const recent = Math.min(episodes, REMEMBERED);
      for (let n = episodes - recent; n < episodes; n++) returns += page[at(n)] as number;
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
  readonly #ended: Int32Array;

  constructor(page: Float64Array, ended: Int32Array) {
    this.#page = page;
    this.#ended = ended;
  }

  /** of this worker, also of who had the pen before */
  get stepsSoFar(): number {
    return this.#page[STEPS] as number;
  }

  steps(count: number): void {
    this.#page[STEPS] = (this.#page[STEPS] as number) + count;
  }

  episode(episodeReturn: number, length = Number.NaN): void {
    const page = this.#page;
    const first = at(Atomics.load(this.#ended, 0) >>> 0);
    page[first] = episodeReturn;
    page[first + 1] = length;
    page[first + 2] = page[VERSION] as number;
    // Last: a reader that sees the new count finds the numbers in place.
    Atomics.add(this.#ended, 0, 1);
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

/** Where the n-th episode lies in a page. */
function at(n: number): number {
  return EPISODES + (n % KEPT) * FIELDS;
}
