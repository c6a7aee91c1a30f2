/**
 * A learner that waits synchronously while the thread of one of its actors ends. Its event loop
 * does not turn meanwhile.
 */
import { ReplayBuffer, ReplayPipeline, type SharedReplayBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import { workersOf } from './inside.ts';

export interface LostLearning {
  buffer: SharedReplayBuffer;
  rows: number;
  restart: number;
}

await perform(async () => {
  const { buffer, rows, restart } = givenTask<LostLearning>();
  const made = await ReplayPipeline.open({
    buffer: ReplayBuffer.attach(buffer),
    device: TESTED,
    sampleCount: rows,
    restart,
  });
  made.startPrepare(0, rows, 10);
  void workersOf(made)[0]?.terminate();
  const { code, cause } = refusal(() => made.waitUntilReadySync(0, rows));
  made.closeSync();
  return { code, cause: (cause as { code: string }).code };
});
