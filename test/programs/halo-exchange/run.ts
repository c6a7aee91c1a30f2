/**
 * Starts the threads and waits for their end; holds what the parts have come to against the
 * undivided run.
 */
import { Worker } from 'node:worker_threads';
import { failHaloExchange } from '../../../src/entries/halo.ts';
import type { PartResult } from './part.ts';
import { cellAt, frame, framesAt, type Plan } from './plan.ts';
import type { Task } from './thread.ts';

export interface Running<T> {
  readonly threads: readonly Worker[];
  /** Resolves once every thread has ended; rejects then with what the first one failed with. */
  readonly done: Promise<T[]>;
}

/** A thread per part, of all of them where nothing else is said. */
export function startParts(plan: Plan, ranks = [...Array(plan.ranks).keys()]): Running<PartResult> {
  return startThreads(
    ranks.map((rank) => ({ plan, rank })),
    // Also for a thread that ended before it took its rank: the other ranks cannot notice that.
    (error) => {
      for (const shared of [plan.wind, plan.tracer]) failHaloExchange(shared, error);
    },
  );
}

/** One thread; its steps' milliseconds. */
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
  /** cells that have other bits */
  different: number;
  /** the first one, in words */
  example: string | null;
}

/** Every cell, at first, under way and at the end. */
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
