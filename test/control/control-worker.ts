/** A thread whose methods answer, fail, hang or end the thread. */
import { parentPort } from 'node:worker_threads';
import { expose } from '../../src/shm/control.ts';

export class Answers {
  add(word: Int32Array, n: number): number {
    return Atomics.add(word, 0, n) + n;
  }
  fail(): void {
    const cause = Object.assign(new Error('the disk'), { code: 'ENOSPC' });
    throw Object.assign(new RangeError('out of slots', { cause }), { code: 'ERR_OUTER' });
  }
  hang(): void {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }
  exit(): Promise<void> {
    process.exit(3);
  }
}

if (parentPort) expose(new Answers(), parentPort);
