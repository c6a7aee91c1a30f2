/**
 * Measures whole ticks through the four actors: the rate of small ticks, and large ticks compared
 * with one thread that gathers and copies.
 */
import { nativeMemory } from '../src/device/native.ts';
import { openDevice, type ReplayBuffer, uniformIndices } from '../src/index.ts';
import { allocateShared } from '../src/shm/memory.ts';
import { type Benchmark, beside, filledRows, middle, type Report } from './harness.ts';
import { explain } from './tick-explain.ts';
import { manualRate, type Placed, rate } from './tick-rates.ts';

export const run: Benchmark = async (report, { device, quick, explained }) => {
  const small = filledRows(100_000, 43);
  const ticks = quick ? 300 : 50_000;
  const placements: Record<string, Placed> = {
    "placement 'auto'": 'auto',
    "placement 'inline'": 'inline',
    'one thread': [['pack', 'submit', 'poll', 'replay']],
    'a thread per role': [['pack'], ['submit'], ['poll'], ['replay']],
  };
  if (explained) {
    await explain(report, small, 256, ticks, device, placements);
    return void small.close();
  }

  const rates: Record<string, number[]> = Object.fromEntries(
    Object.keys(placements).map((name) => [name, []]),
  );
  for (let round = 0; round < (quick ? 1 : 5); round++) {
    for (const [name, placement] of Object.entries(placements)) {
      rates[name]?.push(await rate(small, { placement }, 256, ticks, device));
    }
  }
  for (const [name, values] of Object.entries(rates)) {
    report({
      case: `256 rows × 172 B, ${name}`,
      metric: 'ticks per second',
      ...middle(values),
      unit: '1/s',
    });
  }
  const manual: Record<string, number[]> = {};
  for (let round = 0; round < (quick ? 1 : 5); round++) {
    for (const [name, placement] of Object.entries(placements)) {
      for (const thread of ['main', 'worker'] as const) {
        const way = `manual in ${thread}, ${name}`;
        manual[way] ??= [];
        manual[way].push(await manualRate(thread, { device, placement, rows: 256, ticks }, small));
      }
    }
  }
  for (const [name, values] of Object.entries(manual))
    report({
      case: `256 rows × 172 B, ${name}`,
      metric: 'ticks per second',
      ...middle(values),
      unit: '1/s',
      // --quick has no goal, because its few ticks run code that V8 has not optimized yet.
      ...(!quick && name.endsWith("'auto'") && { goal: { least: 30_000 } }),
    });
  await maskedTicks(report, small, { ticks, quick, device });
  small.close();

  const rows = quick ? 4096 : 32_768;
  const floats = 430;
  const large = filledRows(quick ? 16_384 : 1_048_576, floats);
  // The baseline is a learner without a pipeline. It gathers into memory that the device can read,
  // copies, and waits.
  const opened = openDevice(device);
  const bytes = rows * floats * 4;
  const shared = allocateShared('a batch', bytes, 4096);
  const out = new Float32Array(shared.memory, shared.offset, rows * floats);
  const host = opened.registerHost(out);
  const from = host.tensor({ shape: [bytes], dtype: 'uint8' });
  using target = opened.allocate({ shape: [bytes], dtype: 'uint8' });
  const onHost = opened.family === 'host';
  const copy = async () => {
    // On the CPU device, one call copies the bytes in this thread. A stream would make another
    // thread copy them.
    if (onHost)
      return void nativeMemory().copyOut(
        target.handle,
        new Uint8Array(shared.memory, shared.offset, bytes),
      );
    opened.currentStream.copy(target, from);
    await opened.currentStream.synchronize();
  };
  const naive: number[] = [];
  const ways: Record<string, object> = {
    "transfer 'immediate'": { transfer: 'immediate' },
    ...(onHost && { "transfer 'direct'": { transfer: 'direct' } }),
    "rows: 'device'": { rows: 'device' },
  };
  const piped = Object.fromEntries(Object.keys(ways).map((way) => [way, [] as number[]]));
  for (let round = 0; round < (quick ? 1 : 6); round++) {
    for (let tick = 0; tick < 4; tick++) {
      const begin = performance.now();
      large.gather(
        uniformIndices({ seed: tick, size: large.size, count: rows }) as Uint32Array,
        out,
      );
      await copy();
      naive.push(performance.now() - begin);
    }
    for (const [way, options] of Object.entries(ways))
      piped[way]!.push(
        1000 / (await rate(large, { ...options, depth: 2 }, rows, quick ? 4 : 30, device)),
      );
  }
  host.close();
  for (const [way, values] of Object.entries(piped)) {
    report({
      case: `${rows} rows × ${floats * 4} B, ${way}; gather and copy in turn`,
      metric: 'time per tick',
      ...beside(values, naive),
      unit: 'ms',
    });
  }
  large.close();
};

/** Compares small ticks of rows with two masks of 32 actions with ticks of the same rows alone. */
async function maskedTicks(
  report: Report,
  plain: ReplayBuffer,
  { ticks, quick, device }: { ticks: number; quick: boolean; device: string },
): Promise<void> {
  using masked = filledRows(100_000, 43, 32);
  const times: Record<'masked' | 'plain', number[]> = { masked: [], plain: [] };
  for (let round = 0; round < (quick ? 1 : 15); round++)
    for (const [name, buffer] of Object.entries({ masked, plain }))
      times[name as keyof typeof times].push(
        1e6 / (await rate(buffer, { placement: 'auto' }, 256, ticks, device)),
      );
  report({
    case: '256 rows × 172 B with two masks of 32 actions; without masks',
    metric: 'time of a tick',
    ...beside(times.masked, times.plain),
    unit: 'µs',
    ...(!quick && { goal: { ratio: 0.97 } }),
  });
}
