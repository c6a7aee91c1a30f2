/**
 * The reference work of one core, from which quiet.ts computes how quiet the machine is. As a
 * worker's file, it runs that work for every core but the first.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';

const STEPS = 1_500_000;
/** Elements that each core reads from: 64 MiB, more than its share of the last-level cache. */
const WORDS = 2 ** 24;
const READS = 20_000;
/**
 * How often a measurement does the work. With this many times, a single slow one next to a figure
 * does not widen the figure's spread.
 */
export const TIMES = 6;

export const memory = (): Int32Array => new Int32Array(WORDS).fill(1);

/**
 * Does the work TIMES times. `into` receives milliseconds: of the arithmetic, then of the reads,
 * for each time.
 */
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
      // The next index depends on the value read here, so the CPU cannot overlap the reads.
      x = (x + (words[x & (WORDS - 1)] as number)) | 0;
    }
    into[2 * time] = half - begin;
    into[2 * time + 1] = performance.now() - half;
  }
  // Uses the result. Otherwise the compiler could remove the computation.
  words[0] = x;
}

/**
 * Indices in the shared control words: the number of the requested measurement, and how many
 * workers have finished it.
 */
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
