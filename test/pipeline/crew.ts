/** Reaches a pipeline's workers, for tests that terminate them. */
import type { Worker } from 'node:worker_threads';
import type { ReplayPipeline } from '../../src/index.ts';
import { crewOf } from '../../src/pipeline.ts';

export function workersOf(made: ReplayPipeline): (Worker | undefined)[] {
  const crew = crewOf(made);
  return [0, 1, 2, 3].map((thread) => crew?.worker(thread));
}
