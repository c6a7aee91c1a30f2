/**
 * Measures a round trip between two threads. Compares bells with Atomics.wait and Atomics.notify on
 * one word.
 */
import { Worker } from 'node:worker_threads';
import { BELL_WORDS } from '../src/shm/bell.ts';
import { type Benchmark, beside, median, middle } from './harness.ts';
import type { Exchange } from './ring-worker.ts';

/**
 * Returns the microseconds of each round trip. Both sides are workers, because the main thread
 * never parks.
 */
async function roundTrips(how: Exchange['how'], rounds: number): Promise<number[]> {
  const words = new Int32Array(new SharedArrayBuffer((2 * BELL_WORDS + 16) * 4));
  const times = new Float64Array(new SharedArrayBuffer(rounds * 8));
  const sides = [0, 1].map((side) => {
    const workerData: Exchange = { how, rounds, side, words, times };
    const worker = new Worker(new URL('./ring-worker.js', import.meta.url), { workerData });
    return new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));
  });
  await Promise.all(sides);
  return [...times].slice(rounds / 10);
}

export const run: Benchmark = async (report, { quick }) => {
  const rounds = quick ? 2000 : 20_000;
  const all: Record<Exchange['how'], number[]> = { spinning: [], parked: [], bare: [] };
  for (let repeat = 0; repeat < 3; repeat++) {
    for (const how of Object.keys(all) as Exchange['how'][]) {
      all[how].push(median(await roundTrips(how, rounds)));
    }
  }
  report({
    case: 'two threads, state word and bell, spinning',
    metric: 'round trip p50',
    ...middle(all.spinning),
    unit: 'µs',
  });
  report({
    case: 'two threads, state word and bell, parked; bare wait/notify',
    metric: 'round trip p50',
    ...beside(all.parked, all.bare),
    unit: 'µs',
  });
};
