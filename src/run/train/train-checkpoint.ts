/** A training that is saved, and goes on from where it was: its parts, and what train() itself counts. */

import type { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { CheckpointParts } from '../checkpoint/parts.ts';
import type { CollectorPool } from '../collectors/collector-pool.ts';
import type { AnyLearner } from './algorithms.ts';
import type { TrainPlan } from './train-options.ts';
import { type Resumption, type SavedOptions, savedOptions } from './train-resume.ts';
import type { CurvePoint } from './train-told.ts';

/** A mean return that was confirmed to reach the goal, and the weights that it is of: ticks under way have made newer ones. */
export interface Solved {
  readonly meanReturn: number;
  readonly weights: Float32Array;
}

/** What is counted from the beginning of the first run. */
export interface TrainCounts {
  readonly ticks: number;
  readonly seconds: number;
  readonly curve: readonly CurvePoint[];
  /** checkpoints of earlier versions do not have it */
  readonly solved?: Solved | null;
}

interface TrainParts {
  buffer: ReplayBuffer | TrajectoryBuffer;
  learner: AnyLearner;
  pipeline: ReplayPipeline;
  mailbox: WeightMailbox;
}

export class TrainCheckpoint implements AsyncDisposable {
  /** of the run that this one goes on from; null where it begins */
  readonly before: TrainCounts | null;
  /** for the pool */
  readonly collectors: unknown;
  readonly #where: NonNullable<TrainPlan['checkpoint']> | null;
  readonly #options: SavedOptions;
  readonly #parts: CheckpointParts;
  #checkpoint: Checkpoint | null = null;

  /** Gives the parts what the folder holds, if anything. Without a folder nothing is kept. */
  static async of(plan: TrainPlan, parts: TrainParts, { options, warn }: Resumption): Promise<TrainCheckpoint> {
    const { checkpoint } = plan;
    const restored = checkpoint ? await Checkpoint.restore(checkpoint.folder, parts as CheckpointParts) : null;
    if (restored) warn();
    return new TrainCheckpoint(plan, savedOptions(plan, options), parts as CheckpointParts, restored);
  }

  private constructor(
    { checkpoint }: TrainPlan,
    options: SavedOptions,
    parts: CheckpointParts,
    restored: { tick: number; collectors: unknown; extra: unknown } | null,
  ) {
    this.#where = checkpoint ?? null;
    this.#options = options;
    this.#parts = parts;
    this.collectors = restored?.collectors;
    const counted = restored?.extra as Omit<TrainCounts, 'ticks'> | undefined;
    this.before = restored && counted ? { ...counted, ticks: restored.tick + 1 } : null;
  }

  /** From here on it is saved; null where it is not. */
  async begin(collectors: CollectorPool, counts: () => Omit<TrainCounts, 'ticks'>): Promise<Checkpoint | null> {
    if (this.#where === null) return null;
    const { folder, every = '60 s' } = this.#where;
    const extra = () => ({ ...counts(), options: this.#options });
    this.#checkpoint = await Checkpoint.open(folder, { ...this.#parts, collectors, extra, every });
    return this.#checkpoint;
  }

  /** Once more, while the collectors are still there. */
  async last(): Promise<void> {
    await this.#checkpoint?.save();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#checkpoint?.close();
  }
}
