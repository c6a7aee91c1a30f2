/**
 * One training. It opens the parts, runs them, counts progress, and evaluates the result.
 */

import { type Monitor, type TensorBoardWriter, tensorBoard } from '../../src/entries/monitor.ts';
import {
  Checkpoint,
  type CheckpointParts,
  type RestoredCheckpoint,
  type Summary,
  type Tick,
} from '../../src/index.ts';
import { Refused } from '../command-line.ts';
import { Evaluator, type EvaluatorState } from './evaluator.ts';
import { openParts, type Parts, type PartsOptions } from './parts.ts';
import { runConcurrently } from './run.ts';
import { betaAfter } from './settings.ts';

export interface TrainingOptions extends Omit<PartsOptions, 'limited'> {
  maxTicks: number;
  maxSeconds: number;
  /** folder for TensorBoard's event files, or undefined for none */
  log: string | undefined;
  /**
   * folder for checkpoints, and the time between two saves. The run also saves at its end.
   * Undefined for no checkpoint
   */
  checkpoint?: { folder: string; every: string } | undefined;
  /** folder of the checkpoint to resume from, if it contains one */
  resume?: string | undefined;
}

/** Counts of what the collectors have done so far. */
export interface Collected {
  steps: number;
  episodes: number;
  /** mean return of the last hundred episodes, explored ones included. NaN before the first */
  meanReturn: number;
}

export interface Progress extends Collected {
  seconds: number;
  ticks: number;
  /** loss, smoothed over about fifty ticks. NaN before the first tick */
  loss: number;
  meanQ: number;
  /** filled share of the buffer, 0 to 1 */
  bufferFill: number;
  waitingFor: string;
  evaluations: number;
  /**
   * mean return of the last greedy evaluation, or an upper bound if it was stopped early. Null
   * before the first
   */
  greedyReturn: number | null;
}

export interface Outcome extends Progress {
  solved: boolean;
  /**
   * mean return of a hundred greedy episodes with the final weights, or null if no weights were
   * published
   */
  finalReturn: number | null;
  /** whether the caller's signal ended the run */
  interrupted: boolean;
  /** the weights that were evaluated last */
  weights: Float32Array;
  /** times of the pipeline's stages, null if no tick was left to run */
  stages: Summary['stages'] | null;
}

/** Result of the run of a training's parts. */
export interface Ended {
  solvedReturn: number | null;
  stages: Summary['stages'] | null;
}

/** Additional state in a checkpoint, next to the parts. */
interface Extra {
  evaluator: EvaluatorState;
}

const kept = ({ buffer, learner, pipeline, mailbox }: Parts) => ({
  buffer,
  learner,
  pipeline,
  mailbox,
});

/**
 * Throws if the checkpoint's folder contains another run, so that no save overwrites it. Called
 * before anything is opened.
 */
async function refuseOther({ checkpoint, resume }: TrainingOptions): Promise<void> {
  if (!checkpoint || checkpoint.folder === resume) return;
  const there = await asked(() => Checkpoint.inspect(checkpoint.folder));
  if (there === null) return;
  const { folder } = checkpoint;
  throw new Refused(
    `${folder} holds the checkpoint of another run, at tick ${there.tick}: --resume ${folder} resumes it, or name another folder`,
  );
}

/**
 * Calls `act`, and turns its error into Refused. The user named the folder, so a wrong folder is
 * not a fault of the example.
 */
async function asked<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw new Refused((error as Error).message);
  }
}

const MAX_TIMER_MS = 2 ** 31 - 1;
/** Share of a new tick in the smoothed loss and meanQ. */
const SMOOTHING = 0.02;

export class Training implements AsyncDisposable {
  readonly options: TrainingOptions;
  readonly parts: Parts;
  readonly evaluator: Evaluator;
  readonly curves: TensorBoardWriter | null;
  /** the checkpoint from which this run resumed, or null for a new run */
  readonly restored: RestoredCheckpoint | null;
  /** the live page if it is open. It closes with this training */
  monitor: Monitor | null = null;
  /** returns the collectors' counts. The run replaces this function */
  collected: () => Collected = () => ({ steps: 0, episodes: 0, meanReturn: Number.NaN });
  #checkpoint: Checkpoint | null = null;
  #begin = performance.now();
  #ticks = 0;
  #loss = Number.NaN;
  #meanQ = Number.NaN;

