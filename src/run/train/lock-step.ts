/**
 * Collectors of a deterministic training. They step environments in the calling thread, in turns
 * with the learner, so that rows and versions of weights have the same order in each run.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { typeError } from '../../base/errors.ts';
import { checkSignal, orAborted } from '../../shm/wait.ts';
import type { Steps } from '../../store/lanes/schema.ts';
import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { Collected, Collector } from '../collectors/collector.ts';
import { fieldsOf } from '../collectors/collector-thread.ts';
import { episodesOf } from '../collectors/episodes.ts';
import {
  type CollectorStatistics,
  type Episode,
  type SavedPage,
  StatisticsPages,
} from '../collectors/statistics.ts';
import { watchedCollectors } from '../collectors/watched.ts';
import trainCollector, { type TrainCollectorOptions } from './collector.ts';
import type { TrainCollectors } from './progress.ts';

const KIND = 'hotslot.LockStepCollectors.state';
/** Milliseconds after which the collectors let other work of the thread run. */
const SLICE_MS = 8;

interface SavedLockStep {
  readonly kind: typeof KIND;
  /** number of runs so far that have collected */
  readonly runs: number;
  readonly statistics: SavedPage;
}

interface Opening {
  buffer: ReplayBuffer | TrajectoryBuffer;
  mailbox: WeightMailbox;
  seed: number;
  options: TrainCollectorOptions;
  /** saved state of an earlier run, undefined in a first run */
  resume: unknown;
  signal: AbortSignal;
}

export class LockStepCollectors implements TrainCollectors, AsyncDisposable {
  readonly done: Promise<void>;
  readonly workers = 1;
  readonly #pages: StatisticsPages;
  readonly #collector: Collector;
  readonly #add: (rows: object) => unknown;
  readonly #writer: TrajectoryWriter | null;
  readonly #mailbox: WeightMailbox;
  readonly #weights: Float32Array;
  readonly #runs: number;
  #version = 0;
  #since = performance.now();
  #end!: () => void;
  #closed: Promise<void> | null = null;

  /** Makes the environments and the policy in this thread. Rejects with the signal's reason. */
  static async open(given: Opening): Promise<LockStepCollectors> {
    const { buffer, options, seed, resume, signal } = given;
    const saved = checkedResume(resume);
    const pages = StatisticsPages.create(1);
    if (saved) pages.restore(0, saved.statistics);
    const report = pages.writer(0);
    const writer = buffer instanceof ReplayBuffer ? null : buffer.writer();
    try {
      const making = trainCollector({
        worker: 0,
        workers: 1,
        seed,
        // Environments begin new episodes after a resume. So their seeds must be others.
        restarts: saved?.runs ?? 0,
        stepsBefore: report.stepsSoFar,
        options: structuredClone(options),
        writer,
        fields: fieldsOf(buffer),
        report,
      });
      // A collector that is made after the signal has aborted is closed at once.
      const collector = await orAborted(making, signal).catch((error) => {
        making.then((late) => late.close?.()).catch(() => {});
        throw error;
      });
      return new LockStepCollectors(given, { pages, writer, collector, runs: saved?.runs ?? 0 });
    } catch (error) {
      writer?.close();
      throw error;
    }
  }

  private constructor(
    { buffer, mailbox }: Opening,
    made: {
      pages: StatisticsPages;
      writer: TrajectoryWriter | null;
      collector: Collector;
      runs: number;
    },
  ) {
    const { writer } = made;
    this.#pages = made.pages;
    this.#writer = writer;
    this.#collector = made.collector;
    this.#runs = made.runs;
    this.#mailbox = mailbox;
    this.#weights = new Float32Array(mailbox.length);
    this.#add = writer
      ? (rows) => writer.add(rows as Steps)
      : (rows) => (buffer as ReplayBuffer).add(rows as never);
    this.done = new Promise((resolve) => {
      this.#end = resolve;
    });
    watchedCollectors.set(this, {
      failure: () => null,
      workers: () => this.#pages.each(),
      remote: () => null,
    });
  }

  /**
   * Steps each environment once by the newest weights, and adds the rows. Rejects with the error of
   * the environment or of the policy, and with the signal's reason.
   */
  async collect(signal: AbortSignal): Promise<void> {
    if (this.#mailbox.published !== this.#version) {
      const version = this.#mailbox.read(this.#weights, this.#version);
      if (version > 0) {
        this.#version = version;
        this.#pages.writer(0).acts(version);
        this.#collector.load?.(this.#weights, version);
      }
    }
    const given = this.#collector.collect();
    const isPromise = typeof (given as { then?: unknown } | null)?.then === 'function';
    const rows = isPromise ? await orAborted(Promise.resolve(given), signal) : (given as Collected);
    if (rows !== null) this.#add(rows);
    if (performance.now() - this.#since < SLICE_MS) return;
    await turn();
    this.#since = performance.now();
  }

  statistics(): CollectorStatistics {
    return this.#pages.read();
  }

  episodes(options: { signal?: AbortSignal } = {}): AsyncGenerator<Episode, void> {
    checkSignal(options.signal);
    return episodesOf({
      pages: this.#pages,
      workers: 1,
      signal: options.signal,
      over: () => this.done,
    });
  }

  /** Returns the state for a checkpoint. A resumed run begins new episodes. */
  state(): SavedLockStep {
    return { kind: KIND, runs: this.#runs + 1, statistics: this.#pages.saved(0) };
  }
  /** A checkpoint requires this method. A resumed run passes the state to open(). */
  loadState(): void {}

  close(): Promise<void> {
    this.#closed ??= (async () => {
      try {
        await this.#collector.close?.();
      } finally {
        this.#writer?.close();
        this.#end();
      }
    })();
    return this.#closed;
  }
  [Symbol.asyncDispose](): Promise<void> {
    // The pool's close() never rejects either, so that an earlier error reaches the caller.
    return this.close().catch(() => {});
  }
}

function checkedResume(resume: unknown): SavedLockStep | null {
  if (resume === undefined || resume === null) return null;
  const saved = resume as SavedLockStep;
  if (saved.kind !== KIND)
    throw typeError(
      'deterministic: the checkpoint has collectors of a training that is not deterministic; omit deterministic, or name another folder',
    );
  return saved;
}

/** Returns the number of ticks that are due after `steps` environment steps. */
export function ticksDue(
  steps: number,
  plan: {
    steps: number;
    warmUp: number;
    updatesPerStep: number;
    minibatches: number;
    ticks: number;
  },
): number {
  if (steps >= plan.steps) return plan.ticks;
  const updates = Math.max(0, steps - plan.warmUp) * plan.updatesPerStep;
  return Math.min(plan.ticks, Math.floor(updates / plan.minibatches));
}
