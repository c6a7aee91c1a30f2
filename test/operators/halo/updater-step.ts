/** One step in a thread of its own; see steps.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Plane } from './plane.ts';
import { type Step, steps } from './steps.ts';

const { step, plane } = workerData as { step: Step; plane: Plane };
parentPort!.postMessage(await steps[step](plane));
