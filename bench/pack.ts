/** Gathering random rows into a packed batch, against the C library's memcpy of the same bytes to the same place. */

import { native } from '../src/device/native.ts';
import { openDevice, ReplayBuffer, uniformIndices } from '../src/index.ts';
import { type Benchmark, interleaved, median } from './harness.ts';

const shapes = [
  { rows: 32_768, floats: 430, capacity: 1_048_576, rounds: 15 },
  { rows: 256, floats: 43, capacity: 100_000, rounds: 3000 },
];

export const run: Benchmark = async (report, { quick }) => {
  for (const { rows, floats, capacity, rounds } of shapes) {
    const buffer = ReplayBuffer.create({
      capacity: quick ? capacity / 8 : capacity,
      fields: { row: { shape: [floats] } },
    });
    const chunk = new Float32Array(4096 * floats).map((_, i) => i);
    for (let left = buffer.capacity; left > 0; left -= 4096)
      buffer.add({ row: chunk.subarray(0, Math.min(left, 4096) * floats) });
    const out = new Float32Array(rows * floats);
    const bytes = out.byteLength;
    // copyOut is one memcpy behind one native call.
    using source = openDevice('host:0').allocate({ shape: [bytes], dtype: 'uint8' });
    const target = new Uint8Array(out.buffer);
    let seed = 0;
    const draws = Array.from(
      { length: 8 },
      (_, i) => uniformIndices({ seed: i, size: buffer.size, count: rows }) as Uint32Array,
    );
    const times = interleaved(quick ? Math.ceil(rounds / 5) : rounds, {
      memcpy: () => native().copyOut(source.handle, target),
      gather: () => buffer.gather(draws[seed++ % draws.length] as Uint32Array, out),
    });
    const [memcpy, gather] = [median(times.memcpy), median(times.gather)];
    report({
      case: `${rows} random rows × ${floats * 4} B of ${buffer.capacity}, one thread; memcpy`,
      metric: 'share of memcpy speed',
      value: bytes / gather / 1e6,
      unit: 'GB/s',
      baseline: bytes / memcpy / 1e6,
      ratio: memcpy / gather,
    });
    buffer.close();
  }
};
