/**
 * How late an actor sees that an update is over: what a tick takes beyond an update of known
 * length, one tick at a time.
 */
import { ReplayPipeline } from '../src/index.ts';
import { type Benchmark, filledRows, middle } from './harness.ts';

const UPDATE_US = 500;

export const run: Benchmark = async (report, { device, quick }) => {
  const buffer = filledRows(10_000, 4);
  await using pipeline = await ReplayPipeline.open({ buffer, device, sampleCount: 16 });
  pipeline.capture((_batch, { stream }) => {
    stream.launch('spin', { wholes: [UPDATE_US] });
  });
  const late: number[] = [];
  const rounds = quick ? 40 : 400;
  for (let round = -20; round < rounds; round++) {
    const { stages } = await pipeline.run({ ticks: 1 });
    if (round >= 0) late.push(stages.learn.p50 - UPDATE_US);
  }
  report({
    case: `an update of ${UPDATE_US} µs`,
    metric: 'launched and seen done beyond it',
    ...middle(late),
    unit: 'µs',
  });
  buffer.close();
};
