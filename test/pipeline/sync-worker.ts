/** A learner in a worker thread that never turns its event loop between opening and closing. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Placement, ReplayBuffer, ReplayPipeline, type SharedReplayBuffer } from '../../src/index.ts';
import { TESTED } from '../tested-device.ts';

interface Task {
  buffer: SharedReplayBuffer;
  placement: Placement;
  ticks: number;
  rows: number;
}
const { buffer, placement, ticks, rows } = workerData as Task;
const made = await ReplayPipeline.open({
  buffer: ReplayBuffer.attach(buffer),
  device: TESTED,
  sampleCount: rows,
  placement,
});
let done = 0;
for (let tick = 0; tick < ticks; tick++) {
  made.sampleLargeBatchSync(tick, rows);
  made.afterTick();
  made.startPrepare(tick + 1, rows);
  if (made.waitUntilReadySync(tick + 1, rows, { timeoutMs: 10_000 })) done++;
}
made.closeSync();
made.closeSync();
let refused = '';
try {
  made.sampleLargeBatchSync(ticks + 1, rows);
} catch (error) {
  refused = (error as { code: string }).code;
}
parentPort?.postMessage({ ticks: done, refused });
