/**
 * The operations that the leak tests repeat in one process, either on objects that stay open or on
 * objects of their own, which they close.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { train } from '../../src/entries/collect.ts';
import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import {
  Checkpoint,
  CollectorPool,
  openDevice,
  type Placement,
  ReplayBuffer,
  type ReplayPipeline,
  WeightMailbox,
} from '../../src/index.ts';
import { change, make, manualTick } from '../checkpoint/rig.ts';
import { Closing } from '../faults/closing.ts';
import { parts } from '../faults/parts.ts';
import { counting, endAll, raw, served } from '../monitor/serving.ts';
import { counter, pipeline, SAMPLE, SPREAD } from '../pipeline/fixture.ts';
import { fastFolder } from '../rig/fast-folder.ts';
import { TESTED } from '../rig/tested-device.ts';
import { comeAndGo, messages } from './remote.ts';

export interface Opened {
  once(i: number): unknown;
  close(): unknown;
}
export interface Operation {
  /** duration relative to the quickest operations */
  weight: number;
  /** whether each repetition opens and closes all that it needs */
  opens?: true;
  /** memory that the operation keeps on purpose, which the test must find */
  keeps?: 'native memory' | 'the heap';
  /** whether it needs a Redis or Valkey server */
  server?: true;
  /** whether only the longest runs have it */
  long?: true;
  open(): Opened | Promise<Opened>;
}
type Options = NonNullable<Parameters<typeof pipeline>[0]>;

/** Returns an operation on a pipeline that stays open. */
const onOne = (
  options: Options,
  once: (made: ReplayPipeline, i: number) => unknown,
  more: Partial<Operation> = {},
): Operation => ({
  weight: 1,
  ...more,
  async open() {
    const made = await pipeline(options);
    const count = counter(made);
    return {
      once: (i) => once(made, i),
      async close() {
        await made.close();
        count.close();
      },
    };
  },
});
const run = (made: ReplayPipeline) => made.run({ ticks: 2 });
const manual = async (made: ReplayPipeline, tick: number) => {
  await made.sampleLargeBatch(tick, SAMPLE);
  made.afterTick();
};
const capture = async (made: ReplayPipeline) => {
  counter(made).close();
  await made.run({ ticks: 1 });
};
/** A signal that outlives everything that gets it. */
const lasting = new AbortController();
const signalled = async (made: ReplayPipeline, tick: number) => {
  await made.sampleLargeBatch(tick, SAMPLE, { signal: lasting.signal });
  made.afterTick();
  await made.run({ ticks: 1, signal: lasting.signal });
};
/** Waits for a batch that cannot arrive, until the wait is aborted. */
const inVain = async (made: ReplayPipeline) => {
  made.startPrepare(0, SAMPLE, 1e9);
  const enough = new AbortController();
  setImmediate(() => enough.abort());
  const ended = await made
    .waitUntilReady(0, SAMPLE, { signal: enough.signal })
    .catch(({ name }: Error) => name);
  if (ended !== 'AbortError') throw new Error(`the wait ended with ${ended}`);
};

/** Runs that publish the learner's weights to a mailbox, which is then read. */
async function published(): Promise<Opened> {
  const mailbox = WeightMailbox.create({ length: 1 });
  const made = await pipeline({ mailbox, placement: 'auto' });
  const weights = openDevice(TESTED).allocate({ shape: [1] });
  made.capture((_, { stream }) => stream.fill(weights, 1), { weights });
  const read = new Float32Array(1);
  return {
    async once() {
      await made.run({ ticks: 2, publishEvery: 1 });
      mailbox.read(read);
    },
    async close() {
      await made.close();
      weights.close();
    },
  };
}

/** Runs whose ticks are consumed by a listener and by an iterator. */
async function heard(): Promise<Opened> {
  const made = await pipeline({ placement: 'auto' });
  const count = counter(made);
  made.on('tick', () => {});
  return {
    async once() {
      const ticks = made.ticks();
      await made.run({ ticks: 2 });
      await ticks.next();
      await ticks.return?.();
    },
    async close() {
      await made.close();
      count.close();
    },
  };
}

/** Two learners that average their parameters. */
async function averaged(): Promise<Opened> {
  const shared = shareLearnerGroup({ ranks: 2, parameters: 100 });
  const groups = await Promise.all([0, 1].map((rank) => LearnerGroup.join({ shared, rank })));
  return {
    once: () => Promise.all(groups.map((group) => group.average(new Float32Array(100)))),
    close: () => groups.forEach((group) => void group.close()),
  };
}

