/** A worker thread that does one of the tasks of thread-worker.ts. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Refusal } from './rig.ts';
import type { Answer, Handles, TaskName } from './thread-worker.ts';

export class Thread {
  readonly #worker: Worker;
  constructor(task: TaskName, handles: Handles) {
    this.#worker = new Worker(new URL('./thread-worker.js', import.meta.url), { workerData: { task, handles } });
  }
  /** What it posts next; rejects with the refusal it met. */
  async next(): Promise<unknown> {
    const [answer] = (await once(this.#worker, 'message')) as [Answer];
    if ('refused' in answer) throw Object.assign(new Error(), answer.refused) as Refusal;
    return answer.value;
  }
  /** Its answer, once it has ended by itself. */
  async result(): Promise<unknown> {
    const ended = once(this.#worker, 'exit');
    try {
      return await this.next();
    } finally {
      await ended;
    }
  }
  /** Milliseconds that ending it by force took. */
  async terminate(): Promise<number> {
    const begin = performance.now();
    await this.#worker.terminate();
    return performance.now() - begin;
  }
}
