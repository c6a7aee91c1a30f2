/** Starts the threads, waits for their end, and compares the parts with the undivided run. */
import { Worker } from 'node:worker_threads';
import { failHaloExchange } from '../../../src/entries/halo.ts';
import type { PartResult } from './part.ts';
import { cellAt, frame, framesAt, type Plan } from './plan.ts';
import type { Task } from './thread.ts';

export interface Running<T> {
  readonly threads: readonly Worker[];
  /**
   * Settles after every thread has ended. Rejects with the error of the thread that failed first.
   */
  readonly done: Promise<T[]>;
}

/** Starts a thread for each part, by default for all parts. */
export function startParts(plan: Plan, ranks = [...Array(plan.ranks).keys()]): Running<PartResult> {
  return startThreads(
    ranks.map((rank) => ({ plan, rank })),
    // A thread may end before it claims its rank, which the other ranks cannot detect. So this
    // makes the exchange fail for all of them.
    (error) => {
      for (const shared of [plan.wind, plan.tracer]) failHaloExchange(shared, error);
    },
  );
}

/** Starts one thread for the undivided run. Its result is the milliseconds of all steps. */
export function startUndivided(plan: Plan): Running<number> {
  return startThreads([{ plan, rank: null }], () => {});
}

function startThreads<T>(tasks: readonly Task[], onFailure: (error: Error) => void): Running<T> {
  const entry = new URL('./thread.js', import.meta.url);
  const threads = tasks.map((task) => new Worker(entry, { workerData: task }));
  let first: Error | null = null;
  const ended = threads.map(
    (thread, index) =>
      new Promise<T | undefined>((resolve) => {
        const { rank } = tasks[index]!;
        let result: { of: T } | null = null;
        const failed = (error: Error) => {
          if (first) return;
          first = error;
          onFailure(error);
        };
        thread.once('message', (of: T) => {
          result = { of };
        });
        thread.once('error', failed);
        thread.once('exit', (code) => {
          const who = rank === null ? 'of the undivided run' : `of rank ${rank}`;
          if (!result)
            failed(
              new Error(`the thread ${who} ended before its last step, with exit code ${code}`),
            );
          resolve(result?.of);
        });
      }),
  );
  const done = Promise.all(ended).then((results) => {
    if (first) throw first;
    return results as T[];
  });
  return { threads, done };
}

export interface Comparison {
  cells: number;
  /** number of cells whose bits differ */
  different: number;
  /** text that describes the first of them */
  example: string | null;
}

/** Compares every cell in all three kept fields. */
export function compare(plan: Plan): Comparison {
  const { size } = plan;
  const frames = framesAt(plan.steps).map((step, index) => ({
    step,
    parts: frame(plan, plan.parts, index),
    undivided: frame(plan, plan.undivided, index),
  }));
  const comparison: Comparison = { cells: frames[0]!.parts.length, different: 0, example: null };
  for (let k = 0; k < comparison.cells; k++) {
    const found = frames.find(({ parts, undivided }) => !Object.is(parts[k], undivided[k]));
    if (!found) continue;
    comparison.different++;
    const { rank, i, j } = cellAt(size, k);
    const cell = `cell [${i}, ${j}] of rank ${rank}`;
    comparison.example ??= `${cell} is ${found.parts[k]} after step ${found.step}, undivided ${found.undivided[k]}`;
  }
  return comparison;
}
