/**
 * A learner in a worker thread that uses only Sync methods. Its event loop does not turn between
 * open() and closeSync().
 */
import {
  type Placement,
  ReplayBuffer,
  ReplayPipeline,
  type SharedReplayBuffer,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';

export interface SyncLearning {
  buffer: SharedReplayBuffer;
  placement: Placement;
  ticks: number;
  rows: number;
}

await perform(async () => {
  const { buffer, placement, ticks, rows } = givenTask<SyncLearning>();
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
    if (made.waitUntilReadySync(tick + 1, rows, { timeoutMs: 60_000 })) done++;
  }
  made.closeSync();
  made.closeSync();
  const refused = refusal(() => made.sampleLargeBatchSync(ticks + 1, rows)).code;
  return { ticks: done, refused };
});
