/** The learner's thread, which stops at the moment that its task names. */
import { workerData } from 'node:worker_threads';
import { type EndedTask, standStill } from './moments.ts';

standStill(workerData as EndedTask);
await import('../../src/net/remote/remote-thread.ts');
