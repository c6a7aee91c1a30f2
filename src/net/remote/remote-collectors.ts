/**
 * Collectors on other machines, as the learner has them: their rows come into its buffer, once each, and its weights go to them. Threads
 * do it (remote-thread.ts), one for each stream; this opener starts them, replaces those that end, and tells how it goes.
 */
import { Worker } from 'node:worker_threads';
import { checkCount, checkKeys, checkOurs, OURS, shown } from '../../base/checks.ts';
import { rangeError, stateError, typeError, unavailableError } from '../../base/errors.ts';
import { errorOf, fromPlain } from '../../base/plain-error.ts';
import { Spans } from '../../engine/trace/spans.ts';
import type { HeldPool } from '../../run/collectors/pool-hold.ts';
import { checkSignal, orAborted } from '../../shm/wait.ts';
import { rowBytesOf } from '../../store/lanes/packed-rows.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { checkAddress } from './address.ts';
import { enter } from './entered.ts';
import { checkRun } from './keys.ts';
import { layoutText } from './layout.ts';
import { Marks } from './marks.ts';
import { checkEndian } from './message.ts';
import { checkPlain } from './plain.ts';
import { OPTIONS, type RemoteCollectorsOptions } from './remote-options.ts';
import type { RemoteThreadIsTold, RemoteThreadSays, RemoteThreadTask } from './remote-thread.ts';
import { type RemoteStatistics, Reports } from './reports.ts';
import { checkResumed, savedRemote } from './resumed.ts';
import { writeStatus } from './status.ts';

/** A thread that ended is replaced, unless so many did within a minute. */
const MOST_LOST = 5;
const LOST_MS = 60_000;
/** Stopped threads have this long to come to an end. */
const STOP_MS = 5000;
const STATUS_MS = 1000;

/** The threads, for tests; not exported from the package. */
export let remoteThreadsOf: (remote: RemoteCollectors) => readonly (Worker | null)[];

export class RemoteCollectors implements AsyncDisposable {
  readonly run: string;
  /**
   * Resolves when it was closed; rejects with what ended it: another learner that took the run, a server that refuses this one.
   * Nobody has to look at it: a failure that is not handled ends the process like any unhandled rejection.
   */
  readonly done: Promise<void>;
  readonly #task: Omit<RemoteThreadTask, 'shard' | 'epoch' | 'held' | 'marks'>;
  /** of each thread its own: only one may write them */
  readonly #marks: readonly Marks[];
  readonly #threads: (Worker | null)[] = [];
  readonly #reports: Reports;
  readonly #telling: NodeJS.Timeout;
  readonly #onWait: (words: string) => void;
  readonly #leave: () => void;
  #epoch = 0;
  #held = false;
  /** threads that stand still for it */
  readonly #still = new Set<Worker>();
  #heard: (() => void) | null = null;
  #closing: Promise<void> | null = null;
  #stopping = false;
  #failure: Error | null = null;
  #lost: number[] = [];
  #end!: () => void;
  #fail!: (error: Error) => void;
  #opened = false;
  /** of threads that ended when they were ready, and others not yet */
  readonly #early: (() => void)[] = [];

  static {
    remoteThreadsOf = (remote) => remote.#threads;
  }

