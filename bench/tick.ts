/** Whole ticks through the four actors: small ones per second, large ones against one thread that gathers and copies. */
import { native } from '../src/device/native.ts';
import { openDevice, type ReplayBuffer, ReplayPipeline, uniformIndices } from '../src/index.ts';
import { allocateShared } from '../src/shared-memory.ts';
import { type Benchmark, beside, filledRows, middle } from './harness.ts';

/** An update of one operation: what remains is Hotslot's own. */
function idle(pipeline: ReplayPipeline): void {
  pipeline.capture((batch, { stream, out }) => {
    stream.copy(out.view({ shape: [1] }), (batch.row as NonNullable<typeof batch.row>).view({ shape: [1] }));
  });
}

async function rate(
  buffer: ReplayBuffer,
  options: object,
  sampleCount: number,
  ticks: number,
  device: string,
): Promise<number> {
  await using pipeline = await ReplayPipeline.open({ buffer, device, sampleCount, ...options });
  idle(pipeline);
  await pipeline.run({ ticks: Math.ceil(ticks / 10) });
  return (await pipeline.run({ ticks })).ticksPerSecond;
}

export const run: Benchmark = async (report, { device, quick }) => {
  const small = filledRows(100_000, 43);
  const ticks = quick ? 5000 : 50_000;
  const placements = {
    "placement 'auto'": 'auto',
    "placement 'inline'": 'inline',
    'a thread per role': [['pack'], ['submit'], ['poll'], ['replay']],
  };

  const rates: Record<string, number[]> = Object.fromEntries(Object.keys(placements).map((name) => [name, []]));
  for (let round = 0; round < (quick ? 1 : 5); round++) {
    for (const [name, placement] of Object.entries(placements)) {
      rates[name]?.push(await rate(small, { placement }, 256, ticks, device));
    }
  }
  for (const [name, values] of Object.entries(rates)) {
    report({ case: `256 rows × 172 B, ${name}`, metric: 'ticks per second', ...middle(values), unit: '1/s' });
  }
  small.close();

  const rows = 32_768;
  const floats = 430;
  const large = filledRows(quick ? 131_072 : 1_048_576, floats);
  // What a learner without a pipeline does in turn: gather into memory that the device reaches in place, copy, wait.
  const opened = openDevice(device);
  const bytes = rows * floats * 4;
  const shared = allocateShared('a batch', bytes, 4096);
  const out = new Float32Array(shared.memory, shared.offset, rows * floats);
  const host = opened.registerHost(out);
  const from = host.tensor({ shape: [bytes], dtype: 'uint8' });
  using target = opened.allocate({ shape: [bytes], dtype: 'uint8' });
  const onHost = opened.family === 'host';
  const copy = async () => {
    // On the processor one call moves the bytes in this thread; a stream would only hand them to another.
    if (onHost) return void native().copyOut(target.handle, new Uint8Array(shared.memory, shared.offset, bytes));
    opened.currentStream.copy(target, from);
    await opened.currentStream.synchronize();
  };
  const naive: number[] = [];
  const ways: Record<string, object> = {
    "transfer 'immediate'": {},
    ...(onHost && { "transfer 'direct'": { transfer: 'direct' } }),
    "rows: 'device'": { rows: 'device' },
  };
  const piped = Object.fromEntries(Object.keys(ways).map((way) => [way, [] as number[]]));
  for (let round = 0; round < (quick ? 2 : 6); round++) {
    for (let tick = 0; tick < 4; tick++) {
      const begin = performance.now();
      large.gather(uniformIndices({ seed: tick, size: large.size, count: rows }) as Uint32Array, out);
      await copy();
      naive.push(performance.now() - begin);
    }
    for (const [way, options] of Object.entries(ways))
      piped[way]!.push(1000 / (await rate(large, { ...options, depth: 2 }, rows, quick ? 10 : 30, device)));
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
