/**
 * Uses an own kernel in a captured graph. It shifts batches of frames at random, differently at
 * every launch.
 */

import { deviceNamed, runExample, wrapped } from '../../../examples/command-line.ts';
import { DeviceGenerator } from '../../../src/entries/graph.ts';
import { Random } from '../../../src/index.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { type Frames, loadShift, shift, shiftHere } from './shift.ts';

const CHANNELS = 3;

/** Draws frames with a visible shape: a bright ring on dark noise. */
function drawFrames({ rows, channels, size }: Frames, random: Random): Uint8Array {
  return Uint8Array.from({ length: rows * channels * size * size }, (_, i) => {
    const [x, y] = [i % size, Math.floor(i / size) % size];
    const radius = Math.hypot(x + 0.5 - size / 2, y + 0.5 - size / 2) / (size / 2);
    return random.below(60) + (radius > 0.5 && radius < 0.75 ? 180 : 0);
  });
}

/** Returns a frame's first channel as 11 lines of 21 characters. */
function picture(values: ArrayLike<number>, size: number, most: number): string[] {
  const at = (line: number, column: number) =>
    Math.floor(((line + 0.5) * size) / 11) * size + Math.floor(((column + 0.5) * size) / 21);
  return Array.from({ length: 11 }, (_, line) =>
    Array.from({ length: 21 }, (_, column) =>
      (values[at(line, column)] as number) > 0.5 * most ? '#' : '.',
    ).join(''),
  );
}

async function main({
  device: name,
  rows,
  size,
  pad,
  replays,
  seed,
  json,
}: CommandLine): Promise<number> {
  using device = deviceNamed(name);
  const what = { rows, channels: CHANNELS, size, pad };
  const begin = performance.now();
  const kernel = await loadShift(device);
  const loadMs = performance.now() - begin;

  const shape = [rows, CHANNELS, size, size];
  const bytes = drawFrames(what, new Random(seed));
  using frames = device.allocate({ shape, dtype: 'uint8' }).write(bytes);
  using draws = device.allocate({ shape: [rows, 2] });
  using out = device.allocate({ shape });
  using generator = new DeviceGenerator(device, { seed });
  await device.currentStream.synchronize();

  using stream = device.createStream();
  stream.beginCapture();
  generator.uniform(stream, draws);
  shift(stream, kernel, out, frames, draws, what);
  using graph = stream.endCapture();
  using batch = graph.instantiate();

  stream.replay(batch);
  const first = await out.toArray(stream);
  const start = performance.now();
  for (let i = 1; i < replays; i++) stream.replay(batch);
  await stream.synchronize();
  const batchMs = (performance.now() - start) / Math.max(replays - 1, 1);

  const last = await out.toArray(stream);
  const wanted = shiftHere(bytes, await draws.toArray(stream), what);
  const equal = Buffer.from(last.buffer, last.byteOffset, last.byteLength).equals(
    Buffer.from(wanted.buffer),
  );
  if (json) {
    console.log(
      JSON.stringify({ device: device.name, rows, size, pad, replays, loadMs, batchMs, equal }),
    );
    return equal ? 0 : 1;
  }
  const [before, once, again] = [
    picture(bytes, size, 255),
    picture(first, size, 1),
    picture(last, size, 1),
  ];
  console.log(`${'a frame'.padEnd(24)}${'the first batch'.padEnd(24)}the last batch`);
  for (const [i, line] of before.entries()) console.log(`${line}   ${once[i]}   ${again[i]}`);
  console.log(
    wrapped(
      `\n${device.name}: kernel ready after ${loadMs.toFixed(0)} ms; ${replays} batches of ${rows} frames of ${size} × ${size}, ${batchMs.toFixed(3)} ms each; ${equal ? 'the last equals what JavaScript makes of the same draws, bit for bit' : 'the last DIFFERS from what JavaScript makes of the same draws'}`,
    ),
  );
  return equal ? 0 : 1;
}

await runExample({ name: 'own-kernel', help, parse: parseCommandLine, main });
