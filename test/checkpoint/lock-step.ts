/**
 * A program that trains the CartPole example's parts in one thread, collecting and learning in
 * turns. Its collector saves the poles, so a killed and resumed run ends bit for bit like an
 * uninterrupted one. killed.ts starts it.
 */
import { createHash } from 'node:crypto';
import { parseArgs } from 'node:util';
import { CartPoleCollector } from '../../examples/cartpole-dqn/collector.ts';
import { LaneCollector } from '../../examples/cartpole-dqn/lane-collector.ts';
import { openParts, type Parts } from '../../examples/cartpole-dqn/parts.ts';
import { betaAfter, defaults, type Settings } from '../../examples/cartpole-dqn/settings.ts';
import { Checkpoint, type CollectorContext, ReplayBuffer } from '../../src/index.ts';

/** Number of ticks between two turns of the collector. */
const ROUND = 8;

/** Counts of the collector. A checkpoint contains them. */
interface Counts {
  /** rounds for which it has collected */
  rounds: number;
  steps: number;
  episodes: number;
}

const { values } = parseArgs({
  options: {
    device: { type: 'string', default: 'host:0' },
    replay: { type: 'string', default: 'uniform' },
    'n-step': { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    ticks: { type: 'string', default: 'Infinity' },
    resume: { type: 'string' },
    every: { type: 'string', default: '60 s' },
  },
});
const { replay, device, resume, every } = values;
const [ticks, seed] = [Number(values.ticks), Number(values.seed)];
// The buffer never fills. A save of a full buffer may have newer rows than the moment of the save.
const capacity = 200_000;
const settings = { ...defaults, capacity, replay, nStep: Number(values['n-step']) } as Settings;
const { batchSize, minibatches, samplesPerInsert, environments, warmUp } = settings;

const common = { seed, device, settings, placement: 'inline', trace: undefined } as const;
await using parts = await openParts({ ...common, limited: false });
const { buffer, learner, pipeline, mailbox } = parts;
const kept = { buffer, learner, pipeline, mailbox };
const restored = resume === undefined ? null : await Checkpoint.restore(resume, kept);
const counts = (restored?.extra as Counts | undefined) ?? { rounds: 0, steps: 0, episodes: 0 };
const firstTick = (restored?.tick ?? -1) + 1;
let loss = Number.NaN;
pipeline.on('tick', ({ scalars }) => {
  loss = scalars.loss ?? loss;
});
const collector = collectorOf(buffer, {
  worker: 0,
  workers: 1,
  seed,
  restarts: 0,
  stepsBefore: counts.steps,
  state: restored?.collectors,
  options: settings,
  writer: null,
  fields: {},
  report: {
    steps: (count) => {
      counts.steps += count;
    },
    episode: () => {
      counts.episodes++;
    },
  },
});
const turns = Math.round((ROUND * batchSize * minibatches) / (samplesPerInsert * environments));
const collect = (times: number) => {
  for (let i = 0; i < times; i++) collector.add();
};
if (!restored) collect(Math.ceil(warmUp / environments));
const checkpoint =
  resume === undefined
    ? null
    : await Checkpoint.open(resume, {
        ...kept,
        collectors: collector,
        extra: () => ({ ...counts }),
        every,
      });
const weights = new Float32Array(mailbox.length);
for (let done = firstTick; ; ) {
  // A save may happen between any two of these steps. A resumed run does the missing ones.
  const rounds = Math.floor(done / ROUND);
  if (counts.rounds < rounds) {
    if (mailbox.read(weights) > 0) collector.load(weights);
    collect(turns);
    counts.rounds = rounds;
  }
  if (done >= ticks) break;
  if (replay === 'prioritized') pipeline.setBeta(betaAfter(counts.steps, settings));
  const due = Math.min(ROUND - (done % ROUND), ticks - done);
  // Publishes once, after the last tick of the round, so that timing does not decide which version
  // the collector reads.
  done += (await pipeline.run({ ticks: due, publishEvery: due })).ticks;
  // Saves and their file operations go on meanwhile, so that a save covers few ticks.
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
}
await checkpoint?.save();
await checkpoint?.close();
collector.close();
const published = new Float32Array(mailbox.length);
mailbox.read(published);
const hash = createHash('sha256').update(published).digest('hex').slice(0, 16);
const { steps, episodes } = counts;
console.log(JSON.stringify({ ticks, firstTick, weights: hash, steps, episodes, loss }));

/** Returns an object that collects in this thread, as a pool does in its threads. */
function collectorOf(into: Parts['buffer'], context: CollectorContext<Settings>) {
  const rows = into instanceof ReplayBuffer;
  const made = rows ? new CartPoleCollector(context) : new LaneCollector(context);
  // After a resume, the poles are in the middle of their episodes.
  const writer = rows ? null : into.writer({ resume: context.state !== undefined });
  return {
    add: () => (rows ? into : writer!).add(made.collect() as never),
    load: (newer: Float32Array) => made.load(newer),
    state: () => made.state(),
    loadState: () => {},
    close: () => writer?.close(),
  };
}
