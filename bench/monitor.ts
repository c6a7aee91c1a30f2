/**
 * Measures what the monitor's live page costs: CPU time per tick of a pipeline's threads. Compares,
 * in turn, a client in another process, a monitor without a client, and no monitor. The counted
 * threads are those that the pipeline and its first run start.
 */
import { fork } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { DqnLearner } from '../src/entries/learner.ts';
import { type Monitor, serveMonitor } from '../src/entries/monitor.ts';
import { openDevice, ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import { type Benchmark, middle } from './harness.ts';

const threads = () => readdirSync('/proc/self/task');
/**
 * Returns milliseconds that the thread has run, to the nanosecond. The user and system times of
 * /proc would only have steps of 10 ms.
 */
const onCore = (thread: string) =>
  Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

const BATCH = 64;

export const run: Benchmark = async (report, { device: name, quick }) => {
  const before = new Set(threads());
  const n = 10_000;
  const column = (width: number) => Float32Array.from({ length: n * width }, Math.random);
  const buffer = ReplayBuffer.offPolicy({ capacity: n, obsDim: 4, actionDim: 1 });
  const none = new Float32Array(n);
  buffer.add({
    obs: column(4),
    nextObs: column(4),
    actions: none,
    rewards: column(1),
    dones: none,
    truncated: none,
  });
  using device = openDevice(name);
  using learner = new DqnLearner(device, {
    obsDim: 4,
    actions: 2,
    hidden: [64, 64],
    batchSize: BATCH,
  });
  await learner.ready;
  await using pipeline = await ReplayPipeline.open({ buffer, device: name, sampleCount: BATCH });
  pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
    scalars: learner.scalars,
  });
  await pipeline.run({ ticks: 500 });
  // Ticks for a run that is long enough for several messages to a client.
  const ticks = (await pipeline.run({ ticks: 10_000 })).ticksPerSecond * (quick ? 0.3 : 1.5);
  const own = threads().filter((thread) => !before.has(thread));
  const client = fork(new URL('./monitor-client.js', import.meta.url));

  const perTick = async (): Promise<number> => {
    const begin = own.map(onCore);
    const { ticks: done } = await pipeline.run({ ticks: Math.ceil(ticks) });
    return (
      (own.reduce((sum, thread, i) => sum + onCore(thread) - (begin[i] as number), 0) / done) * 1000
    );
  };
  const has = async (monitor: Monitor, clients: number) => {
    while (monitor.clients !== clients) await new Promise(setImmediate);
  };
  const contenders = {
    'no monitor': perTick,
    'nobody looks': async () => {
      await using _ = await serveMonitor({ pipeline });
      return await perTick();
    },
    'a client': async () => {
      await using monitor = await serveMonitor({ pipeline });
      client.send(monitor.url);
      await has(monitor, 1);
      const value = await perTick();
      client.send(null as never);
      await has(monitor, 0);
      return value;
    },
  };
  const names = Object.keys(contenders) as (keyof typeof contenders)[];
  const rounds = quick ? 3 : 20;
  const all: Record<keyof typeof contenders, number[]> = {
    'no monitor': [],
    'nobody looks': [],
    'a client': [],
  };
  // The times of the first round are dropped. The order of the contenders changes from round to
  // round.
  for (let round = -1; round < rounds; round++)
    for (let i = 0; i < names.length; i++) {
      const which = names[(round + 1 + i) % names.length] as keyof typeof contenders;
      const value = await contenders[which]();
      if (round >= 0) all[which].push(value);
    }
  client.disconnect();
  buffer.close();
  const text = `DQN of a batch of ${BATCH}, ${own.length} threads`;
  for (const which of names)
    report({
      case: `${text}, ${which}`,
      metric: 'CPU time a tick',
      ...middle(all[which]),
      unit: 'µs',
    });
  for (const which of names.slice(1)) {
    const more = all[which].map((value, i) => 100 * (value / (all['no monitor'][i] as number) - 1));
    report({
      case: `${text}, ${which}`,
      metric: 'more than no monitor',
      ...middle(more),
      unit: '%',
    });
  }
};
