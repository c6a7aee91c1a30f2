/** The code of a worker thread: it runs one part or, if its rank is null, the undivided run. */
import { parentPort, workerData } from 'node:worker_threads';
import { runPart } from './part.ts';
import type { Plan } from './plan.ts';
import { runUndivided } from './undivided.ts';

export interface Task {
  plan: Plan;
  rank: number | null;
}

const { plan, rank } = workerData as Task;
parentPort?.postMessage(rank === null ? runUndivided(plan) : runPart(plan, rank));
