/**
 * A process that does operations again and again: `child.js LIBRARY TIMES NAMES…` prints, of each,
 * how many bytes more it holds per time, in the C library's memory of all threads and in this
 * thread's heap.
 */
import { operations } from './operations.ts';

export interface Held {
  operation: string;
  /** bytes per time, over each of three equal parts of all times */
  native: number[];
  heap: number[];
  /** times in each part */
  count: number;
  /** bytes of native memory that lay about behind a part until they were collected, at most */
  garbage: number;
  /** bytes that are resident behind all parts, and were not before them */
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

/** What is held, once what nobody holds any more has gone. */
async function held(): Promise<[native: number, heap: number]> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    // Finalizers of addons run in a turn of their own.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return [inUse(), process.memoryUsage().heapUsed];
}

for (const operation of names) {
  const { weight, open } = operations[operation]!;
  const count = Math.max(4, Math.round(Number(times) / weight));
  const { once, close } = await open();
  const begin = performance.now();
  // The first times make what is kept: caches, compiled code, threads of a pool.
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
