/**
 * Measures collectors on other machines, over a server on this machine. Reports rows per second and
 * their delay, the cost for a learner's ticks, and the time to resume after the server was killed.
 * Compares with the server's own client. Needs redis-server or valkey-server.
 */
import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { DqnLearner } from '../src/entries/learner.ts';
import {
  openDevice,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  WeightMailbox,
} from '../src/index.ts';
import { startServer, type TestServer } from '../test/remote/server.ts';
import { type Benchmark, beside, median, middle, percentile, type Report } from './harness.ts';
import { monotonic } from './remote-clock.ts';
import { garbage } from './remote-ingest.ts';
import {
  Child,
  type Line,
  learnerOf,
  ourLine,
  plainLine,
  type Span,
  spanOf,
} from './remote-rig.ts';
import type { SwarmSays, SwarmTask } from './remote-swarm.ts';

const MB = 1e6;
/** the longest time that a host waits for more rows, which is the default of `flushMs` */
const FLUSH_MS = 20;
const STEADY = 100 * MB;
const UNLIMITED = Number.POSITIVE_INFINITY;

const rowsOf = (capacity: number, floats: number) =>
  ReplayBuffer.create({
    capacity,
    fields: { row: { shape: [floats] } },
  }) as unknown as ReplayBuffer;

interface Speed {
  readonly name: string;
  readonly floats: number;
  readonly flushBytes: number;
  /** least MB per second, and least millions of rows per second if there is that goal */
  readonly least: number;
  readonly leastRows?: number;
}
const small: Speed = {
  name: '172 B rows, 255 KiB messages',
  floats: 43,
  flushBytes: 255 * 1024,
  least: 430,
  leastRows: 2.5,
};
const large: Speed = {
  name: '1720 B rows, 1 MiB messages',
  floats: 430,
  flushBytes: 2 ** 20,
  least: 430,
};

/**
 * Measures the highest rate, in turn with the server's own client, and the CPU time of each
 * process.
 */
async function speed(
  report: Report,
  quick: boolean,
  { name, floats, flushBytes, least, leastRows }: Speed,
  tls = false,
) {
  const server = await startServer({ tls });
  const buffer = rowsOf(Math.floor(2 ** 27 / (floats * 4)), floats);
  const ours = await ourLine({ server, buffer, flushBytes, run: 'speed' });
  const plain = await plainLine(server, flushBytes);
  const spans = { ours: [] as Span[], plain: [] as Span[] };
  for (let round = -1; round < (quick ? 1 : 5); round++)
    for (const [which, line] of Object.entries({ ours, plain })) {
      const span = await spanOf(line, UNLIMITED, quick ? 500 : 1500);
      await line.pace(0);
      if (round >= 0) spans[which as keyof typeof spans].push(span);
    }
  const perByte = (all: Span[]) => all.map(({ bytes, seconds }) => seconds / bytes);
  const [us, them] = [perByte(spans.ours), perByte(spans.plain)];
  const what = `${name}${tls ? ', TLS' : ''}`;
  report({
    case: `${what}; broker alone`,
    metric: 'committed',
    ...beside(us, them, (time) => 1 / time / MB),
    unit: 'MB/s',
    goal: { least },
  });
  report({
    case: what,
    metric: 'rows',
    ...middle(us, (time) => 1 / time / floats / 4e6),
    unit: 'M/s',
    ...(leastRows !== undefined && { goal: { least: leastRows } }),
  });
  for (const who of ['server', 'reader', 'writer'] as const) {
    const cost = (all: Span[]) => all.map((span) => span[who] / (span.bytes / 1e9));
    const title = { server: 'server', reader: 'learner', writer: 'host with its collector' }[who];
    report({
      case: `${what}: ${title}; broker alone`,
      metric: 'processor per GB',
      ...beside(cost(spans.ours), cost(spans.plain)),
      unit: 's',
    });
  }
  await ours.close();
  await plain.close();
  buffer.close();
  await server.stop();
  return 1 / median(us) / MB;
}