  static async open(options: TrainingOptions): Promise<Training> {
    await refuseOther(options);
    const parts = await openParts({ ...options, limited: true });
    try {
      const { resume } = options;
      const restored =
        resume === undefined ? null : await asked(() => Checkpoint.restore(resume, kept(parts)));
      return new Training(options, parts, restored);
    } catch (error) {
      await parts[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(options: TrainingOptions, parts: Parts, restored: RestoredCheckpoint | null) {
    this.options = options;
    this.parts = parts;
    this.restored = restored;
    this.#ticks = this.firstTick;
    this.evaluator = new Evaluator(parts.mailbox, options.settings, options.seed);
    this.curves = options.log === undefined ? null : tensorBoard(options.log);
    this.curves?.listen({ pipeline: parts.pipeline });
    parts.pipeline.on('tick', (tick) => this.#count(tick));
    if (restored) this.evaluator.loadState((restored.extra as Extra).evaluator);
  }

  /** Id of the first tick of this run. */
  get firstTick(): number {
    return (this.restored?.tick ?? -1) + 1;
  }

  /**
   * Begins to save checkpoints, if the options request them. The run calls it after it has opened
   * its collectors.
   */
  async keep(collectors: NonNullable<CheckpointParts['collectors']>): Promise<void> {
    const { checkpoint } = this.options;
    if (!checkpoint) return;
    const extra = (): Extra => ({ evaluator: this.evaluator.state() });
    const { folder, every } = checkpoint;
    this.#checkpoint = await asked(() =>
      Checkpoint.open(folder, { ...kept(this.parts), collectors, extra, every }),
    );
    this.monitor?.watch({ checkpoint: this.#checkpoint });
  }
  /** Saves once more. The run calls it while the collectors are still open. */
  async keepLast(): Promise<void> {
    await this.#checkpoint?.save();
    await this.#checkpoint?.close();
    this.#checkpoint = null;
  }

  get manifest(): Parts['pipeline']['transferManifest'] {
    return this.parts.pipeline.transferManifest;
  }

  progress(): Progress {
    const { buffer, pipeline } = this.parts;
    return {
      ...this.collected(),
      seconds: (performance.now() - this.#begin) / 1000,
      ticks: this.#ticks,
      loss: this.#loss,
      meanQ: this.#meanQ,
      bufferFill: buffer.size / buffer.capacity,
      waitingFor: pipeline.waitingFor(),
      evaluations: this.evaluator.count,
      greedyReturn: this.evaluator.last?.meanReturn ?? null,
    };
  }

  /**
   * Evaluates the newest weights. Returns the confirmed mean return if they solve CartPole,
   * otherwise null.
   */
  async look(): Promise<number | null> {
    const { steps, meanReturn } = this.collected();
    const { count } = this.evaluator;
    const solved = await this.evaluator.look(meanReturn);
    const { last } = this.evaluator;
    // An evaluation that was stopped early only has an upper bound, so it is not shown.
    if (last?.whole && this.evaluator.count > count)
      for (const shown of [this.curves, this.monitor])
        shown?.scalar('evaluation/return', last.meanReturn, steps);
    return solved;
  }

  /** Raises the exponent of the importance weights with the number of environment steps. */
  anneal(): void {
    const { settings } = this.options;
    if (settings.replay === 'prioritized')
      this.parts.pipeline.setBeta(betaAfter(this.collected().steps, settings));
  }

  /**
   * Trains until CartPole is solved, a limit is reached or the signal aborts. Rejects if an actor
   * or a collector fails.
   */
  async run(signal: AbortSignal): Promise<Outcome> {
    this.#begin = performance.now();
    const stop = new AbortController();
    const end = () => stop.abort();
    const timer = setTimeout(end, Math.min(this.options.maxSeconds * 1000, MAX_TIMER_MS));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      return await this.#drive(stop, signal);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
  }

  async #drive(stop: AbortController, signal: AbortSignal): Promise<Outcome> {
    const { solvedReturn, stages } = await runConcurrently(this, stop);
    const progress = this.progress();
    const finalReturn = solvedReturn ?? (await this.evaluator.judge());
    const { weights } = this.evaluator;
    return {
      ...progress,
      solved: solvedReturn !== null,
      finalReturn,
      interrupted: signal.aborted,
      weights,
      stages,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#checkpoint?.close();
    await this.parts[Symbol.asyncDispose]();
    await this.monitor?.close();
    // A failed write was already reported as a warning.
    await this.curves?.close().catch(() => {});
  }

  #count({ scalars }: Tick): void {
    this.#ticks++;
    const { loss = Number.NaN, meanQ = Number.NaN } = scalars;
    this.#loss = smooth(this.#loss, loss);
    this.#meanQ = smooth(this.#meanQ, meanQ);
  }
}

function smooth(before: number, now: number): number {
  return Number.isNaN(before) ? now : before + SMOOTHING * (now - before);
}
