/** A collector for the pool's tests. Its options decide what it does. */
import type { Collector, CollectorContext } from '../../src/index.ts';

export interface PlainOptions {
  /** the call that misbehaves, or the way in which collect() does */
  fault?: 'factory' | 'collect' | 'stuck' | 'not a collector' | 'never' | 'slow';
  /** the value that 'factory' and 'collect' throw instead of an error */
  nothing?: 'null' | 'undefined';
  /** collect() returns promises, for which the event loop must stay alive */
  later?: boolean;
  /** each step takes some time, so that readers miss no episode */
  calm?: boolean;
  /** 'collect' leaves a timer that throws */
  leaves?: boolean;
  /** the only worker that misbehaves. By default all do */
  faulty?: number;
  /**
   * Int32 words that the test and its collectors share: calls of collect(), closes, 1 if 'collect'
   * may fail. With more words: restarts, `stepsBefore`, and the reported steps
   */
  words?: Int32Array;
}

/**
 * Returns rows of two floats: worker × 1,000,000 + a count, or the first weight after weights were
 * loaded, and the worker.
 */
export default async function plain(context: CollectorContext): Promise<Collector> {
  const { worker, options, report, seed, restarts, stepsBefore } = context;
  const {
    fault,
    faulty = worker,
    words,
    later = false,
    calm = false,
    leaves = false,
    nothing,
  } = (options ?? {}) as PlainOptions;
  const mine = fault !== undefined && faulty === worker ? fault : undefined;
  const throwNothing = () => {
    if (nothing !== undefined) throw nothing === 'null' ? null : undefined;
  };
  if (mine === 'factory') throwNothing();
  if (mine === 'factory')
    throw new Error('no environment today', { cause: new RangeError('it rains') });
  if (mine === 'slow') await new Promise((resolve) => setTimeout(resolve, 300));
  if (mine === 'not a collector') return {} as Collector;
  const tells = words !== undefined && words.length > 3 && mine !== undefined;
  if (tells)
    for (const [at, value] of [restarts, stepsBefore].entries())
      Atomics.store(words, 3 + at, value);
  const row = new Float32Array(2);
  let count = 0;
  let weight = -1;
  return {
    load(weights) {
      weight = weights[0] as number;
    },
    collect() {
      if (words) Atomics.add(words, 0, 1);
      // A stuck environment never returns. Only the end of its thread ends the loop.
      while (mine === 'stuck' && count === 3) {}
      // Fails once each time the test sets the word.
      if (mine === 'collect' && words && Atomics.compareExchange(words, 2, 1, 0) === 1) {
        const late = () => {
          throw new Error('a timer that was left');
        };
        if (leaves) setTimeout(late, 20);
        throwNothing();
        throw new Error('the environment broke');
      }
      if (mine === 'never' && count === 3) return new Promise(() => {});
      if (calm) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0.2);
      row[0] = weight >= 0 ? weight : worker * 1_000_000 + count + seed;
      row[1] = worker;
      count++;
      report.steps(1);
      if (tells) Atomics.add(words, 5, 1);
      if (count % 10 === 0) report.episode(10 * (worker + 1), 10);
      return later
        ? new Promise((resolve) => setTimeout(resolve, 0, { value: row }))
        : { value: row };
    },
    close() {
      if (words) Atomics.add(words, 1, 1);
    },
  };
}