/** Saves of a training that continues. */
async function saved(kind: 'rows' | 'steps'): Promise<Opened> {
  const folder = mkdtempSync(join(fastFolder(), 'hotslot-leaks-'));
  const training = await make(kind);
  const checkpoint = await Checkpoint.open(folder, training.parts);
  return {
    async once(i) {
      if (kind === 'rows') {
        training.add(10);
        training.learner.update();
        await manualTick(training, i);
      } else await change(training, 1 + (i % 4));
      await checkpoint.save();
    },
    async close() {
      await checkpoint.close();
      await training.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function asked(path: string): Promise<Opened> {
  const { port } = await served({ pipeline: await counting() });
  const text = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`;
  return { once: () => raw(port, text), close: endAll };
}

const pools: Opened = {
  async once() {
    const buffer = ReplayBuffer.create({ capacity: 4096, fields: { value: { shape: [2] } } });
    const entry = new URL('../collectors/plain-collector.js', import.meta.url);
    const pool = await CollectorPool.open({ entry, buffer, options: { calm: true }, workers: 2 });
    await pool.close();
  },
  close() {},
};

const trainings: Opened = {
  once: () =>
    train({
      environment: new URL('../collect/target.js', import.meta.url),
      learner: { algorithm: 'dqn', hidden: [8], batchSize: 8 },
      device: TESTED,
      environments: 2,
      environmentOptions: { discrete: true },
      steps: 300,
      warmUp: 100,
      evaluation: { every: 100, episodes: 2 },
    }),
  close() {},
};

/** A client that watches the page for a moment. */
async function watched(): Promise<Opened> {
  const { port } = await served({ pipeline: await counting() });
  return {
    async once() {
      const socket = connect(port, '127.0.0.1');
      socket.write(`GET /events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      while (!String((await once(socket, 'data'))[0]).includes('data: ')) {}
      socket.destroy();
      await once(socket, 'close');
    },
    close: endAll,
  };
}

function tensors(): Opened {
  const device = openDevice(TESTED);
  return {
    async once() {
      const made = device.allocate({ shape: [100] });
      made.write(new Float32Array(100));
      await made.toArray();
      made.close();
    },
    close: () => device.close(),
  };
}

const placements: Readonly<Record<string, Placement>> = {
  auto: 'auto',
  inline: 'inline',
  spread: SPREAD as unknown as Placement,
};
const keptRows = { rows: 'device', transfer: undefined, placement: 'auto' } as unknown as Options;

/** Keeps a kilobyte at each repetition, which the other operations must not do. */
function keeping(make: () => ArrayLike<number>): Opened {
  const kept: ArrayLike<number>[] = [];
  return { once: () => kept.push(make()), close: () => kept.splice(0) };
}
const outside = () => new Float64Array(128);
const inside = () => Array.from({ length: 128 }, Math.random);

export const operations: Record<string, Operation> = {
  'what keeps native memory': { weight: 1, keeps: 'native memory', open: () => keeping(outside) },
  'what keeps objects': { weight: 1, keeps: 'the heap', open: () => keeping(inside) },
  ...Object.fromEntries(
    Object.entries(placements).flatMap(([name, placement]) => [
      [`run ${name}`, onOne({ placement }, run)],
      [`tick ${name}`, onOne({ placement }, manual)],
      [`capture ${name}`, onOne({ placement }, capture, { weight: 2 })],
    ]),
  ),
  'run of rows on the device': onOne(keptRows, run),
  'tick of rows on the device': onOne(keptRows, manual),
  'ticks with a signal': onOne({ placement: 'auto' }, (made, i) => signalled(made, 2 * i)),
  'a wait that is aborted': onOne({ placement: 'auto' }, inVain),
  'a run that publishes': { weight: 1, open: published },
  'a run that is heard': { weight: 1, open: heard },
  'a mean': { weight: 1, open: averaged },
  'a save of rows': { weight: 10, open: () => saved('rows') },
  'a save of steps': { weight: 10, open: () => saved('steps') },
  'metrics asked for': { weight: 2, open: () => asked('/metrics') },
  'a page asked for': { weight: 2, open: () => asked('/') },
  'a page looked at': { weight: 5, open: watched },
  'a tensor': { weight: 1, open: tensors },
  'messages of a host': { weight: 10, server: true, open: messages },
  'a host that comes and goes': { weight: 50, opens: true, server: true, open: comeAndGo },
  'a training': { weight: 100, opens: true, long: true, open: () => trainings },
  'a pool': { weight: 50, opens: true, open: () => pools },
};

/** Whole parts of trainings. Other tests count what is left if one of their calls fails. */
for (const [name, part] of Object.entries(parts)) {
  const weight = name.endsWith('Threads')
    ? 100
    : name.endsWith('Saved') || name === 'largeBatch'
      ? 20
      : 5;
  const open = () => {
    const folder = mkdtempSync(join(fastFolder(), 'hotslot-leaks-'));
    return {
      async once() {
        const closing = new Closing();
        await part(closing, mkdtempSync(join(folder, 'one-')));
        await closing.all();
      },
      close: () => rmSync(folder, { recursive: true }),
    };
  };
  operations[`part ${name}`] = { weight, opens: true, long: true, open };
}
