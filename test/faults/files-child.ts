/**
 * The process that has the shim test/checkpoint/fault_shim.c. It writes each kind of file that a
 * training leaves next to its checkpoints, many times. Each time the next call that changes a file
 * fails. It prints one JSON line for each write. Argument: a folder.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeNpz, writeSafetensors } from '../../src/entries/formats.ts';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { tell } from '../checkpoint/shim.ts';
import { rows } from '../pipeline/fixture.ts';
import { Bits } from './bits.ts';

/** The result of a write in which one call failed. */
export interface Written {
  kind: string;
  mode: string;
  at: number;
  error: { code: string; message: string } | null;
  /** whether the file has its old bytes or the new ones; always true for event files */
  whole: boolean;
  /** other files that the write left in the folder */
  left: string[];
  /** whether the next write succeeds */
  later: boolean;
}

const [folder = ''] = process.argv.slice(2);
const tensors = { x: { dtype: 'float32', shape: [3], data: Float32Array.of(1, 2, 3) } } as const;
const filled = (count: number) => {
  const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 });
  buffer.add(rows(count));
  return buffer;
};
const stepped = (count: number) => {
  const buffer = TrajectoryBuffer.create({
    capacity: 30,
    lanes: 1,
    fields: { obs: { shape: [1], observation: true } },
  });
  using writer = buffer.writer();
  for (let i = 0; i < count; i++)
    writer.add({
      obs: Float32Array.of(i),
      rewards: Float32Array.of(i),
      terminated: new Uint8Array(1),
      truncated: new Uint8Array(1),
    } as never);
  return buffer;
};

/** The writers, by the file's name. `n` changes the content. */
const writers: Readonly<Record<string, (path: string, n: number) => Promise<void>>> = {
  'rows.npz': async (path, n) => void (await filled(n).dump(path)),
  'steps.npz': async (path, n) => void (await stepped(n).dump(path)),
  'tensors.npz': (path, n) =>
    writeNpz(path, { ...tensors, n: { dtype: 'float64', shape: [], data: Float64Array.of(n) } }),
  'x.safetensors': (path, n) => writeSafetensors(path, tensors, { n: String(n) }),
  events: async (path, n) => {
    const board = tensorBoard(path);
    board.scalar('loss', 0.5, n, 1e9);
    await board.close();
  },
};

/** Returns a text for a file's bytes, or 'none' if it cannot be read. That includes a folder. */
function bitsOf(path: string): string {
  const bits = new Bits();
  try {
    bits.add(readFileSync(path));
  } catch {
    return 'none';
  }
  return bits.print();
}

process.on('warning', () => {}); // they repeat the error
for (const [kind, write] of Object.entries(writers))
  for (const mode of ['fail-io', 'fail-full'])
    for (let at = 0; ; at++) {
      const mine = join(folder, `${kind}-${mode}-${at}`);
      mkdirSync(mine);
      const path = join(mine, kind);
      await write(`${path}.new`, 7);
      const wanted = bitsOf(`${path}.new`);
      await write(path, 5);
      const before = bitsOf(path);
      tell(`${mode}:${at}`);
      const error = await write(path, 7).then(
        () => null,
        ({ code, message }: { code: string; message: string }) => ({ code, message }),
      );
      if (!tell('over')) break;
      const found = bitsOf(path);
      const left = readdirSync(mine).filter((name) => name !== kind && name !== `${kind}.new`);
      const later = await write(path, 7).then(
        () => bitsOf(path) === wanted,
        () => false,
      );
      const whole = kind === 'events' || found === before || found === wanted;
      process.stdout.write(
        `${JSON.stringify({ kind, mode, at, error, whole, left, later } satisfies Written)}\n`,
      );
    }
