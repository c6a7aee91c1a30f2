/**
 * Measures how late an actor notices that an update is done. It runs ticks one at a time, with an
 * update of known length. The rest of each tick's time is the delay.
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
