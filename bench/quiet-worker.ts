/**
 * A core's part of a look at how quiet the machine is; as a thread's file, the other cores' side of
 * it.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';

const STEPS = 1_500_000;
/** 64 MiB a core: more than its share of a last cache. */
const WORDS = 2 ** 24;
const READS = 20_000;
/**
 * How often a look does each part: one hiccup among the looks before and after a figure is none of
 * its spread.
 */
export const TIMES = 6;

export const memory = (): Int32Array => new Int32Array(WORDS).fill(1);

/** Milliseconds of each piece, numbers first. */
export function work(words: Int32Array, into: Float64Array): void {
  let x = 0x9e3779b9;
  for (let time = 0; time < TIMES; time++) {
    const begin = performance.now();
    for (let i = 0; i < STEPS; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
    }
    const half = performance.now();
    for (let i = 0; i < READS; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      // The next place depends on what is read here: reads cannot overtake each other.
      x = (x + (words[x & (WORDS - 1)] as number)) | 0;
    }
    into[2 * time] = half - begin;
    into[2 * time + 1] = performance.now() - half;
  }
  // What is never used would not be computed.
  words[0] = x;
}

/** In shared memory: which look is asked for, and how many of the other cores have done it. */
export const ASKED = 0;
export const DONE = 1;

export interface Attending {
  control: Int32Array;
  times: Float64Array;
}

if (!isMainThread && workerData?.control) {
  const { control, times } = workerData as Attending;
  const words = memory();
  for (let i = 0; i < 3; i++) work(words, times);
  let seen = Atomics.load(control, ASKED);
  parentPort?.postMessage('ready');
  for (;;) {
    Atomics.wait(control, ASKED, seen);
    const now = Atomics.load(control, ASKED);
    if (now === seen) continue;
    seen = now;
    work(words, times);
    Atomics.add(control, DONE, 1);
    Atomics.notify(control, DONE);
  }
}
