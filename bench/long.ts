/**
 * Runs a million ticks. Reports how many updates were lost or repeated, and how much the memory
 * grew.
 */
import { openDevice, ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import type { Benchmark } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  const buffer = ReplayBuffer.create({ capacity: 10_000, fields: { row: { shape: [43] } } });
  buffer.add({ row: new Float32Array(10_000 * 43) });
  const device = openDevice(name);
  using count = device.allocate({ shape: [1] });
  using one = device.allocate({ shape: [1] }).write(Float32Array.of(1));
  await using pipeline = await ReplayPipeline.open({ buffer, device: name, sampleCount: 32 });
  pipeline.capture((_, { stream }) =>
    stream.launch('axpby', { tensors: [count, one], wholes: [1], reals: [1, 1] }),
  );
  const part = quick ? 10_000 : 100_000;
  await pipeline.run({ ticks: part });
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  for (let i = 0; i < 9; i++) await pipeline.run({ ticks: part });
  globalThis.gc?.();
  const applied = (await count.toArray())[0] as number;
  report({
    case: `${part * 10} ticks`,
    metric: 'updates lost or repeated',
    value: applied - part * 10,
    unit: '',
  });
  report({
    case: `${part * 10} ticks`,
    metric: 'memory grown by',
    value: (process.memoryUsage.rss() - before) / 2 ** 20,
    unit: 'MiB',
  });
};
