/** Reaches a pipeline's inside, for tests that terminate its threads or hold its streams. */
import type { Worker } from 'node:worker_threads';
import { insideOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import type { Slots } from '../../src/engine/pipeline/slots.ts';
import type { ReplayBuffer, ReplayPipeline } from '../../src/index.ts';

export function workersOf(made: ReplayPipeline): (Worker | undefined)[] {
  const { threads } = insideOf(made);
  return [0, 1, 2, 3].map((thread) => threads?.worker(thread));
}
export function slotsOf(made: ReplayPipeline): Slots {
  return insideOf(made).slots;
}
export function bufferOf(made: ReplayPipeline): ReplayBuffer {
  return insideOf(made).buffer;
}
