/**
 * The learner's process: a buffer that other machines fill, and the pipeline that learns from it.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { RemoteCollectors, type RemoteStatistics } from '../../src/entries/remote.ts';
import {
  openDevice,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  WeightMailbox,
} from '../../src/index.ts';
import {
  type CollectorOptions,
  ENVIRONMENTS,
  greedyReturn,
  publishedOf,
  type Task,
} from './settings.ts';

export interface TrainingOptions {
  readonly task: Task;
  readonly collector: CollectorOptions;
  readonly server: {
    readonly url: string;
    readonly run: string;
    readonly insecure: boolean;
    readonly ca?: string;
  };
  /** that are expected */
  readonly hosts: number;
  readonly seed: number;
  readonly device: string;
}

export interface Progress {
  readonly seconds: number;
  /** rows that came in, and updates so far */
  readonly steps: number;
  readonly ticks: number;
  readonly remote: RemoteStatistics;
  /** of the last greedy episodes; null before the first */
  readonly meanReturn: number | null;
  /** what the learner waits for, and what rows wait for; null: nothing */
  readonly learnerWaits: string;
  readonly rowsWait: string | null;
}

/**
 * Rows that all hosts may have on the way, in bytes: few, so that what is learned from was acted by
 * weights of a moment ago. Each host has as much again in its outbox.
 */
const TRANSIT_BYTES = 2 ** 16;
export const OUTBOX_BYTES = 2 ** 14;
/** Between two looks at how far it is. */
const LOOK_MS = 20;
const LOOK_EPISODES = 20;
const CONFIRM_EPISODES = 100;

/** Opens everything, has it used, and closes it. */
export async function withTraining<T>(
  options: TrainingOptions,
  use: (training: Training) => Promise<T>,
): Promise<T> {
  const { task, collector, server, hosts, seed, device: name } = options;
  const { samplesPerInsert, sampleCount, obsDim, warmUp } = task;
  using device = openDevice(name);
  using learner = task.learner(device, seed);
  await learner.ready;
  const limiter = RateLimiter.create({
    samplesPerInsert,
    minSize: warmUp,
    gateAdd: true,
    // A tick, and what hosts add in a moment; twice that lets both sides work ahead instead of in
    // turns.
    errorBuffer: 2 * (sampleCount + samplesPerInsert * ENVIRONMENTS * Math.max(1, hosts)),
  });
  using buffer = ReplayBuffer.offPolicy({ capacity: 50_000, obsDim, actionDim: 1, limiter });
  const published = publishedOf(learner);
  const mailbox = WeightMailbox.create({ length: published.size });
  const baseSeed = (seed * 1_000_003) % 2 ** 31;
  await using pipeline = await ReplayPipeline.open({
    buffer,
    device: name,
    sampleCount,
    baseSeed,
    mailbox,
  });
  const update = learner.update.bind(learner) as (...given: unknown[]) => void;
  pipeline.capture((batch, { stream, out }) => update(stream, batch, out), {
    scalars: learner.scalars,
    weights: published,
  });
  await using remote = await RemoteCollectors.open({
    ...server,
    buffer: buffer as never,
    mailbox,
    options: collector,
    seed,
    transitBytes: TRANSIT_BYTES,
    weightsEveryMs: 50,
  });
  return await use(
    new Training(task, seed, { buffer, mailbox, pipeline: pipeline as ReplayPipeline, remote }),
  );
}

interface Parts {
  readonly buffer: { readonly ptr: number };
  readonly mailbox: WeightMailbox;
  readonly pipeline: ReplayPipeline;
  readonly remote: RemoteCollectors;
}

export class Training {
  readonly #task: Task;
  readonly #seed: number;
  readonly #parts: Parts;
  readonly #weights: Float32Array;
  #ticks = 0;
  #looks = 0;
  #meanReturn: number | null = null;
  #begin = performance.now();

  constructor(task: Task, seed: number, parts: Parts) {
    this.#task = task;
    this.#seed = seed;
    this.#parts = parts;
    this.#weights = new Float32Array(parts.mailbox.length);
    parts.pipeline.on('tick', () => {
      this.#ticks++;
    });
  }

  progress(): Progress {
    const { buffer, pipeline, remote } = this.#parts;
    return {
      seconds: (performance.now() - this.#begin) / 1000,
      steps: buffer.ptr,
      ticks: this.#ticks,
      remote: remote.statistics(),
      meanReturn: this.#meanReturn,
      learnerWaits: pipeline.waitingFor(),
      rowsWait: remote.waitingFor(),
    };
  }

  /**
   * Trains until the goal is reached; false: the signal came, or the rows were enough. Rejects with
   * what `failed` does.
   */
  async run(signal: AbortSignal, failed: Promise<never>): Promise<boolean> {
    const { pipeline, remote } = this.#parts;
    this.#begin = performance.now();
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    const running = pipeline.run({
      ticks: Number.MAX_SAFE_INTEGER,
      signal: until,
      publishEvery: 1,
    });
    try {
      return await Promise.race([
        this.#watch(until),
        failed,
        remote.done.then(() => false),
        running.then(() => false),
      ]);
    } finally {
      stop.abort();
      await running.catch(() => {}); // told above
    }
  }

  async #watch(signal: AbortSignal): Promise<boolean> {
    const { every, most, goal } = this.#task;
    const { buffer } = this.#parts;
    for (let due = every; !signal.aborted && buffer.ptr < most; ) {
      if (buffer.ptr >= due) {
        due = (Math.floor(buffer.ptr / every) + 1) * every;
        // Looking often does not flatter the result: others have to say the same.
        if ((await this.#look(LOOK_EPISODES, signal, true)) >= goal)
          if ((await this.#look(CONFIRM_EPISODES, signal, false)) >= goal) return true;
      }
      await wait(LOOK_MS, undefined, { signal }).catch(() => {});
    }
    return false;
  }

  async #look(episodes: number, signal: AbortSignal, newest: boolean): Promise<number> {
    const { mailbox } = this.#parts;
    if (mailbox.published === 0 || signal.aborted) return Number.NEGATIVE_INFINITY;
    if (newest) mailbox.read(this.#weights, 0);
    const found = await greedyReturn(
      this.#task,
      this.#weights,
      episodes,
      this.#seed + ++this.#looks,
    );
    this.#meanReturn = found;
    return found;
  }
}
