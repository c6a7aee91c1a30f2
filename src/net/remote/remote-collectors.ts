/**
 * The learner's side of collectors on other machines. It adds each of their rows to the learner's
 * buffer once, and sends them the learner's weights. One thread for each stream does this
 * (remote-thread.ts). The thread that calls open(), the opener, starts these threads, replaces
 * those that end, and reports their state.
 */
import {
  checkCount,
  checkInternal,
  checkKeys,
  describeValue,
  INTERNAL,
} from '../../base/checks.ts';
import { Closing } from '../../base/closing.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { errorOf, fromPlain } from '../../base/plain-error.ts';
import { Spans } from '../../engine/trace/spans.ts';
import type { PausedPool } from '../../run/collectors/pool-pause.ts';
import { SupervisedThread } from '../../shm/supervised-thread.ts';
import { type MessageThread, startThread } from '../../shm/thread.ts';
import { checkSignal, orAborted } from '../../shm/wait.ts';
import { rowBytesOf } from '../../store/lanes/packed-rows.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { checkAddress } from './address.ts';
import { checkRun } from './keys.ts';
import { layoutText } from './layout.ts';
import { checkEndian } from './message.ts';
import { checkPlain } from './plain.ts';
import { register } from './registry.ts';
import { OPTIONS, type RemoteCollectorsOptions } from './remote-options.ts';
import type { RemoteThreadMessage, RemoteThreadReport, RemoteThreadTask } from './remote-thread.ts';
import { type RemoteStatistics, Reports } from './reports.ts';
import { checkResumed, savedRemote } from './saved-offsets.ts';
import { SessionOffsets } from './session-offsets.ts';
import { writeStatus } from './status.ts';

const THREAD = new URL('./remote-thread.js', import.meta.url);
/**
 * A thread that ended is replaced, unless more than MAX_LOST threads have ended within LOST_MS. In
 * that case, these collectors fail.
 */
const MAX_LOST = 5;
const LOST_MS = 60_000;
const STATUS_MS = 1000;

/** Returns the threads, for tests. The package does not export this function. */
export let remoteThreadsOf: (remote: RemoteCollectors) => readonly (MessageThread | null)[];

/**
 * Receives rows of collector hosts on other machines into the learner's buffer, and sends them
 * weights.
 * @example
 * await using remote = await RemoteCollectors.open({ url, run: 'ant-7', buffer, mailbox });
 * console.log(remote.statistics().rowsPerSecond);
 */
export class RemoteCollectors implements AsyncDisposable {
  readonly run: string;
  /**
   * Resolves after close(). Rejects with the error that ended these collectors: another learner has
   * taken the run, or the server refuses this learner. You need not wait for it, but a failure that
   * is not handled ends the process like any unhandled rejection.
   */
  readonly done: Promise<void>;
  readonly #task: Omit<RemoteThreadTask, 'shard' | 'epoch' | 'held' | 'marks'>;
  /** one object for each thread, because only one thread may write it */
  readonly #marks: readonly SessionOffsets[];
  readonly #threads: readonly SupervisedThread[];
  readonly #reports: Reports;
  readonly #statusTimer: NodeJS.Timeout;
  readonly #onWait: (words: string) => void;
  readonly #leave: () => void;
  #epoch = 0;
  #held = false;
  /** for each thread, the function to call when it has paused */
  readonly #still = new WeakMap<MessageThread, () => void>();
  readonly #closing = new Closing();
  #failure: Error | null = null;
  #lost: number[] = [];
  #end!: () => void;
  #opened = false;

  static {
    remoteThreadsOf = (remote) => remote.#threads.map(({ running }) => running);
  }

