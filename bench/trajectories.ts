/**
 * Measures steps in lanes: batches of transitions and of stacked frames, writing, and ticks of a
 * pipeline that draws by priority.
 */
import { nativeMemory } from '../src/device/native.ts';
import {
  openDevice,
  type PrioritizedSampler,
  prioritized,
  ReplayBuffer,
  ReplayPipeline,
  TrajectoryBuffer,
  uniformIndices,
} from '../src/index.ts';
import { Batches, filledSteps } from './batches.ts';
import {
  type Benchmark,
  beside,
  filledRows,
  type Goal,
  inTurn,
  median,
  type Report,
  speedBeside,
} from './harness.ts';
import { Writers } from './writers.ts';

const floats = (n: number) => ({ shape: [n] });
const observed = (...shape: number[]) => ({ shape, observation: true });

/**
 * Compares batches of transitions with a gather of as many bytes per row, from buffers that no
 * cache holds.
 */
async function transitions(report: Report, quick: boolean): Promise<void> {
  const [rows, rowBytes] = [32_768, 1720];
  const capacity = quick ? 131_072 : 1_048_576;
  const buffer = filledSteps(
    {
      capacity,
      lanes: 64,
      fields: { obs: observed(210), actions: floats(4), legal: { shape: [2], dtype: 'bool' } },
    },
    1000,
  );
  const packed = filledRows(capacity, rowBytes / 4);
  const draws = Array.from(
    { length: 8 },
    (_, i) => uniformIndices({ seed: i, size: packed.size, count: rows }) as Uint32Array,
  );
  const out = new Float32Array((rows * rowBytes) / 4);
  const [one, three] = [1, 3].map(
    (nStep) => new Batches(buffer, { view: buffer.transitions({ nStep }), rows }),
  );
  let seed = 0;
  const times = await inTurn(quick ? 5 : 21, {
    gather: () => packed.gather(draws[seed++ % draws.length]!, out),
    drawn: () =>
      packed.gather(
        uniformIndices({ seed: seed++, size: packed.size, count: rows }) as Uint32Array,
        out,
      ),
    one: () => one!.make(seed++),
    three: () => three!.make(seed++),
  });
  for (const [nStep, goal, ours] of [[1, 0.9, times.one] as const, [3, 0.75, times.three] as const])
    report({
      case: `${rows} transitions × ${rowBytes} B, n = ${nStep}; gather`,
      metric: 'drawn and made',
      ...speedBeside(rows * rowBytes, ours.caller, times.gather.caller),
      goal: { ratio: goal },
    });
  report({
    case: 'the same, n = 1; uniformIndices and gather',
    metric: 'drawn and made',
    ...speedBeside(rows * rowBytes, times.one.caller, times.drawn.caller),
  });
  packed.close();
  buffer.close();
}

/** Compares batches of stacked frames with memcpy of as many bytes. */
async function stacks(report: Report, quick: boolean): Promise<void> {
  const rows = 256;
  const obs = { ...observed(84, 84), dtype: 'uint8' } as const;
  const buffer = filledSteps(
    { capacity: quick ? 16_384 : 98_304, lanes: 32, fields: { obs } },
    1000,
  );
  const batches = new Batches(buffer, { view: buffer.transitions({ stack: { obs: 4 } }), rows });
  using source = openDevice('host:0').allocate({ shape: [batches.bytes], dtype: 'uint8' });
  const target = new Uint8Array(batches.bytes);
  let seed = 0;
  const { memcpy, stacked } = await inTurn(quick ? 20 : 100, {
    memcpy: () => nativeMemory().copyOut(source.handle, target),
    stacked: () => batches.make(seed++),
  });
  report({
    case: `${rows} × (4 + 4) frames of 84 × 84 bytes; memcpy`,
    metric: 'drawn and made',
    ...speedBeside(batches.bytes, stacked.caller, memcpy.caller),
    goal: { ratio: 0.5 },
  });
  buffer.close();
}

/**
 * Measures worker threads that write steps of 172 bytes, each arrangement of lanes and threads in
 * turn.
 */
