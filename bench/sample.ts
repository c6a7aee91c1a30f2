/**
 * Measures one sample() call, which draws indices and gathers rows, as a learner without a pipeline
 * makes it.
 */
import { ReplayBuffer } from '../src/index.ts';
import { type Benchmark, middle, percentile } from './harness.ts';

export const run: Benchmark = async (report, { quick }) => {
  const buffer = ReplayBuffer.offPolicy({ capacity: 100_000, obsDim: 4, actionDim: 1 });
  const n = 10_000;
  const field = (width: number) => new Float32Array(n * width).map((_, i) => i);
  for (let i = 0; i < 10; i++) {
    buffer.add({
      obs: field(4),
      nextObs: field(4),
      actions: field(1),
      rewards: field(1),
      dones: field(1),
      truncated: field(1),
    });
  }
  for (const count of [32, 256, 1024]) {
    const out = new Float32Array((count * buffer.rowBytes) / 4);
    const times: number[] = [];
    for (let i = 0; i < (quick ? 3000 : 30_000); i++) {
      const begin = performance.now();
      buffer.sample({ seed: i, count }, out);
      times.push((performance.now() - begin) * 1000);
    }
    const warm = times.slice(times.length / 10);
    const label = `${count} rows, obs 4, of 100000`;
    report({ case: label, metric: 'sample call p50', ...middle(warm), unit: 'µs' });
    report({ case: label, metric: 'sample call p99', value: percentile(warm, 0.99), unit: 'µs' });
  }
  buffer.close();
};
