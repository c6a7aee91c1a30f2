/**
 * Returns a promise of null from each collect(). Reports how much its thread's heap has grown
 * between two calls.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { defineCollector } from '../../src/index.ts';

export interface PromisingOptions {
  /** the numbers of the two calls of collect() that measure the heap */
  first: number;
  last: number;
  /** word 0: bytes that the heap has grown. Word 1: 1 after word 0 is set */
  words: Int32Array;
}

export default defineCollector<PromisingOptions>()(({ options: { first, last, words } }) => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const heap = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  let collects = 0;
  let before = 0;
  return {
    async collect(): Promise<null> {
      collects++;
      if (collects === first) before = heap();
      if (collects === last) {
        Atomics.store(words, 0, heap() - before);
        Atomics.store(words, 1, 1);
      }
      return null;
    },
  };
});