  /**
   * Takes the run and starts to receive. Resolves when hosts can join.
   *
   * @throws {TypeError|RangeError} for wrong options
   * @throws {ERR_HOTSLOT_STATE_BUSY} while another learner has the run
   * @throws {ERR_HOTSLOT_UNAVAILABLE} for a server that is too old, wrong credentials, an invalid
   *   certificate, or a missing package `@redis/client`
   */
  static async open(options: RemoteCollectorsOptions): Promise<RemoteCollectors> {
    checkKeys('RemoteCollectors.open', options, OPTIONS);
    const remote = new RemoteCollectors(INTERNAL, options);
    try {
      const [first, ...others] = remote.#threads as [SupervisedThread, ...SupervisedThread[]];
      await orAborted(first.start(), options.signal);
      await orAborted(Promise.all(others.map((thread) => thread.start())), options.signal);
      if (remote.#failure) throw remote.#failure;
      // Receives rows only from now on. If rows had arrived before an abort of open(), the caller
      // would not know how many.
      remote.#opened = true;
      remote.#post('release');
      return remote;
    } catch (error) {
      await remote.close();
      throw remote.#failure ?? error;
    }
  }

  private constructor(key: unknown, given: RemoteCollectorsOptions) {
    checkInternal(key, 'RemoteCollectors', 'RemoteCollectors.open()');
    checkEndian();
    const {
      url,
      buffer,
      mailbox,
      insecure,
      password,
      ca,
      options,
      maxVersionLag = Number.POSITIVE_INFINITY,
    } = given;
    const { signal, onWait = () => {} } = given;
    checkSignal(signal);
    if (typeof onWait !== 'function')
      throw typeError(`onWait must be a function, got ${describeValue(onWait)}`);
    this.#onWait = onWait;
    checkAddress({ url, insecure, password, ca });
    this.run = checkRun(given.run);
    if (!(buffer instanceof ReplayBuffer || buffer instanceof TrajectoryBuffer))
      throw typeError(
        `buffer must be a ReplayBuffer or a TrajectoryBuffer, got ${describeValue(buffer)}`,
      );
    if (mailbox !== undefined && !(mailbox instanceof WeightMailbox))
      throw typeError(`mailbox must be a WeightMailbox, got ${describeValue(mailbox)}`);
    if (maxVersionLag !== Number.POSITIVE_INFINITY) checkCount('maxVersionLag', maxVersionLag, 0);
    const shards = checkCount('shards', given.shards ?? 1, 1, 64);
    if (shards > 1 && buffer instanceof TrajectoryBuffer)
      throw rangeError(`shards must be 1 where lanes are given to hosts, got ${shards}`);
    const saved = checkResumed(given.resume, shards);
    this.#marks = Array.from({ length: shards }, (_, shard) =>
      SessionOffsets.create(saved.filter(({ session }) => session % shards === shard)),
    );
    this.#task = {
      address: { url, insecure, password, ca },
      run: this.run,
      shards,
      maxVersionLag,
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
    this.#threads = this.#marks.map((_, shard) => this.#supervised(shard));
    this.#reports = new Reports(shards, () => this.#marks.reduce((sum, { lost }) => sum + lost, 0));
    this.done = new Promise((resolve, reject) => {
      // Until open() has resolved, `done` never rejects, because open() itself rejects with a
      // failure.
      this.#end = () => (this.#failure && this.#opened ? reject(this.#failure) : resolve());
    });
    this.#statusTimer = setInterval(() => this.#sendStatus(), STATUS_MS).unref();
    const hooks = { hold: () => this.#hold(), failure: () => this.#failure };
    this.#leave = register(this, this.#task, this.#reports, hooks);
  }

  /** Returns sums over all hosts from their last reports, and counts of the received rows. */
  statistics(): RemoteStatistics {
    return this.#reports.statistics();
  }

  /**
   * Returns the state of the hosts as text, or what prevents rows. Returns null before that is
   * known.
   */
  waitingFor(): string | null {
    return this.#reports.waitingFor();
  }

  /**
   * Stops receiving. Hosts keep the rows that they have not sent, and wait for the next learner of
   * the run. Idempotent.
   */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      clearInterval(this.#statusTimer);
      this.#leave();
      await Promise.all(
        this.#threads.map((thread) => thread.stop((running) => postTo(running, 'stop'))),
      );
      this.#reports.close();
      this.#end();
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Supervises a shard's thread. A thread is ready when it receives, or will receive as soon as
   * open() ends.
   */
  #supervised(shard: number): SupervisedThread {
    const { shared: marks } = this.#marks[shard] as SessionOffsets;
    return new SupervisedThread({
      start: () => {
        const held = this.#held || !this.#opened;
        const setup: RemoteThreadTask = { ...this.#task, shard, marks, epoch: this.#epoch, held };
        return startThread(THREAD, { name: `hotslot remote ${shard}`, setup });
      },
      ready: (thread) =>
        new Promise<void>((resolve, reject) => {
          thread.port.on('message', (message: RemoteThreadReport) => {
            if ('ready' in message) {
              this.#epoch = message.ready;
              resolve();
            } else if ('waits' in message) this.#onWait(message.waits);
            else if ('report' in message) this.#reports.take(shard, message.report);
            else if ('held' in message) this.#still.get(thread)?.();
            else if ('failed' in message) {
              const failure = errorOf(fromPlain(message.failed));
              if (!this.#closing.begun) this.#failure ??= failure;
              reject(failure);
            }
          });
        }),
      lost: (reason, supervised) =>
        void supervised.replace(reason, (latest) => this.#again(shard, latest)),
    });
  }

  /**
   * Returns whether to replace a thread that ended. It is replaced if it was ended by force, unless
   * that happens too often. If the thread has reported a failure, these collectors end.
   */
  #again(shard: number, reason: Error): boolean {
    if (this.#closing.begun) return false;
    const now = performance.now();
    this.#lost = [...this.#lost.filter((at) => now - at < LOST_MS), now];
    if (this.#failure === null && reason.cause === undefined && this.#lost.length <= MAX_LOST) {
      this.#reports.ended(shard);
      return true;
    }
    this.#failure ??= reason;
    void this.close();
    return false;
  }

  /** Pauses for a checkpoint. No row is added until the returned release() is called. */
  async #hold(): Promise<PausedPool> {
    if (this.#held) throw stateError('BUSY', 'these collectors are paused for another checkpoint');
    this.#held = true;
    const running = this.#threads.flatMap(({ running }) => running ?? []);
    const still = running.map((thread) =>
      Promise.race([
        thread.ended,
        new Promise<void>((resolve) => this.#still.set(thread, resolve)),
      ]),
    );
    this.#post('hold');
    await Promise.all(still);
    const release = () => {
      this.#held = false;
      this.#post('release');
    };
    return { state: savedRemote(this.#marks), late: [], release };
  }

  #sendStatus(): void {
    const first = this.#threads[0]?.running;
    if (!first || this.#epoch === 0) return;
    postTo(first, { status: writeStatus(this.#reports.status(this.run, this.#epoch)) });
  }
  #post(message: RemoteThreadMessage): void {
    for (const { running } of this.#threads) if (running) postTo(running, message);
  }
}

const postTo = ({ port }: MessageThread, message: RemoteThreadMessage) => port.postMessage(message);
