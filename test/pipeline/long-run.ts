/**
 * A process that ticks for long: `long-run.js ROUNDS TICKS` says after each round how many updates
 * it made and what memory it holds.
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
    // The mean of four ones, added to the count.
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
