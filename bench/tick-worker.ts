/** Runs manual ticks in a worker, where the calls block. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Placement } from '../src/engine/pipeline/options.ts';
import { ReplayBuffer, ReplayPipeline } from '../src/index.ts';

export interface ManualTask {
  buffer: ReturnType<ReplayBuffer['share']>;
  device: string;
  placement: Placement;
  rows: number;
  ticks: number;
}

const { buffer: shared, device, placement, rows, ticks } = workerData as ManualTask;
const buffer = ReplayBuffer.attach(shared);
const pipeline = await ReplayPipeline.open({ buffer, device, sampleCount: rows, placement });
let tick = 0;
function go(count: number): number {
  const begin = performance.now();
  pipeline.startPrepare(tick, rows);
  for (const end = tick + count; tick < end; tick++) {
    pipeline.sampleLargeBatchSync(tick, rows);
    if (tick + 1 < end) pipeline.startPrepare(tick + 1, rows);
    pipeline.afterTick();
  }
  return (count / (performance.now() - begin)) * 1000;
}
go(Math.ceil(ticks / 10));
const perSecond = go(ticks);
await pipeline.close();
parentPort?.postMessage(perSecond);
