/** Gathering random rows into a packed batch, against the C library's memcpy of the same bytes to the same place. */

import { native } from '../src/device/native.ts';
import { openDevice, uniformIndices } from '../src/index.ts';
import { type Benchmark, filledRows, inTurn, speedBeside } from './harness.ts';

const shapes = [
  { rows: 32_768, floats: 430, capacity: 1_048_576, rounds: 15 },
  { rows: 256, floats: 43, capacity: 100_000, rounds: 3000 },
];

export const run: Benchmark = async (report, { quick }) => {
  for (const { rows, floats, capacity, rounds } of shapes) {
    const buffer = filledRows(quick ? capacity / 8 : capacity, floats);
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
    const { memcpy, gather } = await inTurn(quick ? Math.ceil(rounds / 5) : rounds, {
      memcpy: () => native().copyOut(source.handle, target),
      gather: () => buffer.gather(draws[seed++ % draws.length] as Uint32Array, out),
    });
    report({
      case: `${rows} random rows × ${floats * 4} B of ${buffer.capacity}, one thread; memcpy`,
      metric: 'share of memcpy speed',
      ...speedBeside(bytes, gather.caller, memcpy.caller),
    });
    buffer.close();
  }
};