/** Measures the delay of rows at a steady pace. */
async function lateness(report: Report, quick: boolean): Promise<void> {
  const server = await startServer();
  const buffer = rowsOf(500_000, small.floats);
  const ours = await ourLine({
    server,
    buffer,
    flushBytes: small.flushBytes,
    run: 'late',
    watched: true,
  });
  const plain = await plainLine(server, small.flushBytes);
  const found = { ours: [[], []] as [number[], number[]], plain: [[], []] as [number[], number[]] };
  const rates: number[] = [];
  for (let round = -1; round < (quick ? 1 : 5); round++)
    for (const [which, line] of Object.entries({ ours, plain }) as ['ours' | 'plain', Line][]) {
      const { bytes, seconds } = await spanOf(line, STEADY, quick ? 700 : 2000);
      const lags = await line.lags();
      await line.pace(0);
      if (round < 0) continue;
      if (which === 'ours') rates.push(bytes / seconds / MB);
      found[which][0].push(percentile(lags, 0.5));
      found[which][1].push(percentile(lags, 0.99));
    }
  const name = `${Math.round(median(rates))} MB/s, 172 B rows`;
  for (const [i, metric, most] of [
    [0, 'p50', 2 + FLUSH_MS],
    [1, 'p99', 25],
  ] as const)
    report({
      case: `${name}; broker alone, of messages`,
      metric: `to committed, ${metric}`,
      ...beside(found.ours[i], found.plain[i]),
      unit: 'ms',
      goal: { most },
    });
  await ours.close();
  await plain.close();
  buffer.close();
  await server.stop();
}

/** Compares the ticks of a small DQN while rows arrive with its ticks while none arrive. */
async function ticks(report: Report, quick: boolean): Promise<void> {
  const server = await startServer();
  const batchSize = 128;
  const buffer = ReplayBuffer.offPolicy({
    capacity: 500_000,
    obsDim: 20,
    actionDim: 1,
  }) as unknown as ReplayBuffer;
  const ours = await ourLine({ server, buffer, flushBytes: small.flushBytes, run: 'ticks' });
  await spanOf(ours, STEADY, 300);
  const device = openDevice('host:0');
  using learner = new DqnLearner(device, {
    obsDim: 20,
    actions: 2,
    hidden: [120, 84],
    batchSize,
    seed: 1,
  });
  await learner.ready;
  const rates = { arriving: [] as number[], alone: [] as number[] };
  {
    await using pipeline = await ReplayPipeline.open({
      buffer,
      device: 'host:0',
      sampleCount: batchSize,
    });
    pipeline.capture((batch, { stream, out }) => learner.update(stream, batch as never, out));
    const count = quick ? 1500 : 6000;
    await pipeline.run({ ticks: 500 });
    for (let round = -1; round < (quick ? 1 : 5); round++)
      for (const [which, pace] of [
        ['arriving', STEADY],
        ['alone', 0],
      ] as const) {
        await ours.pace(pace);
        await wait(200);
        const { ticksPerSecond } = await pipeline.run({ ticks: count });
        if (round >= 0) rates[which].push(1 / ticksPerSecond);
      }
  }
  report({
    case: 'DQN 20-120-84-2 while 100 MB/s arrive; while none do',
    metric: 'ticks per second',
    ...beside(rates.arriving, rates.alone, (time) => 1 / time),
    unit: '1/s',
    goal: { ratio: 0.8 },
  });
  await ours.close();
  buffer.close();
  await server.stop();
}

const swarm = (server: TestServer, given: Omit<SwarmTask, 'url'>) =>
  Child.open('remote-swarm', { url: server.url, ...given });

/** Kills the server and starts it empty. Measures the time until rows arrive again. */
async function restarts(report: Report, hosts: number, times: number, most: number): Promise<void> {
  const server = await startServer();
  const buffer = rowsOf(100_000, small.floats);
  const remote = await learnerOf(server, { run: 'again', buffer });
  const all = await swarm(server, { run: 'again', hosts, flushBytes: 2 ** 15, everyMs: 200 });
  const found = { first: [] as number[], all: [] as number[] };
  for (let i = 0; i < times; i++) {
    // A host whose connection was less than a second old waits longer before it connects again.
    await wait(1200 + 500 * Math.random());
    await server.kill();
    const done = all.answer<Exclude<SwarmSays, 'ready' | { weights: number }>>();
    all.tell('mark');
    await server.start();
    const begin = monotonic();
    const told = await done;
    found.first.push(told.first - begin);
    found.all.push(told.all - begin);
  }
  for (const [name, values] of Object.entries(found))
    for (const p of [0.5, 0.99])
      report({
        case: `${hosts} hosts, server killed and back ${times} times`,
        metric: `to ${name === 'first' ? 'first rows' : 'rows of all'}, p${100 * p}`,
        unit: 'ms',
        value: percentile(values, p),
        ...(p === 0.99 && { goal: { most } }),
      });
  await all.close();
  await remote.close();
  buffer.close();
  await server.stop();
}

