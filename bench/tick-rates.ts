/** Measures ticks per second of a pipeline: in run(), and as manual ticks. */
import { Worker } from 'node:worker_threads';
import type { Placement } from '../src/engine/pipeline/options.ts';
import { type ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import type { ManualTask } from './tick-worker.ts';

/** Captures an update of one operation, so that almost all of a tick's time is Hotslot's own. */
export function idle(pipeline: ReplayPipeline): void {
  pipeline.capture((batch, { stream, out }) => {
    stream.copy(
      out.view({ shape: [1] }),
      (batch.row as NonNullable<typeof batch.row>).view({ shape: [1] }),
    );
  });
}

export async function rate(
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

/**
 * Runs manual ticks from `tick` on, and returns ticks per second. It requests each batch while it
 * still uses the one before.
 */
export async function manualTicks(
  pipeline: ReplayPipeline,
  rows: number,
  tick: number,
  ticks: number,
): Promise<number> {
  const begin = performance.now();
  pipeline.startPrepare(tick, rows);
  for (const end = tick + ticks; tick < end; tick++) {
    await pipeline.sampleLargeBatch(tick, rows);
    if (tick + 1 < end) pipeline.startPrepare(tick + 1, rows);
    pipeline.afterTick();
  }
  return (ticks / (performance.now() - begin)) * 1000;
}

/** Returns the rate of manual ticks in this thread, or in a worker whose calls may block. */
export async function manualRate(
  thread: 'main' | 'worker',
  task: Omit<ManualTask, 'buffer'>,
  buffer: ReplayBuffer,
) {
  if (thread === 'worker') {
    const workerData: ManualTask = { ...task, buffer: buffer.share() };
    const worker = new Worker(new URL('./tick-worker.js', import.meta.url), { workerData });
    return new Promise<number>((resolve, reject) =>
      worker.once('message', resolve).once('error', reject),
    );
  }
  const { device, placement, rows, ticks } = task;
  await using pipeline = await ReplayPipeline.open({
    buffer,
    device,
    sampleCount: rows,
    placement,
  });
  const warm = Math.ceil(ticks / 10);
  await manualTicks(pipeline, rows, 0, warm);
  return await manualTicks(pipeline, rows, warm, ticks);
}

export type Placed = Placement;
