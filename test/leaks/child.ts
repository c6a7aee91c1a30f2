/**
 * Repeats operations in one process: `child.js LIBRARY TIMES NAMES…`. For each operation it prints
 * how many more bytes are in use after each repetition. It measures the C library's memory of all
 * threads and the heap of this thread.
 */
import { operations } from './operations.ts';

export interface Held {
  operation: string;
  /** bytes per repetition, in each of three equal parts of the repetitions */
  native: number[];
  heap: number[];
  /** number of repetitions in each part */
  count: number;
  /** most bytes of native memory that were garbage at the end of a part */
  garbage: number;
  /** growth of resident memory in bytes over all parts */
  resident: number;
  ms: number;
}

const [library, times, ...names] = process.argv.slice(2) as [string, string, ...string[]];
const module = { exports: {} as { inUse(): string } };
process.dlopen(module, library);

const inUse = () => {
  const bytes = Number(module.exports.inUse());
  if (!(bytes > 0)) throw new Error(`the C library says that ${bytes} bytes are in use`);
  return bytes;
};

const PARTS = 3;

/** Collects garbage, then returns the bytes that are still in use. */
async function held(): Promise<[native: number, heap: number]> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    // Finalizers of addons run in a later turn of the event loop.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return [inUse(), process.memoryUsage().heapUsed];
}

for (const operation of names) {
  const { weight, open } = operations[operation]!;
  const count = Math.max(4, Math.round(Number(times) / weight));
  const { once, close } = await open();
  const begin = performance.now();
  // The first repetitions fill caches, compile code and start threads of a pool.
  for (let i = 0; i < count; i++) await once(i);
  const looks = [await held()];
  let garbage = 0;
  const { rss } = process.memoryUsage();
  for (let part = 1; part <= PARTS; part++) {
    for (let i = 0; i < count; i++) await once(part * count + i);
    const before = inUse();
    const look = await held();
    garbage = Math.max(garbage, before - look[0]);
    looks.push(look);
  }
  const resident = process.memoryUsage().rss - rss;
  await close();
  const per = (of: 0 | 1) =>
    looks.slice(1).map((look, i) => Math.round((look[of] - looks[i]![of]) / count));
  const ms = Math.round(performance.now() - begin);
  const said: Held = { operation, native: per(0), heap: per(1), count, garbage, resident, ms };
  console.log(JSON.stringify(said));
}
