/** A thread that runs a module of the program as one long task: a piscina of one. */
import type { Transferable, Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { StartedThread } from './thread.ts';

export class TaskThread implements StartedThread {
  /** of the latest task */
  ended: Promise<unknown> = Promise.resolve();
  readonly #entry: URL;
  readonly #late: (error: unknown) => void;
  #pool: Piscina | null = null;
  #thread: Worker | null = null;

  /** `late` is called with what a thread without a task throws. */
  constructor(entry: URL, late: (error: unknown) => void) {
    this.#entry = entry;
    this.#late = late;
  }

  /**
   * The thread, or null if it has ended. Its pool then makes another one, whose task waits forever
   * if that ends before it has begun.
   */
  get thread(): Worker | null {
    return this.#pool?.threads[0] === this.#thread ? this.#thread : null;
  }

  /**
   * Runs a task in the thread of the task before, or in a new one if that has ended. The thread
   * gets all flags of the process, such as a loader of the program's modules. Rejects with what the
   * task throws, or if its thread ends first.
   */
  run(setup: unknown, transferList: Transferable[]): Promise<void> {
    if (this.thread === null) {
      void this.terminate();
      const one = { minThreads: 1, maxThreads: 1, concurrentTasksPerWorker: 1 };
      this.#pool = new Piscina({
        filename: this.#entry.href,
        ...one,
        atomics: 'disabled',
        recordTiming: false,
      });
      this.#pool.on('error', this.#late);
      this.#thread = this.#pool.threads[0]!;
    }
    const running: Promise<void> = this.#pool!.run(setup, { transferList });
    this.ended = running.catch(() => {});
    return running;
  }

  /**
   * Ends thread and pool. The pool's close() has a timer that would hold the pool for 30 s more.
   */
  terminate(): Promise<unknown> {
    return Promise.all([this.#pool?.destroy(), this.#thread?.terminate()]);
  }
}
