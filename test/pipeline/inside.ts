/**
 * Access to the internals of a pipeline, for tests that terminate its threads or hold its streams.
 */
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import type { Slots } from '../../src/engine/pipeline/slots.ts';
import type { ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import type { MessageThread } from '../../src/shm/thread.ts';

/**
 * Returns the current threads of the actors. An entry is undefined if the thread does not exist.
 */
export function workersOf(made: ReplayPipeline): (MessageThread | undefined)[] {
  const { threads } = internalsOf(made);
  return [0, 1, 2, 3].map((thread) => threads?.supervised[thread]?.running ?? undefined);
}
export function slotsOf(made: ReplayPipeline): Slots {
  return internalsOf(made).slots;
}
export function bufferOf(made: ReplayPipeline): ReplayBuffer {
  return internalsOf(made).buffer;
}
