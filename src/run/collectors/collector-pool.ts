/**
 * Runs collectors in worker threads, which add to a buffer and act by the mailbox's weights. Each
 * thread runs one long task of piscina. The opener and the collectors share control words and
 * counts in memory. To stop the collectors, the opener sets the stop word, rings their bells, and
 * waits. It terminates a thread only if the thread does not answer.
 */

import {
  checkCount,
  checkInternal,
  checkKeys,
  describeValue,
  INTERNAL,
} from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { Closing } from '../../base/closing.ts';
import { rangeError, stateError, typeError, unavailableError } from '../../base/errors.ts';
import { fromPlain } from '../../base/plain-error.ts';
import { Bell } from '../../shm/bell.ts';
import { allocateShared } from '../../shm/memory.ts';
import { TaskThread } from '../../shm/task-thread.ts';
import { stopped } from '../../shm/thread.ts';
import { checkSignal, waitFor } from '../../shm/wait.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfLimiter } from '../../store/rate-limiter.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { AnyCollector, CollectorFactory } from './collector.ts';
import type { CollectorSetup, CollectorThrew } from './collector-thread.ts';
import { CONTROL_WORDS, OPENER_BELL, READY, STOP } from './control-block.ts';
import { episodesOf } from './episodes.ts';
import { moduleOf, placeOf } from './place.ts';
import type { CollectorPoolOptions } from './pool-options.ts';
import { checkResume, PoolPause, pausables } from './pool-pause.ts';
import { type CollectorStatistics, type Episode, StatisticsPages } from './statistics.ts';
import { watchedCollectors } from './watched.ts';

const THREAD = new URL('./collector-thread.js', import.meta.url);
/** Milliseconds of a collect() after which a warning names its collector. */
const PATIENCE_MS = 10_000;

/**
 * Returns the threads of a pool's workers, for tests that end them. The package does not export it.
 */
export let threadsOf: (pool: CollectorPool) => readonly NonNullable<TaskThread['thread']>[];

/**
 * Runs environments in worker threads. The threads add to a buffer and act by the weights of a
 * mailbox.
 * @example
 * const entry = new URL('./collector.mjs', import.meta.url);
 * await using pool = await CollectorPool.open({ entry, buffer, mailbox, workers: 4 });
 * await Promise.race([pipeline.run({ ticks: 1000, publishEvery: 10 }), pool.done]);
 * console.log(pool.statistics().meanReturn);
 */
export class CollectorPool implements AsyncDisposable {
  /**
   * Resolves when every collector has stopped. Rejects with the first failure,
   * ERR_HOTSLOT_THREAD_LOST, with the collector's error as `cause`. A failure stops the other
   * collectors. If you do not handle the rejection, it ends the process like any unhandled
   * rejection.
   */
  readonly done: Promise<void>;
  /** number of collector threads */
  readonly workers: number;
  readonly #threads: readonly TaskThread[];
  readonly #statistics: StatisticsPages;
  readonly #hold: PoolPause;
  readonly #control: Int32Array;
  /**
   * one bell per worker, on the limiter's board. The opener claims and releases the bells, so that
   * a lost thread leaks none
   */
  readonly #bells: Bell[] = [];
  readonly #release: () => void;
  readonly #opener: Bell;
  readonly #settled: Promise<unknown>;
  #failure: Error | null = null;
  #opened = false;
  /** module that errors name: the collector's, or that of train()'s environment */
  readonly #module: URL;
  #restartsLeft: number;
  /** for each worker, the start of the collect() for which a warning was last emitted */
  readonly #reported: number[] = [];
  readonly #watch: NodeJS.Timeout;
  readonly #closing = new Closing();

  static {
    threadsOf = (pool) => pool.#threads.flatMap(({ thread }) => thread ?? []);
  }

  /**
   * Starts the workers. Resolves when every collector is created.
   *
   * @param options `entry` and `buffer`. The other options have defaults
   * @throws {TypeError|RangeError} for an invalid option, and for more workers than the buffer has
   *   lanes
   * @throws {ERR_HOTSLOT_THREAD_LOST} if a module cannot be loaded, or its factory throws. The
   *   error is the `cause`
   * @throws {ERR_HOTSLOT_STATE_BUSY} if a limiter that gates add() has no wake-up counter left for
   *   a worker. It has 16 counters
   * @throws {ERR_HOTSLOT_STATE_CLOSED} if the buffer is closed
   * @throws the signal's reason
   * @example
   * const entry = new URL('./collector.mjs', import.meta.url);
   * const pool = await CollectorPool.open({ entry, buffer, mailbox, workers: 4, restart: 3 });
   */
  static async open<C extends AnyCollector = CollectorFactory>(
    options: CollectorPoolOptions<C>,
  ): Promise<CollectorPool> {
    const pool = new CollectorPool(INTERNAL, options as CollectorPoolOptions);
    try {
      await pool.#ready(options.signal);
    } catch (error) {
      await pool.close();
      throw error;
    }
    return pool;
  }

