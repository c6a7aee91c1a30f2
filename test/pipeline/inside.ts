/** Reaches a pipeline's inside, for tests that terminate its threads or hold its streams. */
import { insideOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import type { Slots } from '../../src/engine/pipeline/slots.ts';
import type { ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import type { MessageThread } from '../../src/shm/thread.ts';

/** The actors' threads as they are now; undefined where there is none. */
export function workersOf(made: ReplayPipeline): (MessageThread | undefined)[] {
  const { threads } = insideOf(made);
  return [0, 1, 2, 3].map((thread) => threads?.supervised[thread]?.running ?? undefined);
}
export function slotsOf(made: ReplayPipeline): Slots {
  return insideOf(made).slots;
}
export function bufferOf(made: ReplayPipeline): ReplayBuffer {
  return insideOf(made).buffer;
}
