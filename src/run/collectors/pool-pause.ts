/**
 * Pauses a pool's collectors between two calls of collect(), while a checkpoint is taken. Each
 * collector posts its state in a message and waits. A collector without state() answers, but does
 * not wait.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError, unavailableError } from '../../base/errors.ts';
import type { HoldAnswer, SavedCollector } from './collector-thread.ts';
import { HOLD } from './control-block.ts';
import type { CollectorStatistics, SavedPage, StatisticsPages } from './statistics.ts';

/**
 * Milliseconds that a checkpoint waits for the collectors' answers. A collector that has not
 * returned from collect() by then counts as late, and the checkpoint lacks its state.
 */
const PATIENCE_MS = 5000;
const KIND = 'hotslot.CollectorPool.state';

interface SavedWorker {
  /** null if the collector has no state(), or did not answer within `PATIENCE_MS` */
  readonly collector: SavedCollector | null;
  readonly statistics: SavedPage;
}
/** The saved state of a pool. Structured cloning must support it. */
interface SavedPool {
  readonly kind: typeof KIND;
  readonly workers: readonly SavedWorker[];
}

export interface PausedPool {
  readonly state: unknown;
  /** numbers of the collectors that did not answer within `PATIENCE_MS` */
  readonly late: readonly number[];
  release(): void;
}

/** Running collectors on any machine: a CollectorPool, or RemoteCollectors. */
export interface RunningCollectors {
  /** resolves when the collectors have stopped, and rejects with the error that stopped them */
  readonly done: Promise<void>;
  /** Returns sums over all workers. */
  statistics(): CollectorStatistics;
  /** Stops the collectors. Idempotent. */
  close(): Promise<void>;
}

/**
 * Functions that pause collectors for a checkpoint. Collector pools and remote collectors add
 * their functions when they are opened.
 */
export const pausables = new WeakMap<object, () => Promise<PausedPool>>();

export class PoolPause {
  readonly #control: Int32Array;
  readonly #workers: number;
  readonly #ring: () => void;
  readonly #pages: StatisticsPages;
  readonly #ports = new Map<number, MessagePort>();
  #held = false;
  /**
   * receives each worker's answer to the current hold, or null if the worker's thread is over. Null
   * between holds
   */
  #onAnswer: ((worker: number, answer: HoldAnswer | null) => void) | null = null;

  constructor(given: {
    control: Int32Array;
    workers: number;
    ring: () => void;
    pages: StatisticsPages;
  }) {
    this.#control = given.control;
    this.#workers = given.workers;
    this.#ring = given.ring;
    this.#pages = given.pages;
  }

  /**
   * Creates a channel to a worker. Returns the worker's port, and `disconnect`, which the
   * caller calls when the thread's task is over.
   */
  connect(worker: number): { port: MessagePort; disconnect: () => void } {
    const { port1, port2 } = new MessageChannel();
    port1.on('message', (answer: HoldAnswer) => this.#onAnswer?.(worker, answer));
    port1.unref();
    this.#ports.set(worker, port1);
    /**
     * Closes the channel. If a restarted worker has another channel by now, that one stays open.
     */
    const disconnect = () => {
      port1.close();
      if (this.#ports.get(worker) !== port1) return;
      this.#ports.delete(worker);
      this.#onAnswer?.(worker, null);
    };
    return { port: port2, disconnect };
  }

  /**
   * Pauses the collectors, and resolves with their states. Only one checkpoint at a time can pause
   * them. Rejects if a collector's state() throws, or returns a value that cannot be cloned.
   */
  async take(): Promise<PausedPool> {
    if (this.#held) throw stateError('BUSY', 'these collectors are paused for another checkpoint');
    this.#held = true;
    const hold = Atomics.add(this.#control, HOLD, 1) + 1;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      this.#held = false;
      this.#change(1);
    };
    const saved = new Map<number, SavedCollector | null>();
    try {
      await this.#answers(hold, saved);
    } catch (error) {
      release();
      throw error;
    }
    const workers = Array.from({ length: this.#workers }, (_, worker) => ({
      collector: saved.get(worker) ?? null,
      statistics: this.#pages.saved(worker),
    }));
    const late = workers.map((_, worker) => worker).filter((worker) => !saved.has(worker));
    return { state: { kind: KIND, workers } satisfies SavedPool, late, release };
  }

  /**
   * Ends every hold. The stop word must be set before. The hold word must change too, because a
   * collector may have read the stop word before it was set and would then sleep.
   */
  stop(): void {
    this.#change(2);
  }
  #change(by: 1 | 2): void {
    Atomics.add(this.#control, HOLD, by);
    Atomics.notify(this.#control, HOLD);
  }

  #answers(hold: number, saved: Map<number, SavedCollector | null>): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => end(), PATIENCE_MS);
      const end = (error?: Error) => {
        clearTimeout(timer);
        this.#onAnswer = null;
        if (error) reject(error);
        else resolve();
      };
      this.#onAnswer = (worker, answer) => {
        if (answer !== null && answer.hold !== hold) return;
        if (answer !== null && 'refused' in answer)
          return end(
            unavailableError(`collector ${worker} cannot return its state: ${answer.refused}`),
          );
        saved.set(worker, answer?.saved ?? null);
        if (saved.size >= this.#workers) end();
      };
      // A worker whose thread is over posts no answer, so null is its answer.
      for (let worker = 0; worker < this.#workers; worker++)
        if (!this.#ports.has(worker)) this.#onAnswer(worker, null);
      this.#ring();
    });
  }
}

/** Returns the saved state of each worker, or an empty array without `resume`. */
export function checkResume(resume: unknown, workers: number): readonly SavedWorker[] {
  if (resume === undefined || resume === null) return [];
  const { kind, workers: saved } = resume as SavedPool;
  if (kind !== KIND || !Array.isArray(saved))
    throw typeError(
      `resume must be the collectors of a pool that Checkpoint.restore() returned, got ${describeValue(resume)}`,
    );
  if (saved.length !== workers)
    throw rangeError(`resume is of ${saved.length} workers; workers must be equal, got ${workers}`);
  return saved;
}