  private constructor(key: unknown, options: CollectorPoolOptions) {
    checkInternal(key, 'CollectorPool', 'CollectorPool.open()');
    checkKeys('CollectorPool.open', options, [
      'entry',
      'buffer',
      'mailbox',
      'workers',
      'seed',
      'restart',
      'resume',
      'options',
      'signal',
    ]);
    checkSignal(options.signal);
    const {
      entry,
      buffer,
      mailbox,
      workers = 1,
      seed = 0,
      restart = 0,
      resume,
      options: given,
    } = options;
    if (!(entry instanceof URL))
      throw typeError(`entry must be the URL of a collector's module, got ${describeValue(entry)}`);
    if (!(buffer instanceof ReplayBuffer || buffer instanceof TrajectoryBuffer))
      throw typeError(
        `buffer must be a ReplayBuffer or a TrajectoryBuffer, got ${describeValue(buffer)}`,
      );
    if (mailbox !== undefined && !(mailbox instanceof WeightMailbox))
      throw typeError('mailbox must be a WeightMailbox');
    checkCount('workers', workers, 1, 64);
    if (buffer instanceof TrajectoryBuffer && workers > buffer.lanes)
      throw rangeError(
        `workers must be at most the buffer's lanes, a lane each; got ${workers} for ${buffer.lanes}`,
      );
    checkCount('seed', seed, 0);
    this.#restartsLeft = checkCount('restart', restart, 0);
    this.#module = moduleOf(entry, given);
    this.workers = workers;
    this.#statistics = StatisticsPages.create(workers);
    const saved = checkResume(resume, workers);
    for (const [worker, { statistics }] of saved.entries())
      this.#statistics.restore(worker, statistics);
    const place = allocateShared('collector control words', CONTROL_WORDS * 4, 64);
    this.#control = new Int32Array(place.memory, place.offset, CONTROL_WORDS);
    this.#opener = new Bell(this.#control.subarray(OPENER_BELL));
    // share() throws if the buffer is closed. The pool calls it before it claims bells, so that no
    // bell leaks.
    const sharedBuffer = buffer.share();
    const sharedMailbox = mailbox?.share() ?? null;
    const board = buffer.limiter?.gateAdd ? internalsOfLimiter(buffer.limiter).bells : null;
    this.#release = () => {
      for (const bell of this.#bells.splice(0)) board?.release(bell);
    };
    for (let worker = 0; board !== null && worker < workers; worker++) {
      const bell = board.claim();
      if (bell === null) {
        this.#release();
        throw stateError(
          'BUSY',
          `the rate limiter has no wake-up counter left for collector ${worker}; close another pool first`,
        );
      }
      this.#bells.push(bell);
    }
    const shared = {
      entry: entry.href,
      workers,
      seed,
      options: given,
      buffer: sharedBuffer,
      mailbox: sharedMailbox,
      control: this.#control,
      statistics: this.#statistics.share(),
      restarts: 0,
    };
    const ring = () => {
      for (const bell of this.#bells) bell.ring();
    };
    const pages = this.#statistics;
    this.#hold = new PoolPause({ control: this.#control, workers, ring, pages });
    // Lets a checkpoint pause the collectors: they report their state, and those with state() stand
    // still until release().
    pausables.set(this, () => this.#hold.take());
    const workersNow = () => this.#statistics.each();
    watchedCollectors.set(this, {
      failure: () => this.#failure,
      workers: workersNow,
      remote: () => null,
    });
    this.#threads = Array.from({ length: workers }, () => new TaskThread(THREAD, warnOfLate));
    const tasks = Array.from({ length: workers }, (_, worker) =>
      this.#run({
        ...shared,
        worker,
        bell: this.#bells[worker]?.index ?? -1,
        resume: saved[worker]?.collector ?? null,
      }),
    );
    this.#settled = Promise.allSettled(tasks);
    this.#watch = setInterval(() => this.#nameStuck(), 1000).unref();
    // Until open() has resolved, a failure rejects open(). After that, a failure rejects `done`. A
    // failure never rejects both.
    this.done = new Promise((resolve, reject) => {
      Promise.all(tasks).then(
        () => resolve(),
        (error) => {
          if (this.#opened) reject(error);
        },
      );
    });
  }

  /** Returns sums over all workers, read from shared memory. */
  statistics(): CollectorStatistics {
    return this.#statistics.read();
  }

  /**
   * Iterates over the episodes that collectors report, from the first read until the pool closes. A
   * slow reader gets the last 256 episodes of each worker, and `missed` counts the overwritten
   * ones.
   *
   * @param options `signal` ends the iteration
   * @throws the signal's reason, and the failure of a collector
   * @example
   * for await (const { worker, return: value } of pool.episodes()) console.log(worker, value);
   */
  episodes(options: { signal?: AbortSignal } = {}): AsyncGenerator<Episode, void> {
    checkKeys('episodes', options, ['signal']);
    checkSignal(options.signal);
    return episodesOf({
      pages: this.#statistics,
      workers: this.workers,
      signal: options.signal,
      over: () =>
        this.#settled.then(() => {
          if (this.#failure) throw this.#failure;
        }),
    });
  }

