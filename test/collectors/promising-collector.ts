/**
 * Promises nothing, as often as it is asked, and tells how its thread's heap has grown between two
 * counts of that.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { defineCollector } from '../../src/index.ts';

export interface PromisingOptions {
  /** collects at which the heap is looked at */
  first: number;
  last: number;
  /** 0: bytes it has grown by; 1: set when that is known */
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
