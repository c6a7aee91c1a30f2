/** Groups of threads that write steps as fast as possible. One group writes at a time. */
import { Worker } from 'node:worker_threads';
import type { Writing } from './writers-worker.ts';

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export class Writers {
  readonly #words = new Int32Array(new SharedArrayBuffer(4 * 16 * 4));
  readonly #workers: Worker[] = [];
  readonly #groups: BigInt64Array[][] = [];

  /** Starts a thread for each element of `works`. Returns the group's number. */
  group(works: readonly Omit<Writing, 'turn' | 'words' | 'counts'>[]): number {
    const turn = this.#groups.length + 1;
    const counted = works.map((work) => {
      const counts = new BigInt64Array(new SharedArrayBuffer(8));
      const workerData: Writing = { ...work, turn, words: this.#words, counts };
      this.#workers.push(
        new Worker(new URL('./writers-worker.js', import.meta.url), { workerData }),
      );
      return counts;
    });
    this.#groups.push(counted);
    return turn;
  }
  async ready(): Promise<void> {
    await Promise.all(
      this.#workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))),
    );
  }
  /** Lets the group write for `ms`, and returns millions of steps per second. */
  async rate(group: number, ms: number): Promise<number> {
    const steps = () =>
      this.#groups[group - 1]!.reduce((sum, counts) => sum + Number(Atomics.load(counts, 0)), 0);
    this.#turn(group);
    await pause(10);
    const [before, begin] = [steps(), performance.now()];
    await pause(ms);
    const rate = (steps() - before) / (performance.now() - begin) / 1000;
    this.#turn(0);
    await pause(5);
    return rate;
  }
  async close(): Promise<void> {
    this.#turn(-1);
    await Promise.all(
      this.#workers.map((worker) => new Promise((resolve) => worker.once('exit', resolve))),
    );
  }
  #turn(turn: number): void {
    Atomics.store(this.#words, 0, turn);
    Atomics.notify(this.#words, 0);
  }
}
