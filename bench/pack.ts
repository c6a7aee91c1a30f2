/**
 * Measures gathering random rows into a packed batch, on one thread and with the help of idle
 * cores. Compares one thread with two baselines. One gathers as many rows in order, which no cache
 * holds. The other is memcpy of the batch's bytes, which a large last-level cache holds.
 */

import { nativeMemory } from '../src/device/native.ts';
import { openDevice, type ReplayBuffer, uniformIndices } from '../src/index.ts';
import { internalsOfBuffer } from '../src/store/rows/replay-buffer.ts';
import { rowsAddon } from '../src/store/rows/rows-addon.ts';
import { type Benchmark, filledRows, type Goal, inTurn, speedBeside } from './harness.ts';

const MiB = 2 ** 20;

/**
 * Returns two functions that gather rows of the buffer into `out`. `random` uses the next of eight
 * random draws in each call. `inOrder` uses the next rows of the buffer, so it reads the same rows
 * again only after the whole buffer.
 */
export function gathers(buffer: ReplayBuffer, rows: number, out: Uint8Array) {
  const handle = rowsAddon().openBuffer(
    internalsOfBuffer(buffer).memory,
    // Describes a row as one field of bytes, which the gather does not convert.
    Uint32Array.of(0, buffer.rowBytes, 1, 0, 0),
    new Float64Array(3),
  );
  const draws = Array.from(
    { length: 8 },
    (_, i) => uniformIndices({ seed: i, size: buffer.size, count: rows }) as Uint32Array,
  );
  const laps = Math.max(1, Math.floor(buffer.size / rows));
  const runs = Array.from({ length: laps }, (_, lap) =>
    new Uint32Array(rows).map((_, i) => lap * rows + i),
  );
  let turn = 0;
  const gather = (indices: Uint32Array, alone: boolean) =>
    void rowsAddon().gatherRows(handle, indices, rows, false, out, alone);
  return {
    random: (alone: boolean) => gather(draws[turn++ % draws.length] as Uint32Array, alone),
    inOrder: (alone: boolean) => gather(runs[turn++ % laps] as Uint32Array, alone),
  };
}

const shapes = [
  { rows: 32_768, floats: 430, capacity: 1_048_576, rounds: 15 },
  { rows: 4096, floats: 430, capacity: 1_048_576, rounds: 60 },
  { rows: 256, floats: 43, capacity: 100_000, rounds: 3000 },
];

export const run: Benchmark = async (report, { quick }) => {
  for (const { rows, floats, capacity, rounds } of shapes) {
    const buffer = filledRows(quick ? capacity / 8 : capacity, floats);
    const out = new Uint8Array(4 * rows * floats);
    const bytes = out.byteLength;
    // copyOut is a native call that makes one memcpy.
    using source = openDevice('host:0').allocate({ shape: [bytes], dtype: 'uint8' });
    const { random, inOrder } = gathers(buffer, rows, out);
    const { memcpy, cold, one, all } = await inTurn(quick ? Math.ceil(rounds / 5) : rounds, {
      memcpy: () => nativeMemory().copyOut(source.handle, out),
      cold: () => inOrder(true),
      one: () => random(true),
      all: () => random(false),
    });
    const of = `${rows} rows × ${floats * 4} B of ${buffer.capacity}`;
    const told = (name: string, ours: number[], others: number[], goal?: Goal) =>
      report({
        case: `${of}, ${name}`,
        metric: 'gather',
        ...speedBeside(bytes, ours, others),
        ...(goal && { goal }),
      });
    told('one thread; cold in order', one.caller, cold.caller, { ratio: 0.8 });
    told('one thread; warm memcpy', one.caller, memcpy.caller);
    if (bytes >= MiB) told('idle cores too; one thread', all.caller, one.caller, { ratio: 1.5 });
    buffer.close();
  }
};
