/**
 * Collects and learns in turns, in this one thread. Settings and ratio are those of the free run.
 * Draws, rows and weight versions come in the same order each time, so equal seeds give equal bits.
 */
import { type CollectorContext, ReplayBuffer } from '../../src/index.ts';
import { CartPoleCollector } from './collector.ts';
import { LaneCollector } from './lane-collector.ts';
import type { Parts } from './parts.ts';
import type { Settings } from './settings.ts';
import type { Collected, Ended, Training } from './training.ts';

/** Number of ticks between two turns of the collector. */
const ROUND = 8;
/** Number of rounds between two evaluations of the weights. */
const LOOK_EVERY = 10;
const RECENT = 100;

/** Work done between rounds, and the counts of the report. A checkpoint contains these values. */
interface Turns {
  collected: number;
  looked: number;
  /** confirmed mean return of a run that is over, otherwise null */
  solved: number | null;
  report: Counted;
}

export async function runLockStep(training: Training, { signal }: AbortController): Promise<Ended> {
  const { parts, options, restored } = training;
  const { buffer, mailbox, pipeline } = parts;
  const { settings, seed, maxTicks } = options;
  const { batchSize, minibatches, samplesPerInsert, environments, warmUp } = settings;
  const before = training.driver as Turns | null;
  const report = new Report(before?.report);
  training.collected = () => report.read();
  using collector = collectorOf(buffer, {
    worker: 0,
    workers: 1,
    seed,
    restarts: 0,
    stepsBefore: 0,
    state: restored?.collectors,
    options: settings,
    writer: null,
    fields: {},
    report,
  });
  const weights = new Float32Array(mailbox.length);
  const turns = Math.max(
    1,
    Math.round((ROUND * batchSize * minibatches) / (samplesPerInsert * environments)),
  );
  const collect = (times: number) => {
    for (let i = 0; i < times; i++) collector.add();
  };
  if (!before) collect(Math.ceil(warmUp / environments));
  // A save may happen at any tick and between any two of these steps. `done` counts the finished
  // steps. A resumed run then does the missing ones.
  const done = {
    collected: before?.collected ?? 0,
    looked: before?.looked ?? 0,
    solved: before?.solved ?? null,
  };
  await training.keep(collector, () => ({ ...done, report: report.counted() }));
  for (let ticks = training.firstTick; ; ) {
    const rounds = Math.floor(ticks / ROUND);
    if (done.collected < rounds) {
      if (mailbox.read(weights) > 0) collector.load(weights);
      collect(turns);
      done.collected = rounds;
    }
    if (done.looked < rounds) {
      const solvedReturn = rounds % LOOK_EVERY === 0 ? await training.look() : null;
      done.looked = rounds;
      done.solved = solvedReturn;
    }
    if (done.solved !== null || ticks >= maxTicks || signal.aborted) break;
    training.anneal();
    const due = Math.min(ROUND - (ticks % ROUND), maxTicks - ticks);
    // Publishes once, after the last tick of the round, so that timing does not decide which
    // version the collector reads.
    ticks += (await pipeline.run({ ticks: due, publishEvery: due })).ticks;
  }
  await training.keepLast();
  return { solvedReturn: done.solved, stages: null };
}

/** Returns an object that collects in this thread, as the pool does in its threads. */
function collectorOf(buffer: Parts['buffer'], context: CollectorContext<Settings>) {
  if (buffer instanceof ReplayBuffer) {
    const collector = new CartPoleCollector(context);
    return driven(collector, () => buffer.add(collector.collect()));
  }
  const collector = new LaneCollector(context);
  // After a resume, the poles are in the middle of their episodes.
  const writer = buffer.writer({ resume: context.state !== undefined });
  return driven(
    collector,
    () => writer.add(collector.collect()),
    () => writer.close(),
  );
}

const driven = (
  collector: CartPoleCollector | LaneCollector,
  add: () => number,
  close = () => {},
) => ({
  add,
  load: (weights: Float32Array) => collector.load(weights),
  state: () => collector.state(),
  loadState: () => {},
  [Symbol.dispose]: close,
});

interface Counted {
  steps: number;
  episodes: number;
  recent: readonly number[];
}

/**
 * Counts steps and episodes for a collector in this thread. A pool counts them in shared memory.
 */
class Report {
  #steps: number;
  #episodes: number;
  readonly #recent: number[];

  constructor({ steps, episodes, recent }: Counted = { steps: 0, episodes: 0, recent: [] }) {
    this.#steps = steps;
    this.#episodes = episodes;
    this.#recent = [...recent];
  }
  counted(): Counted {
    return { steps: this.#steps, episodes: this.#episodes, recent: [...this.#recent] };
  }

  steps(count: number): void {
    this.#steps += count;
  }
  episode(episodeReturn: number): void {
    this.#recent[this.#episodes++ % RECENT] = episodeReturn;
  }
  read(): Collected {
    const sum = this.#recent.reduce((total, one) => total + one, 0);
    const meanReturn = this.#recent.length > 0 ? sum / this.#recent.length : Number.NaN;
    return { steps: this.#steps, episodes: this.#episodes, meanReturn };
  }
}
