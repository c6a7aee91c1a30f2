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

  /** `late` hears what a thread throws that has no task. */
  constructor(entry: URL, late: (error: unknown) => void) {
    this.#entry = entry;
    this.#late = late;
  }

  /**
   * Null where it has ended: its pool makes another one then, whose task waits for ever where that
   * ends before it has begun.
   */
  get thread(): Worker | null {
    return this.#pool?.threads[0] === this.#thread ? this.#thread : null;
  }

  /**
   * In the thread of the task before, or a new one where that has ended. It gets all flags of the
   * process: a loader of the program's modules is among them. Rejects with what the task throws,
   * and where its thread ends first.
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

  /** Not the pool's close(): its timer holds the pool for 30 s more. */
  terminate(): Promise<unknown> {
    return Promise.all([this.#pool?.destroy(), this.#thread?.terminate()]);
  }
}
