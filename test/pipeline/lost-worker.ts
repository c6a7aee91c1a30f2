/** A learner that waits synchronously while one of its actors' threads is lost: its event loop never turns. */
import { parentPort, workerData } from 'node:worker_threads';
import { type PipelineError, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { TESTED } from '../tested-device.ts';
import { workersOf } from './crew.ts';

const { buffer, rows, restart } = workerData as { buffer: never; rows: number; restart: number };
const made = await ReplayPipeline.open({
  buffer: ReplayBuffer.attach(buffer),
  device: TESTED,
  sampleCount: rows,
  restart,
});
made.startPrepare(0, rows, 10);
void workersOf(made)[0]?.terminate();
let code = '';
let cause = '';
try {
  made.waitUntilReadySync(0, rows);
} catch (error) {
  code = (error as PipelineError).code;
  cause = ((error as PipelineError).cause as { code: string }).code;
}
made.closeSync();
parentPort?.postMessage({ code, cause });
