/** Ticks per second of a pipeline: by themselves, and one by one in the caller's hands. */
import { Worker } from 'node:worker_threads';
import type { Placement } from '../src/engine/pipeline/options.ts';
import { type ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import type { ManualTask } from './tick-worker.ts';

/** An update of one operation: what remains is Hotslot's own. */
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

/** Ticks from `tick` on: each batch is asked for while the caller has the one before. */
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

/** The same in this thread, or in a worker that may block. */
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
