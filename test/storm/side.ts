/**
 * What both halves of a storm's world are: a pipeline over a buffer that others write, saved in a
 * folder, looked at by an oracle.
 */
import {
  Checkpoint,
  type CheckpointParts,
  type Device,
  type Placement,
  type ReplayPipeline,
  type RowsKept,
  type Tensor,
  type WeightMailbox,
} from '../../src/index.ts';
import type { StartedThread } from '../../src/shm/thread.ts';
import type { StormLearner } from './learner.ts';
import { filledWith } from './numbers.ts';
import { TickScan, type Wrong } from './oracle.ts';

/** Rows of a batch. */
export const ROWS = 64;

/** A thread that the storm may end. */
export type StormThread = Pick<StartedThread, 'terminate'>;

export interface SideOptions {
  readonly device: Device;
  readonly folder: string;
  readonly placement: Placement;
  readonly rows: RowsKept;
  readonly wrong: Wrong;
  /** a checkpoint is on the disk: behind which tick */
  readonly saved: (tick: number) => void;
  /** whether a disk that takes nothing explains that it is not */
  readonly troubled: () => boolean;
}

/** More often than a storm ends threads. */
export const RESTARTS = 1e9;

/** Weights of a mailbox: whole, and never older than those before. */
export class WeightScan {
  readonly #mailbox: WeightMailbox;
  readonly #wrong: Wrong;
  readonly #into: Float32Array;
  #version = 0;
  #filled = 0;

  constructor(mailbox: WeightMailbox, wrong: Wrong) {
    this.#mailbox = mailbox;
    this.#wrong = wrong;
    this.#into = new Float32Array(mailbox.length);
  }
  look(): void {
    const version = this.#mailbox.read(this.#into, this.#version);
    if (version === 0) return;
    const filled = filledWith(this.#into);
    if (filled < 0) this.#wrong(`version ${version} is torn`);
    if (version <= this.#version || filled < this.#filled)
      this.#wrong(
        `version ${version} of update ${filled} came behind ${this.#version} of ${this.#filled}`,
      );
    this.#version = version;
    this.#filled = filled;
  }
  /** The update that the newest version was made by. */
  get newest(): number {
    this.look();
    return this.#filled;
  }
}

export interface SideParts {
  readonly pipeline: ReplayPipeline;
  readonly learner: StormLearner;
  readonly mailbox: WeightMailbox;
  readonly parts: CheckpointParts;
}

/** A checkpoint that saves by itself; only a disk that takes nothing may keep it from doing so. */
export async function saving(
  { folder, wrong, saved, troubled }: SideOptions,
  parts: CheckpointParts,
  every: string,
): Promise<Checkpoint> {
  let checkpoint: Checkpoint | null = null;
  while (checkpoint === null)
    try {
      checkpoint = await Checkpoint.open(folder, { ...parts, every });
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_HOTSLOT_UNAVAILABLE' || !troubled())
        throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  checkpoint.on('saved', ({ tick }) => saved(tick));
  checkpoint.on('error', (error) => {
    const { code } = error as { code?: string };
    if (code !== 'ERR_HOTSLOT_UNAVAILABLE' || !troubled())
      wrong(`a save failed: ${code} ${error.message}`);
  });
  return checkpoint;
}

/**
 * What a folder holds, given to these parts; says the tick behind which it goes on, −1 at the
 * beginning.
 */
export async function goneOn(
  { folder, wrong }: SideOptions,
  { learner, pipeline, mailbox, parts }: SideParts,
): Promise<{ tick: number; collectors: unknown }> {
  const restored = await Checkpoint.restore(folder, { ...parts, learner, pipeline, mailbox });
  const updates = await learner.updates();
  const tick = restored?.tick ?? -1;
  if (updates !== tick + 1) wrong(`restored behind tick ${tick} with ${updates} updates`);
  return { tick, collectors: restored?.collectors };
}

export function scanned(pipeline: ReplayPipeline, wrong: Wrong): TickScan {
  const ticks = new TickScan(wrong);
  pipeline.on('tick', (tick) => ticks.tick(tick as Parameters<TickScan['tick']>[0]));
  pipeline.on('missed', (count) => ticks.miss(count));
  return ticks;
}

export const floats = async (tensor: Tensor): Promise<Float32Array> =>
  (await tensor.toArray()) as Float32Array;

/** Whoever awaits it later hears how it ended; nobody has to. */
export function lookedAt<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

export function nameOf(
  thread: unknown,
  all: Readonly<Record<string, readonly unknown[]>>,
): string | null {
  for (const [name, threads] of Object.entries(all))
    if (threads.includes(thread)) return `${name} ${threads.indexOf(thread)}`;
  return null;
}
