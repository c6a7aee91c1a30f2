/**
 * Collecting and learning in turns, in this one thread: settings and ratio are those of the free run, but draws, rows and
 * versions of the weights come in the same order each time, so equal seeds give equal bits.
 */
import { type CollectorContext, ReplayBuffer } from '../../src/index.ts';
import { CartPoleCollector } from './collector.ts';
import { LaneCollector } from './lane-collector.ts';
import type { Parts } from './parts.ts';
import type { Settings } from './settings.ts';
import type { Collected, Ended, Training } from './training.ts';

/** Ticks between two turns of the collector. */
const ROUND = 8;
/** Rounds between two looks at the weights. */
const LOOK_EVERY = 10;
const RECENT = 100;

export async function runLockStep(training: Training, { signal }: AbortController): Promise<Ended> {
  const { parts, options } = training;
  const { buffer, mailbox, pipeline } = parts;
  const { settings, seed, maxTicks } = options;
  const { batchSize, minibatches, samplesPerInsert, environments, warmUp } = settings;
  const report = new Report();
  training.collected = () => report.read();
  using collector = collectorOf(buffer, {
    worker: 0,
    workers: 1,
    seed,
    restarts: 0,
    stepsBefore: 0,
    options: settings,
    writer: null,
    fields: {},
    report,
  });
  const weights = new Float32Array(mailbox.length);
  const turns = Math.max(1, Math.round((ROUND * batchSize * minibatches) / (samplesPerInsert * environments)));
  const collect = (times: number) => {
    for (let i = 0; i < times; i++) collector.add();
  };
  collect(Math.ceil(warmUp / environments));
  let ticks = 0;
  for (let round = 1; ticks < maxTicks && !signal.aborted; round++) {
    training.anneal();
    const due = Math.min(ROUND, maxTicks - ticks);
    // One publication, behind the round's last tick: which version the collector sees must not depend on time.
    const summary = await pipeline.run({ ticks: due, publishEvery: due });
    ticks += summary.ticks;
    const version = mailbox.read(weights);
    if (version > 0) collector.load(weights);
    collect(turns);
    if (round % LOOK_EVERY !== 0) continue;
    const solvedReturn = await training.look();
    if (solvedReturn !== null) return { solvedReturn, stages: null };
  }
  return { solvedReturn: null, stages: null };
}

/** What the pool does in a thread. */
function collectorOf(buffer: Parts['buffer'], context: CollectorContext<Settings>) {
  if (buffer instanceof ReplayBuffer) {
    const collector = new CartPoleCollector(context);
    const add = () => buffer.add(collector.collect());
    return { add, load: (weights: Float32Array) => collector.load(weights), [Symbol.dispose]: () => {} };
  }
  const collector = new LaneCollector(context);
  const writer = buffer.writer();
  const add = () => writer.add(collector.collect());
  return { add, load: (weights: Float32Array) => collector.load(weights), [Symbol.dispose]: () => writer.close() };
}

/** What the pool keeps in shared memory, for a collector in this thread. */
class Report {
  #steps = 0;
  #episodes = 0;
  readonly #recent: number[] = [];

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
