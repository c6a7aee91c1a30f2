/**
 * Measures the pipeline's host-to-device copies on the device's clock. Compares them with the best
 * copies of the driver alone, and computes how much of a copy a learner's update hides.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DqnLearner } from '../src/entries/learner.ts';
import {
  type Device,
  type OffPolicyFields,
  openDevice,
  Random,
  ReplayBuffer,
  ReplayPipeline,
} from '../src/index.ts';
import { type Benchmark, beside, inTurn, median, middle } from './harness.ts';
import { rawCopyMs } from './native.ts';

const network = { actions: 4, hidden: [120, 84], batchSize: 128, seed: 1 };

function filled(capacity: number, obsDim: number): ReplayBuffer<OffPolicyFields> {
  const buffer = ReplayBuffer.offPolicy({ capacity, obsDim, actionDim: 1 });
  const n = 4096;
  const random = new Random(1);
  const noise = (width: number) =>
    Float32Array.from({ length: n * width }, () => random.between(-0.5, 0.5));
  const chunk = {
    obs: noise(obsDim),
    nextObs: noise(obsDim),
    actions: new Float32Array(n).map((_, i) => i % network.actions),
    rewards: noise(1),
    dones: new Float32Array(n),
    truncated: new Float32Array(n),
  };
  for (let left = capacity; left > 0; left -= n) buffer.add(chunk);
  return buffer;
}

interface Run {
  buffer: ReplayBuffer<OffPolicyFields>;
  device: Device;
  rows: number;
  ticks: number;
}

/**
 * Runs ticks. Returns the milliseconds of a whole tick, and the median of its copy on the device's
 * clock.
 */
async function piped(
  { buffer, device, rows, ticks }: Run,
  learner: DqnLearner | null,
  traced: boolean,
) {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-bench-'));
  const file = join(folder, 'trace.json');
  try {
    const trace = traced ? { file } : false;
    const pipeline = await ReplayPipeline.open({
      buffer,
      device: device.name,
      sampleCount: rows,
      depth: 3,
      trace,
    });
    if (learner) pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out));
    else {
      pipeline.capture((batch, { stream, out }) =>
        stream.copy(out.view({ shape: [1] }), batch.rewards.view({ shape: [1] })),
      );
    }
    await pipeline.run({ ticks: Math.ceil(ticks / 4) });
    const { seconds } = await pipeline.run({ ticks });
    await pipeline.close();
    const copies: number[] = [];
    if (traced) {
      const { traceEvents } = JSON.parse(readFileSync(file, 'utf8')) as {
        traceEvents: { name: string; dur?: number }[];
      };
      for (const { name, dur } of traceEvents)
        if (name === 'gpu/replay_pipeline_batch_h2d' && dur) copies.push(dur / 1000);
    }
    return {
      tickMs: (seconds * 1000) / ticks,
      copyMs: traced ? median(copies.slice(copies.length / 5)) : Number.NaN,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Measures the update alone, replayed on the same batch. This is what a tick takes if its copy
 * costs nothing.
 */
async function aloneMs(
  device: Device,
  learner: DqnLearner,
  rows: number,
  obsDim: number,
  rounds: number,
) {
  const stream = device.createStream();
  const width = 2 * obsDim + 4;
  using packed = device.allocate({ shape: [rows, width] });
  const values = new Float32Array(rows * width).map((_, i) =>
    i % width === 2 * obsDim ? i % 4 : Math.sin(i),
  );
  packed.write(values, stream);
  using out = device.allocate({ shape: [8] });
  const column = (offset: number, n: number) =>
    packed.view({ shape: [rows, n], offset, strides: [width, 1] });
  const batch = {
    obs: column(0, obsDim),
    nextObs: column(obsDim, obsDim),
    actions: column(2 * obsDim, 1),
    rewards: column(2 * obsDim + 1, 1),
    dones: column(2 * obsDim + 2, 1),
    truncated: column(2 * obsDim + 3, 1),
  };
  await stream.synchronize();
  stream.beginCapture();
  learner.update(stream, batch, out);
  using graph = stream.endCapture();
  using exec = graph.instantiate();
  const { alone } = await inTurn(
    3,
    { alone: () => stream.replay(exec) },
    () => stream.synchronize(),
    rounds,
  );
  stream.close();
  return median(alone.done) / 1000;
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const cuda = device.family === 'cuda';
  const shapes = [
    {
      rows: quick ? 4096 : 32_768,
      obsDim: 213,
      capacity: quick ? 16_384 : 131_072,
      ticks: quick ? 20 : 100,
    },
    { rows: 256, obsDim: 19, capacity: 100_000, ticks: quick ? 200 : 2000 },
  ];
  for (const { rows, obsDim, capacity, ticks } of shapes) {
    const buffer = filled(capacity, obsDim);
    const bytes = rows * buffer.rowBytes;
    const shape = `${rows} rows × ${buffer.rowBytes} B`;
    const times = { raw: [] as number[], piped: [] as number[] };
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      if (cuda) times.raw.push(rawCopyMs(device.name, quick ? 10 : 50, bytes));
      times.piped.push((await piped({ buffer, device, rows, ticks }, null, true)).copyMs);
    }
    const speed = (ms: number) => bytes / ms / 1e6;
    report({
      case: `${shape}, the pipeline's copy${cuda ? '; the driver alone' : ''}`,
      metric: 'H2D on the device clock',
      ...(cuda ? beside(times.piped, times.raw, speed) : middle(times.piped, speed)),
      unit: 'GB/s',
    });
    if (rows < 1000) {
      buffer.close();
      continue;
    }
    using learner = new DqnLearner(device, { ...network, obsDim });
    await learner.ready;
    const few = quick ? 8 : 40;
    const ticked: number[] = [];
    const alone: number[] = [];
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      alone.push(await aloneMs(device, learner, rows, obsDim, quick ? 4 : 15));
      ticked.push((await piped({ buffer, device, rows, ticks: few }, learner, false)).tickMs);
    }
    const figure = beside(ticked, alone);
    const copied = (figure.value - figure.baseline) / median(times.piped);
    report({
      case: `${shape}, a learner of ${rows / network.batchSize} minibatches; its update alone`,
      metric: 'time per tick',
      ...figure,
      unit: 'ms',
    });
    report({
      case: `${shape}, a learner of ${rows / network.batchSize} minibatches`,
      metric: 'share of copy hidden',
      value: 100 * (1 - Math.min(1, Math.max(0, copied))),
      unit: '%',
    });
    buffer.close();
  }
};
