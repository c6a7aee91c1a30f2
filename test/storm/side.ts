/**
 * What the two sides of a storm's world share: a pipeline over a buffer that others write, a
 * checkpoint, and an oracle.
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

/** Number of rows of a batch. */
export const ROWS = 64;

/** A thread that the storm may end. */
export type StormThread = Pick<StartedThread, 'terminate'>;

export interface SideOptions {
  readonly device: Device;
  readonly folder: string;
  readonly placement: Placement;
  readonly rows: RowsKept;
  readonly wrong: Wrong;
  /** called when a checkpoint is on the disk, with its tick */
  readonly saved: (tick: number) => void;
  /** whether a fault of the disk or driver may explain a failed save */
  readonly troubled: () => boolean;
}

/** Number of allowed restarts, more than a storm ever ends threads. */
export const RESTARTS = 1e9;

/**
 * Checks the weights of a mailbox: they are never torn, and never older than the weights before.
 */
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
  /** Number of the update that made the newest version. */
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

/**
 * Opens a checkpoint that saves at intervals. A failed open or save is an error unless a disk fault
 * explains it.
 */
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
 * Restores a folder's checkpoint into these parts. Returns the tick after which the run continues,
 * or −1 if there is no checkpoint.
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

/**
 * Marks the promise's rejection as handled. Code that awaits the promise later still gets the
 * error.
 */
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