  /**
   * Takes the run and begins to receive. Resolves when hosts can join. Rejects with TypeError or RangeError for options;
   * ERR_HOTSLOT_STATE_BUSY while another learner has the run; ERR_HOTSLOT_UNAVAILABLE for a server that is too old, credentials or a
   * certificate that are wrong, and where `@redis/client` is not installed.
   */
  static async open(options: RemoteCollectorsOptions): Promise<RemoteCollectors> {
    checkKeys('RemoteCollectors.open', options, OPTIONS);
    const remote = new RemoteCollectors(OURS, options);
    try {
      await orAborted(remote.#start(0), options.signal);
      const others = Array.from({ length: remote.#task.shards - 1 }, (_, i) => remote.#start(i + 1));
      await orAborted(Promise.all(others), options.signal);
      // Rows come in from now on: had they before, nobody would know how far where open() was given up.
      remote.#opened = true;
      for (const thread of remote.#threads) if (thread) tell(thread, 'release');
      for (const over of remote.#early) over();
      return remote;
    } catch (error) {
      await remote.close();
      throw error;
    }
  }

  private constructor(key: unknown, given: RemoteCollectorsOptions) {
    checkOurs(key, 'RemoteCollectors', 'RemoteCollectors.open()');
    checkEndian();
    const { url, buffer, mailbox, insecure, password, ca, options, maxVersionLag = Number.POSITIVE_INFINITY } = given;
    const { signal, onWait = () => {} } = given;
    checkSignal(signal);
    if (typeof onWait !== 'function') throw typeError(`onWait must be a function, got ${shown(onWait)}`);
    this.#onWait = onWait;
    checkAddress({ url, insecure, password, ca });
    this.run = checkRun(given.run);
    if (!(buffer instanceof ReplayBuffer || buffer instanceof TrajectoryBuffer))
      throw typeError(`buffer must be a ReplayBuffer or a TrajectoryBuffer, got ${shown(buffer)}`);
    if (mailbox !== undefined && !(mailbox instanceof WeightMailbox))
      throw typeError(`mailbox must be a WeightMailbox, got ${shown(mailbox)}`);
    if (maxVersionLag !== Number.POSITIVE_INFINITY) checkCount('maxVersionLag', maxVersionLag, 0);
    const shards = checkCount('shards', given.shards ?? 1, 1, 64);
    if (shards > 1 && buffer instanceof TrajectoryBuffer)
      throw rangeError(`shards must be 1 where lanes are given to hosts, got ${shards}`);
    const saved = checkResumed(given.resume, shards);
    this.#marks = Array.from({ length: shards }, (_, shard) =>
      Marks.create(saved.filter(({ session }) => session % shards === shard)),
    );
    this.#task = {
      address: { url, insecure, password, ca },
      ...{ run: this.run, shards, maxVersionLag },
      info: {
        layout: layoutText(buffer),
        weights: mailbox?.length ?? 0,
        options: checkPlain(options),
        seed: checkCount('seed', given.seed ?? 0, 0),
        shards,
      },
      buffer: buffer.share() as RemoteThreadTask['buffer'],
      rowBytes: buffer instanceof ReplayBuffer ? buffer.rowBytes : rowBytesOf(buffer.layout),
      mailbox: mailbox?.share() ?? null,
      transitBytes: checkCount('transitBytes', given.transitBytes ?? 2 ** 28, 2 ** 16),
      weightsEveryMs: checkCount('weightsEveryMs', given.weightsEveryMs ?? 200, 1),
      spans: Array.from({ length: shards }, () => Spans.allocate()),
    };
    this.#reports = new Reports(shards, () => this.#marks.reduce((sum, { lost }) => sum + lost, 0));
    this.done = new Promise((resolve, reject) => {
      this.#end = resolve;
      this.#fail = (error) => {
        // A failure belongs to open() until that has resolved.
        if (this.#opened) reject(error);
        else resolve();
      };
    });
    this.#telling = setInterval(() => this.#tellStatus(), STATUS_MS).unref();
    const telling = { hold: () => this.#hold(), failure: () => this.#failure };
    this.#leave = enter(this, this.#task, this.#reports, telling);
  }

  /** Sums over all hosts, as they told last, and what came in. */
  statistics(): RemoteStatistics {
    return this.#reports.statistics();
  }

  /** How those do whose rows come in, or what keeps them from coming, in words; null before that is known. */
  waitingFor(): string | null {
    return this.#reports.waitingFor();
  }

  /** Ends receiving; hosts wait for the next learner of the run. What they have not sent stays theirs. Twice is fine. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#telling);
    this.#leave();
    await Promise.all(
      this.#threads.map(async (thread) => {
        if (thread === null) return;
        const ended = new Promise((resolve) => thread.once('exit', resolve));
        tell(thread, 'stop');
        const late = setTimeout(() => void thread.terminate(), STOP_MS);
        await ended;
        clearTimeout(late);
      }),
    );
    this.#reports.close();
    if (this.#failure) this.#fail(this.#failure);
    else this.#end();
  }

  /** Resolves when the thread receives, or will at once when everything is open. Rejects when it has ended, or there is none. */
  async #start(shard: number): Promise<void> {
    const { shared: marks } = this.#marks[shard] as Marks;
    const task = { ...this.#task, shard, marks, epoch: this.#epoch, held: this.#held || !this.#opened };
    const thread = new Worker(new URL('./remote-thread.js', import.meta.url), {
      ...{ workerData: task, name: `hotslot remote ${shard}`, execArgv: [] },
    });
    this.#threads[shard] = thread;
    return new Promise((resolve, reject) => {
      let failed: Error | null = null;
      thread.on('message', (said: RemoteThreadSays) => {
        if ('ready' in said) {
          this.#epoch = said.ready;
          resolve();
        } else if ('waits' in said) this.#onWait(said.waits);
        else if ('report' in said) this.#reports.take(shard, said.report);
        else if ('held' in said) {
          this.#still.add(thread);
          this.#heard?.();
        } else if ('failed' in said) failed = errorOf(fromPlain(said.failed));
      });
      thread.on('error', (error) => {
        failed = errorOf(error);
      });
      thread.once('exit', (code) => {
        if (this.#threads[shard] === thread) this.#threads[shard] = null;
        const why = failed ?? unavailableError(`the thread ended with ${code}`, 'ERR_HOTSLOT_THREAD_LOST');
        reject(why);
        this.#heard?.();
        if (this.#stopping) return;
        if (this.#opened) this.#over(shard, failed, why);
        else this.#early.push(() => this.#over(shard, failed, why));
      });
    });
  }

  /** A thread ended by itself: what it said ends everything; one that was ended by force is replaced. */
  #over(shard: number, failed: Error | null, why: Error): void {
    const now = performance.now();
    this.#lost = [...this.#lost.filter((at) => now - at < LOST_MS), now];
    if (failed === null && this.#lost.length <= MOST_LOST) {
      this.#reports.ended(shard);
      // The end of one that was started tells by itself.
      this.#start(shard).catch((error) => {
        if (this.#threads[shard] === null && !this.#stopping)
          this.#fails(unavailableError('no thread can be had', 'ERR_HOTSLOT_THREAD_LOST', error));
      });
      return;
    }
    this.#fails(why);
  }
  #fails(why: Error): void {
    this.#failure ??= why;
    this.close();
  }

  /** For checkpoints: no row comes in until release(). */
  async #hold(): Promise<HeldPool> {
    if (this.#held) throw stateError('BUSY', 'these collectors stand still for another checkpoint already');
    this.#held = true;
    const asked = this.#threads.filter((thread) => thread !== null);
    for (const thread of asked) tell(thread, 'hold');
    while (asked.some((thread) => this.#threads.includes(thread) && !this.#still.has(thread)))
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    const release = () => {
      this.#held = false;
      this.#still.clear();
      for (const thread of this.#threads) if (thread) tell(thread, 'release');
    };
    return { state: savedRemote(this.#marks), late: [], release };
  }

  #tellStatus(): void {
    const [first] = this.#threads;
    if (!first || this.#epoch === 0) return;
    tell(first, { status: writeStatus(this.#reports.status(this.run, this.#epoch)) });
  }
}

const tell = (thread: Worker, told: RemoteThreadIsTold) => thread.postMessage(told);
