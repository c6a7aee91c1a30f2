/** A collector for the pool's tests: what it does follows from the options it is given. */
import type { Collector, CollectorContext } from '../../src/index.ts';

export interface PlainOptions {
  /** where collect() misbehaves */
  fault?: 'factory' | 'collect' | 'stuck' | 'not a collector' | 'never' | 'slow';
  /** 'factory' and 'collect' throw it in place of an error */
  nothing?: 'null' | 'undefined';
  /** collect() answers with promises, which the event loop has to keep */
  later?: boolean;
  /** a step takes a moment: nobody misses an episode */
  calm?: boolean;
  /** 'collect' leaves a timer behind, which throws */
  leaves?: boolean;
  /** only this worker misbehaves; all when left out */
  faulty?: number;
  /**
   * Int32 words between a test and its collectors: collect() calls, closes, 1 when 'collect' may
   * fail; where there are more: restarts, steps before, steps that it has reported
   */
  words?: Int32Array;
}

/** Rows of one float: worker × 1,000,000 + a count, or the first weight once one was loaded. */
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
      // A stuck environment never comes back: nothing but the end of its thread ends it.
      while (mine === 'stuck' && count === 3) {}
      // Once per time that the test says so.
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
