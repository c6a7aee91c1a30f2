/**
 * Counts of collectors, a page of shared memory per worker. Each worker writes only its own page.
 * Readers get numbers for people, which may be slightly old.
 */
import { nowMs } from '../../base/clock.ts';
import { rangeError } from '../../base/errors.ts';
import { BroadcastRing } from '../../shm/broadcast.ts';
import { allocateShared, LINE, type Place } from '../../shm/memory.ts';
import type { CollectorReport } from './collector.ts';

/** most returns in the mean, per worker */
const REMEMBERED = 100;
/** episodes kept per worker for readers of single episodes, a power of two */
const KEPT = 256;
/** Float64 places of a page, here: environment steps */
const STEPS = 0;
/** times it parked because the limiter did not allow an add yet */
const WAITS = 2;
/** version of the weights it acts by */
const VERSION = 3;
/** start of the current collect() by nowMs(), 0 between two */
const SINCE = 4;
/** from here on KEPT episodes: return, length (NaN if not reported), version */
const EPISODES = 8;
const FIELDS = 3;
const PAGE = EPISODES + KEPT * FIELDS;

export interface StatisticsShare {
  readonly place: Place;
  readonly workers: number;
}

/** Counts of all workers together. */
export interface CollectorStatistics {
  /** environment steps */
  steps: number;
  /** episodes that have ended */
  episodes: number;
  /** mean return of the last episodes, at most 100 of each worker, NaN before the first */
  meanReturn: number;
  /** episodes in that mean */
  recent: number;
  /** number of times that a collector waited for the limiter */
  waits: number;
  /** the oldest version of the weights that a collector acts by, 0 before the first */
  version: number;
}

/** An episode that a collector reported. */
export interface Episode {
  /** number of the worker, from 0 */
  worker: number;
  /** sum of its rewards, as reported */
  return: number;
  /** its environment steps, null if the collector did not report them */
  length: number | null;
  /** version of the weights that the worker used when the episode ended, 0 before the first */
  version: number;
  /** this worker's episodes directly before this one that were overwritten before they were read */
  missed: number;
}

/** A worker's page, and how many of its episodes have ended. */
export interface SavedPage {
  readonly page: Float64Array;
  readonly ended: number;
}

/** The counts of one worker. */
export interface WorkerStatistics {
  steps: number;
  episodes: number;
  waits: number;
  version: number;
  /** milliseconds that the current collect() has taken, 0 between two */
  busyMs: number;
}

class Episodes extends BroadcastRing<Omit<Episode, 'worker' | 'missed'>> {
  protected override entryOf(values: Float64Array) {
    const [value, length, version] = values as unknown as [number, number, number];
    return { return: value, length: Number.isNaN(length) ? null : length, version };
  }
}

export class StatisticsPages {
  readonly #share: StatisticsShare;
  readonly #writers: StatisticsWriter[];

  constructor(share: StatisticsShare) {
    this.#share = share;
    this.#writers = Array.from(
      { length: share.workers },
      (_, worker) => new StatisticsWriter(share, worker),
    );
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

  /** Returns the writer of one worker, for its thread only, until that has ended. */
  writer(worker: number): StatisticsWriter {
    return this.#writers[worker] as StatisticsWriter;
  }

  /** Returns how many episodes of a worker have ended. */
  ended(worker: number): number {
    return this.writer(worker).episodes.head;
  }

  /**
   * Returns a worker's episodes from number `from` on, oldest first, the number of the next one,
   * and how many were missed since the last one.
   */
  episodes(
    worker: number,
    from: number,
    before = 0,
  ): { next: number; missed: number; episodes: Episode[] } {
    const episodes: Episode[] = [];
    let reported = -before;
    const { next, missed } = this.writer(worker).episodes.read(from, (episode, soFar) => {
      episodes.push({ worker, ...episode, missed: soFar - reported });
      reported = soFar;
    });
    return { next, missed: missed - reported, episodes };
  }

  /** Returns a copy of a worker's page, for restore(). */
  saved(worker: number): SavedPage {
    return { page: this.writer(worker).page.slice(), ended: this.ended(worker) };
  }
  /** Restores a worker's page, before its thread is started. */
  restore(worker: number, { page, ended }: SavedPage): void {
    const into = this.writer(worker);
    if (!(page instanceof Float64Array) || page.length !== PAGE)
      throw rangeError(`the statistics of collector ${worker} are not those of this version`);
    into.page.set(page);
    into.collected();
    into.episodes.restore(ended);
  }

  /** Returns for each worker the start of its current collect(), 0 between two. */
  since(): number[] {
    return this.#writers.map(({ page }) => page[SINCE] as number);
  }

  /** Returns the counts of each worker. */
  each(): WorkerStatistics[] {
    return this.#writers.map(({ page, episodes }) => ({
      steps: page[STEPS] as number,
      episodes: episodes.head,
      waits: page[WAITS] as number,
      version: page[VERSION] as number,
      busyMs: (page[SINCE] as number) > 0 ? Math.max(0, nowMs() - (page[SINCE] as number)) : 0,
    }));
  }

  read(): CollectorStatistics {
    const sum = {
      steps: 0,
      episodes: 0,
      meanReturn: 0,
      recent: 0,
      waits: 0,
      version: Number.POSITIVE_INFINITY,
    };
    let returns = 0;
    for (const { page, episodes: ring } of this.#writers) {
      const episodes = ring.head;
      const recent = Math.min(episodes, REMEMBERED);
      for (let n = episodes - recent; n < episodes; n++)
        returns += ring.values[ring.at(n)] as number;
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
  readonly page: Float64Array;
  /** in the page, except for their number, which has its own cache line after all pages */
  readonly episodes: Episodes;

  constructor({ place: { memory, offset }, workers }: StatisticsShare, worker: number) {
    const at = offset + worker * PAGE * 8;
    const ended = offset + workers * PAGE * 8 + worker * LINE * 4;
    this.page = new Float64Array(memory, at, PAGE);
    this.episodes = new Episodes({ memory, offset: ended }, KEPT, FIELDS, at + EPISODES * 8);
  }

  /** of this worker, including those of earlier writers of its page */
  get stepsSoFar(): number {
    return this.page[STEPS] as number;
  }

  steps(count: number): void {
    this.page[STEPS] = (this.page[STEPS] as number) + count;
  }

  episode(episodeReturn: number, length = Number.NaN): void {
    const { values } = this.episodes;
    const at = this.episodes.begin();
    values[at] = episodeReturn;
    values[at + 1] = length;
    values[at + 2] = this.page[VERSION] as number;
    this.episodes.publish();
  }

  collects(): void {
    this.page[SINCE] = nowMs();
  }
  collected(): void {
    this.page[SINCE] = 0;
  }

  waited(): void {
    this.page[WAITS] = (this.page[WAITS] as number) + 1;
  }

  acts(version: number): void {
    this.page[VERSION] = version;
  }
}
