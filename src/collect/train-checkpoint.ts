/** A training that is saved, and goes on from where it was: its parts, and what train() itself counts. */
import type { ReplayBuffer } from '../buffer/replay-buffer.ts';
import type { WeightMailbox } from '../buffer/weight-mailbox.ts';
import { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { CheckpointParts } from '../checkpoint/parts.ts';
import type { CollectorPool } from '../collectors/collector-pool.ts';
import type { ReplayPipeline } from '../pipeline/replay-pipeline.ts';
import type { TrajectoryBuffer } from '../trajectories/trajectory-buffer.ts';
import type { AnyLearner } from './algorithms.ts';
import type { TrainOptions } from './train-options.ts';
import type { CurvePoint } from './train-told.ts';

/** What is counted from the beginning of the first run. */
export interface TrainCounts {
  readonly ticks: number;
  readonly seconds: number;
  readonly curve: readonly CurvePoint[];
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
  readonly #where: NonNullable<TrainOptions['checkpoint']> | null;
  readonly #parts: CheckpointParts;
  #checkpoint: Checkpoint | null = null;

  /** Gives the parts what the folder holds, if anything. Without a folder nothing is kept. */
  static async of(where: TrainOptions['checkpoint'] | null, parts: TrainParts): Promise<TrainCheckpoint> {
    const restored = where ? await Checkpoint.restore(where.folder, parts as CheckpointParts) : null;
    return new TrainCheckpoint(where ?? null, parts as CheckpointParts, restored);
  }

  private constructor(
    where: NonNullable<TrainOptions['checkpoint']> | null,
    parts: CheckpointParts,
    restored: { tick: number; collectors: unknown; extra: unknown } | null,
  ) {
    this.#where = where;
    this.#parts = parts;
    this.collectors = restored?.collectors;
    const counted = restored?.extra as Omit<TrainCounts, 'ticks'> | undefined;
    this.before = restored && counted ? { ...counted, ticks: restored.tick + 1 } : null;
  }

  /** From here on it is saved; null where it is not. */
  async begin(collectors: CollectorPool, counts: () => Omit<TrainCounts, 'ticks'>): Promise<Checkpoint | null> {
    if (this.#where === null) return null;
    const { folder, every = '60 s' } = this.#where;
    this.#checkpoint = await Checkpoint.open(folder, { ...this.#parts, collectors, extra: counts, every });
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