  /**
   * Stops every collector and ends its thread within seconds, even during a collect(). A failure of
   * a collector rejects only `done`. Idempotent.
   */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      this.#stop();
      // A failure rejects `done`, so that close() always resolves.
      await Promise.all(this.#threads.map(stopped));
      clearInterval(this.#watch);
      this.#release();
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Sets the stop word first and rings the bells after it. A collector reads its bell before the
   * stop word, so it cannot miss the stop and sleep.
   */
  #stop(): void {
    Atomics.store(this.#control, STOP, 1);
    Atomics.notify(this.#control, STOP);
    this.#hold.stop();
    for (const bell of this.#bells) bell.ring();
  }

  async #run(setup: Omit<CollectorSetup, 'port'>): Promise<void> {
    const { port, disconnect } = this.#hold.connect(setup.worker);
    try {
      const running = this.#threads[setup.worker]!.run({ ...setup, port }, [port]);
      // Clears the start time of a collect() that was running when the thread ended. Otherwise the
      // pool would later warn that this collect() has not returned.
      await running.finally(() => this.#statistics.writer(setup.worker).collected());
    } catch (error) {
      const cause = causeOf(error);
      const why = `collector ${setup.worker} failed: ${(cause as Error)?.message ?? String(cause)}${placeOf(cause, this.#module)}`;
      const mayRestart = this.#opened && this.#restartsLeft > 0 && !isFinal(error);
      if (mayRestart && Atomics.load(this.#control, STOP) === 0) {
        this.#restartsLeft--;
        process.emitWarning(`${why}; it is restarted`, 'CollectorWarning');
        return this.#run({ ...setup, restarts: setup.restarts + 1, resume: null });
      }
      const failure = unavailableError(why, 'ERR_HOTSLOT_THREAD_LOST', cause);
      this.#failure ??= failure;
      this.#stop();
      this.#opener.ring();
      throw failure;
    } finally {
      disconnect();
    }
  }

  /** Emits one warning for each collect() that does not return. */
  #nameStuck(): void {
    for (const [worker, since] of this.#statistics.since().entries()) {
      if (since === 0 || since === this.#reported[worker] || nowMs() - since < PATIENCE_MS)
        continue;
      this.#reported[worker] = since;
      const text = `collector ${worker} has not returned from a collect() for ${PATIENCE_MS / 1000} s`;
      process.emitWarning(`${text} (${this.#module.href})`, 'CollectorWarning');
    }
  }

  async #ready(signal: AbortSignal | undefined): Promise<void> {
    const opened = () => {
      if (this.#failure) throw this.#failure;
      this.#opened = Atomics.load(this.#control, READY) >= this.workers;
      return this.#opened;
    };
    await waitFor(this.#opener, opened, { signal });
  }
}

/** Returns the value that the collector threw, or the error by which its thread was lost. */
const causeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'thrown' in error
    ? fromPlain((error as CollectorThrew).thrown)
    : error;

/** Returns whether a restart cannot mend the error, such as an illegal action of the policy. */
const isFinal = (error: unknown): boolean =>
  (error as Partial<CollectorThrew> | null | undefined)?.final === true;

/**
 * Warns of a failure after a collector's end, such as that of a timer or socket that it did not
 * close. The failure does not end the pool.
 */
function warnOfLate(error: unknown): void {
  const message = (error as Error)?.message ?? String(error);
  process.emitWarning(
    `the thread of a collector that has ended failed: ${message}`,
    'CollectorWarning',
  );
}
