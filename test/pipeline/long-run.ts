/**
 * A process that runs for many ticks: `long-run.js ROUNDS TICKS`. After each round it prints the
 * number of updates and its memory.
 */
import { openDevice, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';

const [rounds, ticks] = process.argv.slice(2).map(Number) as [number, number];
const buffer = ReplayBuffer.create({ capacity: 64, fields: { x: { shape: [1] } } });
buffer.add({ x: new Float32Array(64).fill(1) });
const device = openDevice('host:0');
const count = device.allocate({ shape: [1] });
const pipeline = await ReplayPipeline.open({
  buffer,
  device: 'host:0',
  sampleCount: 4,
  placement: 'auto',
});
const captured = pipeline.capture(
  ({ x }, { stream, out }) => {
    // Adds the mean of four ones to the count.
    stream.launch('column_sums', {
      tensors: [count, x],
      wholes: [4, 1, x.strides[0]!],
      reals: [0.25, 1],
    });
    stream.copy(out.view({ shape: [1] }), count);
  },
  { scalars: ['count'] },
);
for (let round = 0; round < rounds; round++) {
  await count.write(Float32Array.of(0));
  const ran = await captured.run({ ticks });
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  const [updates] = await count.toArray();
  const { finished } = pipeline.inspect();
  console.log(
    JSON.stringify({ ticks: ran.ticks, updates, finished, bytes: process.memoryUsage().rss }),
  );
}
await pipeline.close();
count.close();
