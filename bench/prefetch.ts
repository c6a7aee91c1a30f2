/**
 * Measures what a prefetch costs its caller and what it saves. Compares fresh pages that a prefetch
 * makes with pages that are made when they are touched.
 */

import {
  compileAllocator,
  createUnifiedMempool,
  prefetchManagedModuleParameters,
  prefetchManagedTensor,
  UnifiedMemoryUnsupportedError,
} from '../src/entries/memory.ts';
import type { Tensor } from '../src/index.ts';
import { type Benchmark, beside, inTurn, middle } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  await compileAllocator();
  let made: ReturnType<typeof createUnifiedMempool>;
  try {
    made = createUnifiedMempool(name);
  } catch (error) {
    // Without managed memory there are no figures. The reason is printed.
    if (!(error instanceof UnifiedMemoryUnsupportedError)) throw error;
    return void console.error(`prefetch: ${error.message}`);
  }
  using pool = made;
  const { device } = pool;
  const { index } = device;
  using stream = device.createStream();
  const rounds = quick ? 20 : 100;

  // JavaScript's share. Prefetches are enqueued faster than they run, and the queue is drained
  // between bursts.
  using small = pool.allocate({ shape: [1024] });
  const burst = device.family === 'host' ? 1000 : 200;
  const drain = () => stream.synchronize();
  const { js } = await inTurn(
    rounds,
    { js: () => prefetchManagedTensor(small, { device: index, stream }) },
    drain,
    burst,
  );
  report({
    case: 'one tensor of a page',
    metric: 'JS cost of a prefetch',
    ...middle(js.caller),
    unit: 'µs',
  });

  // Makes the first pages of a tensor, by a prefetch or by a fill that touches them, in turn and in
  // different memory. A GPU gets little memory: a request for more managed memory than is free can
  // hang the GPU.
  const onHost = device.family === 'host';
  const bytes = (onHost ? (quick ? 64 : 256) : 4) * 2 ** 20;
  const touch = (tensor: Tensor) => stream.fill(tensor, 1);
  const ways = {
    touch,
    prefetch: (tensor: Tensor) => prefetchManagedTensor(tensor, { device: index, stream }),
  };
  const times = { touch: [] as number[], prefetch: [] as number[], both: [] as number[] };
  for (let round = 0; round < (quick ? 3 : 10); round++) {
    for (const how of ['touch', 'prefetch'] as const) {
      using fresh = pool.allocate({ shape: [bytes], dtype: 'uint8' });
      // On a GPU, zeroing moved the pages to the GPU, so they are moved back to the host first.
      if (!onHost && device.traits.movesPages) prefetchManagedTensor(fresh, { device: -1, stream });
      await stream.synchronize();
      const begin = performance.now();
      ways[how](fresh);
      await stream.synchronize();
      times[how].push(performance.now() - begin);
      if (how === 'touch') continue;
      const between = performance.now();
      touch(fresh);
      await stream.synchronize();
      times.both.push(performance.now() - between);
    }
  }
  const bandwidth = (ms: number) => bytes / 1e6 / ms;
  const size = `${bytes / 2 ** 20} MiB`;
  report({
    case: `${size} of ${onHost ? 'fresh' : 'the CPU’s'} pages prefetched; filled without`,
    metric: 'bandwidth',
    ...beside(times.prefetch, times.touch, bandwidth),
    unit: 'GB/s',
  });
  report({
    case: `${size} filled after the prefetch; filled without`,
    metric: 'bandwidth',
    ...beside(times.both, times.touch, bandwidth),
    unit: 'GB/s',
  });

  // A module whose pages exist already, so that mostly the calls are timed.
  const parameters = Array.from(
    { length: 100 },
    (_, i) => [`p${i}`, pool.allocate({ shape: [1024] })] as const,
  );
  const module = { namedParameters: () => parameters };
  const all = () => prefetchManagedModuleParameters(module, { device: index, stream });
  const { calls } = await inTurn(rounds, { calls: all }, drain);
  const which = `a module of ${parameters.length} parameters`;
  report({ case: which, metric: 'time in the caller', ...middle(calls.caller), unit: 'µs' });
  report({ case: which, metric: 'time until done', ...middle(calls.done), unit: 'µs' });
};
