/** The learner's thread, which stands still where it is told to. */
import { workerData } from 'node:worker_threads';
import { type EndedTask, standStill } from './moments.ts';

standStill(workerData as EndedTask);
await import('../../src/net/remote/remote-thread.ts');
