/**
 * A thread that runs a module of the program as one long task. It is the only thread of a piscina
 * pool.
 */
import type { Transferable, Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { StartedThread } from './thread.ts';

export class TaskThread implements StartedThread {
  /** resolves when the latest task has ended */
  ended: Promise<unknown> = Promise.resolve();
  readonly #entry: URL;
  readonly #late: (error: unknown) => void;
  #pool: Piscina | null = null;
  #thread: Worker | null = null;

  /** `late` receives what the thread throws while it has no task. */
  constructor(entry: URL, late: (error: unknown) => void) {
    this.#entry = entry;
    this.#late = late;
  }

  /**
   * The thread, or null if it has ended. The pool then starts a replacement by itself, which run()
   * does not use. If the replacement ended before a task had begun, the task would wait forever.
   */
  get thread(): Worker | null {
    return this.#pool?.threads[0] === this.#thread ? this.#thread : null;
  }

  /**
   * Runs a task in the thread of the previous task, or in a new thread if that one has ended. The
   * thread gets all flags of the process, such as a loader of the program's modules. Rejects with
   * what the task throws, or if the thread ends first.
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
   * Ends the thread and its pool. It does not call the pool's close(), whose timer would keep the
   * pool alive for another 30 s.
   */
  terminate(): Promise<unknown> {
    return Promise.all([this.#pool?.destroy(), this.#thread?.terminate()]);
  }
}
