/**
 * Tests one device. Copies values to the device and back, then runs one tick through the actors,
 * and checks every row.
 */

import '../assembly.ts';
import { openDevice } from '../device/open.ts';
import { ReplayPipeline } from '../engine/pipeline/replay-pipeline.ts';
import { ReplayBuffer } from '../store/rows/replay-buffer.ts';
import { uniformIndices } from '../store/rows/sampler.ts';

const STORED = 64;
const ROWS = 16;
const WAIT_MS = 10_000;

/** Resolves with the milliseconds of both steps. Rejects with the reason if a step fails. */
export async function selfTest(name: string): Promise<{ copyMs: number; tickMs: number }> {
  const begin = performance.now();
  await copies(name);
  const between = performance.now();
  await tick(name);
  return { copyMs: between - begin, tickMs: performance.now() - between };
}

async function copies(name: string): Promise<void> {
  using device = openDevice(name);
  using there = device.allocate({ shape: [1024] });
  const values = Float32Array.from({ length: 1024 }, (_, i) => Math.sin(i));
  const back = await there.write(values).toArray();
  const wrong = values.findIndex((value, i) => back[i] !== value);
  if (wrong >= 0)
    throw new Error(
      `a copy to ${name} and back changed element ${wrong}: ${values[wrong]} → ${back[wrong]}`,
    );
}

async function tick(name: string): Promise<void> {
  const buffer = ReplayBuffer.create({ capacity: STORED, fields: { row: { shape: [1] } } });
  buffer.add({ row: Float32Array.from({ length: STORED }, (_, i) => i) });
  await using pipeline = await ReplayPipeline.open({ buffer, device: name, sampleCount: ROWS });
  if (!(await pipeline.waitUntilReady(0, ROWS, { timeoutMs: WAIT_MS })))
    throw new Error(
      `a tick on ${name} was not ready after ${WAIT_MS} ms; it waits for ${pipeline.waitingFor()}`,
    );
  const batch = await pipeline.sampleLargeBatch(0, ROWS);
  const rows = await batch.row!.toArray();
  pipeline.afterTick();
  const drawn = uniformIndices({ seed: 0, size: STORED, count: ROWS });
  for (let i = 0; i < ROWS; i++)
    if (rows[i] !== Number(drawn[i]))
      throw new Error(`row ${i} of a tick on ${name} is ${rows[i]}, expected ${drawn[i]}`);
}
