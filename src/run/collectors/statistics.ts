/**
 * Counts of collectors in shared memory, with one page for each worker. Each worker writes only its
 * own page. Readers may get slightly old counts.
 */
import { nowMs } from '../../base/clock.ts';
import { rangeError } from '../../base/errors.ts';
import { BroadcastRing } from '../../shm/broadcast.ts';
import { allocateShared, LINE, type Place } from '../../shm/memory.ts';
import type { CollectorReport } from './collector.ts';

/** most episodes of a worker in the mean return */
const REMEMBERED = 100;
/** episodes of a worker that its page keeps for readers of single episodes, a power of two */
const KEPT = 256;
/** index in a page of float64 elements: environment steps */
const STEPS = 0;
/** index: number of times that the worker parked because the limiter did not allow an add yet */
const WAITS = 2;
/** index: version of the weights that the worker acts by */
const VERSION = 3;
/** index: start of the current collect() by nowMs(), 0 between two calls */
const SINCE = 4;
/**
 * index of the first of KEPT episodes. Each has return, length (NaN if not reported) and version
 */
const EPISODES = 8;
const FIELDS = 3;
const PAGE = EPISODES + KEPT * FIELDS;

export interface StatisticsShare {
  readonly place: Place;
  readonly workers: number;
}

/** Counts over all workers. */
export interface CollectorStatistics {
  /** environment steps */
  steps: number;
  /** episodes that have ended */
  episodes: number;
  /**
   * mean return of the latest episodes, at most 100 of each worker, NaN before the first one ends
   */
  meanReturn: number;
  /** number of episodes in `meanReturn` */
  recent: number;
  /** number of times that a collector waited for the limiter */
  waits: number;
  /** the oldest version of the weights that a collector acts by, 0 before the first version */
  version: number;
}

/** An episode that a collector reported. */
export interface Episode {
  /** number of the worker, from 0 */
  worker: number;
  /** sum of the episode's rewards, as the collector reported it */
  return: number;
  /** environment steps of the episode, null if the collector did not report them */
  length: number | null;
  /** version of the weights that the worker used at the end of the episode, 0 before the first */
  version: number;
  /**
   * number of the worker's episodes directly before this one that were overwritten before they were
   * read
   */
  missed: number;
}

/** A copy of a worker's page, and the number of its episodes that have ended. */
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
  /** milliseconds that the current collect() has taken, 0 between two calls */
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

  /**
   * Returns the writer of a worker's page. Only the worker's thread may use it until that thread
   * has ended.
   */
  writer(worker: number): StatisticsWriter {
    return this.#writers[worker] as StatisticsWriter;
  }

  /** Returns the number of a worker's episodes that have ended. */
  ended(worker: number): number {
    return this.writer(worker).episodes.head;
  }

  /**
   * Returns a worker's episodes from number `from` on, oldest first. `next` is the `from` of the
   * next call. `missed` is the number of episodes missed after the last returned one, and the next
   * call gets it as `before`.
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
  /**
   * Restores a worker's page. Call it before the worker's thread starts. Throws if the page does
   * not have the size of this version's pages.
   */
  restore(worker: number, { page, ended }: SavedPage): void {
    const into = this.writer(worker);
    if (!(page instanceof Float64Array) || page.length !== PAGE)
      throw rangeError(`the statistics of collector ${worker} are not those of this version`);
    into.page.set(page);
    into.collected();
    into.episodes.restore(ended);
  }

  /** Returns the start of each worker's current collect() by nowMs(), 0 between two calls. */
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
  /** ring of episodes in the page. Its counter has its own cache line after all pages */
  readonly episodes: Episodes;

  constructor({ place: { memory, offset }, workers }: StatisticsShare, worker: number) {
    const at = offset + worker * PAGE * 8;
    const ended = offset + workers * PAGE * 8 + worker * LINE * 4;
    this.page = new Float64Array(memory, at, PAGE);
    this.episodes = new Episodes({ memory, offset: ended }, KEPT, FIELDS, at + EPISODES * 8);
  }

  /** environment steps of this worker, including those that earlier writers of its page counted */
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
