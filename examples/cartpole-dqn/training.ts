/**
 * One training and how it stands: opens the parts, lets one of the two loops drive them, judges the
 * result.
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
import { runFree } from './free-run.ts';
import { runLockStep } from './lock-step.ts';
import { openParts, type Parts, type PartsOptions } from './parts.ts';
import { betaAfter } from './settings.ts';

export interface TrainingOptions extends Omit<PartsOptions, 'limited'> {
  /** collecting and learning take turns in this thread: slower, but repeatable bit for bit */
  lockStep: boolean;
  maxTicks: number;
  maxSeconds: number;
  /** folder for TensorBoard's event files, if they are wanted */
  log: string | undefined;
  /** where the run is saved, and how often besides at its end; undefined: nowhere */
  checkpoint?: { folder: string; every: string } | undefined;
  /** folder of a checkpoint to go on from, where there is one */
  resume?: string | undefined;
}

/** What collectors have done so far. */
export interface Collected {
  steps: number;
  episodes: number;
  /** mean return of the last hundred episodes, explored ones included; NaN before the first */
  meanReturn: number;
}

export interface Progress extends Collected {
  seconds: number;
  ticks: number;
  /** smoothed over some fifty ticks; NaN before the first */
  loss: number;
  meanQ: number;
  /** 0 to 1 */
  bufferFill: number;
  waitingFor: string;
  evaluations: number;
  /** at most what the last greedy evaluation could reach; null before the first */
  greedyReturn: number | null;
}

export interface Outcome extends Progress {
  solved: boolean;
  /**
   * of a hundred greedy episodes with the final weights; null when no weights were ever published
   */
  finalReturn: number | null;
  /** ended by the caller's signal */
  interrupted: boolean;
  /** the weights that were judged */
  weights: Float32Array;
  /** times of the pipeline's stages; null in lock-step, where they mean nothing */
  stages: Summary['stages'] | null;
}

/** What a loop that drives a training gives back. */
export interface Ended {
  solvedReturn: number | null;
  stages: Summary['stages'] | null;
}

/** What a checkpoint holds besides its parts. */
interface Extra {
  evaluator: EvaluatorState;
  driver: unknown;
}

const kept = ({ buffer, learner, pipeline, mailbox }: Parts) => ({
  buffer,
  learner,
  pipeline,
  mailbox,
});

/** Before anything is made: a folder that has another run is not saved over. */
async function refuseOther({ checkpoint, resume }: TrainingOptions): Promise<void> {
  if (!checkpoint || checkpoint.folder === resume) return;
  const there = await asked(() => Checkpoint.inspect(checkpoint.folder));
  if (there === null) return;
  const { folder } = checkpoint;
  throw new Refused(
    `${folder} holds the checkpoint of another run, at tick ${there.tick}: --resume ${folder} resumes it, or name another folder`,
  );
}

/** What does not fit a folder that the user named is a sentence, and no fault of the example. */
async function asked<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw new Refused((error as Error).message);
  }
}

const MAX_TIMER_MS = 2 ** 31 - 1;
/** Weight of a new tick in the smoothed scalars. */
const SMOOTHING = 0.02;

export class Training implements AsyncDisposable {
  readonly options: TrainingOptions;
  readonly parts: Parts;
  readonly evaluator: Evaluator;
  readonly curves: TensorBoardWriter | null;
  /** where this run goes on from; null where it begins */
  readonly restored: RestoredCheckpoint | null;
  /** the live page, where somebody opened one: it is closed with this */
  monitor: Monitor | null = null;
  /** set by the loop that collects */
  collected: () => Collected = () => ({ steps: 0, episodes: 0, meanReturn: Number.NaN });
  #checkpoint: Checkpoint | null = null;
  #begin = performance.now();
  #ticks = 0;
  #loss = Number.NaN;
  #meanQ = Number.NaN;

  static async open(options: TrainingOptions): Promise<Training> {
    const placement = options.lockStep ? 'inline' : options.placement;
    await refuseOther(options);
    const parts = await openParts({ ...options, placement, limited: !options.lockStep });
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

  /** The tick that comes next when a run begins. */
  get firstTick(): number {
    return (this.restored?.tick ?? -1) + 1;
  }
  /** What the loop that drives it told keep() when it was saved. */
  get driver(): unknown {
    return (this.restored?.extra as Extra | undefined)?.driver ?? null;
  }

  /**
   * From here on it is saved, if that was asked for: the loop that drives it has made its
   * collectors.
   */
  async keep(
    collectors: NonNullable<CheckpointParts['collectors']>,
    driver: () => unknown,
  ): Promise<void> {
    const { checkpoint } = this.options;
    if (!checkpoint) return;
    const extra = (): Extra => ({ evaluator: this.evaluator.state(), driver: driver() });
    const { folder, every } = checkpoint;
    this.#checkpoint = await asked(() =>
      Checkpoint.open(folder, { ...kept(this.parts), collectors, extra, every }),
    );
    this.monitor?.watch({ checkpoint: this.#checkpoint });
  }
  /** Saves once more, while the collectors are still there. */
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

  /** A look at the newest weights; the confirmed mean return once they solve it. */
  async look(): Promise<number | null> {
    const { steps, meanReturn } = this.collected();
    const { count } = this.evaluator;
    const solved = await this.evaluator.look(meanReturn);
    const { last } = this.evaluator;
    // One that was cut short says only what it could have reached.
    if (last?.whole && this.evaluator.count > count)
      for (const shown of [this.curves, this.monitor])
        shown?.scalar('evaluation/return', last.meanReturn, steps);
    return solved;
  }

  /** Lets the importance weights count more, the longer it trains. */
  anneal(): void {
    const { settings } = this.options;
    if (settings.replay === 'prioritized')
      this.parts.pipeline.setBeta(betaAfter(this.collected().steps, settings));
  }

  /**
   * Trains until solved, at a limit, or aborted by the signal. Rejects when an actor or a collector
   * fails.
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
    const drive = this.options.lockStep ? runLockStep : runFree;
    const { solvedReturn, stages } = await drive(this, stop);
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
    // A disk that refused has been told of, as a warning.
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