/**
 * Measures the server's memory while the learner takes no rows, compared with the bytes that may be
 * in transit.
 */
async function memory(report: Report, quick: boolean): Promise<void> {
  const server = await startServer();
  const transitBytes = 2 ** 25;
  const limiter = RateLimiter.create({
    samplesPerInsert: 1,
    minSize: 1,
    errorBuffer: 64,
    gateAdd: true,
  });
  const fields = { row: { shape: [small.floats] } };
  const buffer = ReplayBuffer.create({
    capacity: 100_000,
    fields,
    limiter,
  }) as unknown as ReplayBuffer;
  const remote = await learnerOf(server, { run: 'full', buffer, transitBytes });
  const client = await server.client();
  const used = async () => Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))![1]);
  const before = await used();
  const hosts = 16;
  let most = 0;
  let now = 0;
  const all = await swarm(server, { run: 'full', hosts, flushBytes: small.flushBytes, everyMs: 0 });
  for (
    const end = performance.now() + (quick ? 2000 : 5000);
    performance.now() < end;
    await wait(20)
  ) {
    now = await used();
    most = Math.max(most, now);
  }
  const windows = `${hosts} hosts, 32 MiB of windows, learner stopped`;
  report({
    case: windows,
    metric: 'memory ÷ windows',
    value: (most - before) / transitBytes,
    unit: '×',
    goal: { most: 1.2 },
  });
  report({
    case: windows,
    metric: 'the same at the end',
    value: (now - before) / transitBytes,
    unit: '×',
  });
  await all.close();
  await remote.close();
  buffer.close();
  await server.stop();
}

/** Measures the time until many hosts have a new version of the weights. */
async function weights(report: Report, quick: boolean, hosts: number): Promise<void> {
  const server = await startServer();
  const buffer = rowsOf(100_000, small.floats);
  const mailbox = WeightMailbox.create({ length: 11_000 });
  mailbox.write(new Float32Array(mailbox.length));
  const remote = await learnerOf(server, { run: 'weights', buffer, mailbox, weightsEveryMs: 1 });
  const ours = await swarm(server, { run: 'weights', hosts, flushBytes: 2 ** 15, everyMs: 1e9 });
  const [key, channel] = ['plain:newest', 'plain:told'];
  const takers = { count: hosts, key, channel };
  const plain = await Child.open('remote-plain', {
    role: 'takers',
    url: server.url,
    bytes: 0,
    takers,
  });
  const client = await server.client();
  const value = Buffer.alloc(4 * mailbox.length);
  const found = { ours: [] as number[], plain: [] as number[] };
  for (let round = -1; round < (quick ? 3 : 11); round++) {
    const all = plain.answer<{ all: number }>();
    let begin = monotonic();
    await client.set(key, value);
    await client.publish(channel, 'new');
    const theirs = (await all).all - begin;
    const told = ours.answer<{ weights: number }>();
    ours.tell({ version: mailbox.published + 1 });
    await wait(20);
    begin = monotonic();
    mailbox.write(new Float32Array(mailbox.length).fill(round));
    const mine = (await told).weights - begin;
    if (round < 0) continue;
    found.plain.push(theirs);
    found.ours.push(mine);
  }
  report({
    case: `44 kB to ${hosts} hosts; SET, PUBLISH and GET`,
    metric: 'until all have them',
    ...beside(found.ours, found.plain),
    unit: 'ms',
    goal: { most: 250 },
  });
  await ours.close();
  await plain.close();
  await remote.close();
  buffer.close();
  await server.stop();
}

/**
 * Reports the load average. Many figures are of several processes on few cores, so other programs
 * change them.
 */
const load = (report: Report, when: string) =>
  report({
    case: 'what else runs here',
    metric: `load average, ${when}`,
    value: loadavg()[0]!,
    unit: '',
  });

export const run: Benchmark = async (report, { quick }) => {
  load(report, 'before');
  garbage(report);
  await speed(report, quick, small);
  const plain = await speed(report, quick, large);
  if (!quick) await speed(report, quick, { ...large, least: plain / 2 }, true);
  await lateness(report, quick);
  await ticks(report, quick);
  await restarts(report, 50, quick ? 2 : 12, 500);
  await restarts(report, quick ? 200 : 1000, quick ? 1 : 3, 3000);
  await memory(report, quick);
  await weights(report, quick, quick ? 200 : 1000);
  load(report, 'after');
};