async function writing(report: Report, quick: boolean): Promise<void> {
  const fields = { obs: observed(40), actions: floats(3) };
  const capacity = 16 * (quick ? 4096 : 65_536);
  const packed = ReplayBuffer.create({
    capacity,
    fields: { obs: floats(40), actions: floats(2), rewards: floats(1) },
  });
  const writers = new Writers();
  const lanesOf = (threads: number, lanes = 16) => {
    const shared = TrajectoryBuffer.create({
      capacity: (capacity / 16) * lanes,
      lanes,
      fields,
    }).share();
    const each = lanes / threads;
    return writers.group(
      Array.from({ length: threads }, (_, i) => ({
        fields,
        shared,
        firstLane: i * each,
        lanes: each,
      })),
    );
  };
  const ways = {
    rows: writers.group([{ fields, packed: packed.share(), firstLane: 0, lanes: 16 }]),
    one: lanesOf(1),
    four: lanesOf(4),
    more: lanesOf(4, 64),
  };
  const rates = {
    rows: [] as number[],
    one: [] as number[],
    four: [] as number[],
    more: [] as number[],
  };
  await writers.ready();
  for (let round = -1; round < (quick ? 3 : 15); round++) {
    for (const [name, group] of Object.entries(ways)) {
      const rate = await writers.rate(group, round < 0 ? 500 : 100);
      if (round >= 0) rates[name as keyof typeof rates].push(rate);
    }
  }
  await writers.close();
  const told = (name: string, ours: number[], others: number[], goal?: Goal) => {
    const { value, quartiles, baseline, baselineQuartiles } = beside(ours, others);
    report({
      case: name,
      metric: 'steps written',
      value,
      quartiles,
      unit: 'M/s',
      baseline,
      baselineQuartiles,
      ratio: median(ours) / median(others),
      ...(goal && { goal }),
    });
  };
  told('16 lanes × 172 B, 1 thread; ReplayBuffer.add of 16 rows', rates.one, rates.rows, {
    least: 5,
  });
  told('the same 16 lanes by 4 threads, 4 each; 1 thread', rates.four, rates.one, { ratio: 1 });
  told('4 threads, 16 lanes each; 1 thread', rates.more, rates.one);
}

/** Compares a pipeline's small batches drawn by priority with batches drawn uniformly. */
async function ticks(report: Report, quick: boolean): Promise<void> {
  const fields = {
    obs: observed(16),
    actions: floats(5),
    legal: { shape: [2], dtype: 'bool' },
  } as const;
  const buffer = filledSteps({ capacity: 131_072, lanes: 16, fields }, 1000);
  const view = buffer.transitions();
  const sampler = prioritized();
  const count = quick ? 5000 : 50_000;
  const rate = async (options: { sampler?: PrioritizedSampler }) => {
    await using pipeline = await ReplayPipeline.open({
      buffer,
      view,
      device: 'host:0',
      sampleCount: 256,
      ...options,
    });
    pipeline.capture((batch, { stream, out }) => {
      stream.copy(out.view({ shape: [1] }), batch.rewards.view({ shape: [1] }));
    });
    await pipeline.run({ ticks: Math.ceil(count / 10) });
    return 1e6 / (await pipeline.run({ ticks: count })).ticksPerSecond;
  };
  const times = { uniform: [] as number[], prioritized: [] as number[] };
  for (let round = 0; round < (quick ? 1 : 5); round++) {
    times.uniform.push(await rate({}));
    times.prioritized.push(await rate({ sampler }));
  }
  report({
    case: '256 transitions × 172 B by priority; uniformly',
    metric: 'ticks per second',
    ...beside(times.prioritized, times.uniform, (us) => 1e6 / us),
    unit: '1/s',
    goal: { ratio: 0.4 },
  });
  buffer.close();
}

export const run: Benchmark = async (report, { quick }) => {
  for (const part of [transitions, stacks, writing, ticks]) {
    await part(report, quick);
    // The next measurement may not fit into memory while the buffers of this one exist.
    globalThis.gc?.();
  }
};
