/**
 * A collector for tests of saved pools: every row says its worker and its number, which goes on
 * from state().
 */
import { type Collector, type CollectorContext, defineCollector } from '../../src/index.ts';

export interface NumbersOptions {
  /**
   * none: it says nothing of itself; throws: it cannot; stuck: worker 0 does not come back from
   * collect() until it is let go
   */
  states: 'number' | 'none' | 'throws' | 'stuck';
  /** Int32: 0: collect() calls of worker 0; 1: 1 when it may go on */
  words: Int32Array;
}

export default defineCollector<NumbersOptions>()((context: CollectorContext<NumbersOptions>) => {
  const { worker, options, report, state } = context;
  const { states, words } = options;
  let number = (state as { number: number } | undefined)?.number ?? 0;
  const collector: Collector<{ value: Float32Array }> = {
    collect() {
      // No ring goes round before it is looked at.
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
