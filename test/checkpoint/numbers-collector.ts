/**
 * A collector for tests of saved pools. Each row holds its worker and a number, which continues
 * from the saved state.
 */
import { type Collector, type CollectorContext, defineCollector } from '../../src/index.ts';

export interface NumbersOptions {
  /**
   * `number`: state() returns the next number. `none`: no state(). `throws`: state() throws.
   * `stuck`: collect() of worker 0 waits for words[1]
   */
  states: 'number' | 'none' | 'throws' | 'stuck';
  /** Int32. 0: number of collect() calls of worker 0. 1: set to 1 to release a stuck worker 0 */
  words: Int32Array;
}

export default defineCollector<NumbersOptions>()((context: CollectorContext<NumbersOptions>) => {
  const { worker, options, report, state } = context;
  const { states, words } = options;
  let number = (state as { number: number } | undefined)?.number ?? 0;
  const collector: Collector<{ value: Float32Array }> = {
    collect() {
      // Slows the worker down, so that the ring does not wrap before the test reads it.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0.1);
      if (worker === 0) {
        Atomics.add(words, 0, 1);
        Atomics.notify(words, 0);
        if (states === 'stuck') Atomics.wait(words, 1, 0);
      }
      report.steps(1);
      return { value: Float32Array.of(worker, number++) };
    },
  };
  if (states === 'none') return collector;
  return {
    ...collector,
    state() {
      if (states === 'throws') throw new Error('no environment can be kept');
      return { number };
    },
  };
});
