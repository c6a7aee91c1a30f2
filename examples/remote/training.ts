/** The learner's process. Other machines fill its buffer, and its pipeline learns from it. */
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
  /** number of hosts that are expected */
  readonly hosts: number;
  readonly seed: number;
  readonly device: string;
}

export interface Progress {
  readonly seconds: number;
  /** number of rows received. `ticks` is the number of ticks done */
  readonly steps: number;
  readonly ticks: number;
  readonly remote: RemoteStatistics;
  /** mean return of the last evaluation, or null before the first */
  readonly meanReturn: number | null;
  /**
   * what the learner waits for. `rowsWait` is what rows wait for, or null if they wait for nothing
   */
  readonly learnerWaits: string;
  readonly rowsWait: string | null;
}

/**
 * Bytes of rows that all hosts together may have in transit. The limit is low so that rows come
 * from recent weights. Each host may have more rows in its outbox, at most OUTBOX_BYTES.
 */
const TRANSIT_BYTES = 2 ** 16;
export const OUTBOX_BYTES = 2 ** 14;
/** Time between two checks of the progress. */
const LOOK_MS = 20;
const LOOK_EPISODES = 20;
const CONFIRM_EPISODES = 100;

/** Opens all parts, calls `use`, and closes the parts. */
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
    // The minimum is a tick plus what the hosts add in a moment. Twice as much lets both sides work
    // ahead instead of in turns.
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
   * Trains until the goal is reached, and returns true. Returns false if the signal aborts or the
   * maximum of rows is reached. Rejects if `failed` does.
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
      await running.catch(() => {}); // the await above throws this error
    }
  }

  async #watch(signal: AbortSignal): Promise<boolean> {
    const { every, most, goal } = this.#task;
    const { buffer } = this.#parts;
    for (let due = every; !signal.aborted && buffer.ptr < most; ) {
      if (buffer.ptr >= due) {
        due = (Math.floor(buffer.ptr / every) + 1) * every;
        // Frequent evaluation does not improve the result by chance, because more episodes must
        // confirm it.
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
