/**
 * How quiet the machine is: the same short work before and after each figure, on every core at
 * once, and how far its times lie apart. A figure that was measured while others worked here says
 * more about them than about what it is of.
 */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type Figure, percentile } from './harness.ts';
import { ASKED, type Attending, DONE, memory, TIMES, work } from './quiet-worker.ts';

/** Milliseconds of each look's two parts: numbers alone, and reads that no cache answers. */
export interface Looks {
  numbers: number[];
  memory: number[];
}

/**
 * How far the times lie apart: what the slow tenth takes at least, over what the fast tenth takes
 * at most. 1 is perfect.
 */
export interface Spread {
  numbers: number;
  memory: number;
}

/**
 * What a record may have at most. Measured on two cores of a shared virtual machine: looks that
 * went before everything else there had 1.03 to 1.17 of numbers and 1.10 to 1.66 of memory, nine of
 * ten below 1.35; looks among ten busy threads had 2.0 to 52, and 1.6 to 10. Memory is wider
 * because neighbors take their share of the last cache.
 */
export const MAX_SPREAD: Spread = { numbers: 1.25, memory: 1.5 };

const apart = (times: number[]): number => percentile(times, 0.9) / percentile(times, 0.1);

/** Of the looks from this one on; fewer than two lie nowhere apart. */
export function spreadOf({ numbers, memory }: Looks, from = 0): Spread {
  if (numbers.length - from < 2) return { numbers: 1, memory: 1 };
  return { numbers: apart(numbers.slice(from)), memory: apart(memory.slice(from)) };
}

export const isWide = (spread: Spread): boolean =>
  spread.numbers > MAX_SPREAD.numbers || spread.memory > MAX_SPREAD.memory;

export const told = ({ numbers, memory }: Spread): string =>
  `${numbers.toFixed(2)} × of numbers, ${memory.toFixed(2)} × of memory`;

/**
 * Whether a figure's own rounds, and its baseline's, lie as close together as a quiet machine's
 * work does; one without rounds does not.
 */
const isSteady = ({ quartiles, baseline, baselineQuartiles }: Figure): boolean =>
  [quartiles, ...(baseline === undefined ? [] : [baselineQuartiles])].every(
    (each) => each !== undefined && each[1] <= each[0] * MAX_SPREAD.numbers,
  );

/**
 * What is recorded of benchmarks that ran on `device`: all of one during which the machine was
 * quiet. Where it was not, the processor's own figures say more about others' work. A figure of
 * another device says how steady it was itself.
 */
export function judged(
  device: string,
  figures: readonly Figure[],
  spreads: Readonly<Record<string, Spread>>,
): { kept: Figure[]; refused: Record<string, Spread> } {
  const host = device.startsWith('host');
  const wide = (bench: string) => isWide(spreads[bench]!);
  const kept = figures.filter((figure) => !wide(figure.bench) || (!host && isSteady(figure)));
  const refused = Object.entries(spreads).filter(
    ([bench]) => wide(bench) && !kept.some((each) => each.bench === bench),
  );
  return { kept, refused: Object.fromEntries(refused) };
}

/**
 * Why these must not be recorded, what was seen and what to do; null where all were measured in
 * quiet.
 */
export function unquiet(benches: Readonly<Record<string, Spread>>): string | null {
  const wide = Object.entries(benches).filter(([, spread]) => isWide(spread));
  if (wide.length === 0) return null;
  const seen = wide.map(([bench, spread]) => `'${bench}' (${told(spread)})`).join(', ');
  return (
    `not recorded: the machine was not quiet during ${seen}. The same short work, done before and after each figure, ` +
    `may differ by ${told(MAX_SPREAD)} between its fast and its slow tenth. End what else runs here, or wait until it is over ` +
    `(the load average tells), and run ${wide.length === 1 ? 'it' : 'them'} again`
  );
}

/** Looks at the machine; one for a process. Its threads sleep between two looks. */
export class Quiet {
  readonly looks: Looks = { numbers: [], memory: [] };
  readonly #words = memory();
  readonly #control = new Int32Array(new SharedArrayBuffer(8));
  readonly #times: Float64Array[] = [];
  readonly #workers: Worker[] = [];
  #told = 0;
  #around: Spread = { numbers: 1, memory: 1 };

  /** On so many cores at once. */
  static async open(cores = Math.min(availableParallelism(), 8)): Promise<Quiet> {
    const quiet = new Quiet();
    for (let core = 0; core < cores; core++) {
      const times = new Float64Array(new SharedArrayBuffer(8 * 2 * TIMES));
      quiet.#times.push(times);
      if (core === 0) continue;
      const workerData: Attending = { control: quiet.#control, times };
      const worker = new Worker(new URL('./quiet-worker.js', import.meta.url), { workerData });
      worker.unref();
      quiet.#workers.push(worker);
      await new Promise((resolve) => worker.once('message', resolve));
    }
    // The first ones compile.
    for (let i = 0; i < 3; i++) quiet.look();
    quiet.looks.numbers.length = quiet.looks.memory.length = 0;
    return quiet;
  }

  /** About 60 ms: both parts some times on each core, all cores at once. */
  look(): void {
    const control = this.#control;
    Atomics.store(control, DONE, 0);
    Atomics.add(control, ASKED, 1);
    Atomics.notify(control, ASKED);
    work(this.#words, this.#times[0] as Float64Array);
    for (;;) {
      const done = Atomics.load(control, DONE);
      if (done === this.#workers.length) break;
      Atomics.wait(control, DONE, done);
    }
    for (let time = 0; time < TIMES; time++) {
      // The slowest core tells: work is over when all of it is.
      const slowest = (part: number) =>
        Math.max(...this.#times.map((times) => times[2 * time + part] as number));
      this.looks.numbers.push(slowest(0));
      this.looks.memory.push(slowest(1));
    }
  }

  /** Of the last two looks, the second one taken now; what is told at one moment shares it. */
  around(): Spread {
    if (performance.now() - this.#told < 50) return this.#around;
    const before = this.mark;
    this.look();
    this.#around = spreadOf(this.looks, before);
    this.#told = performance.now();
    return this.#around;
  }
  /** Where the last look begins among all of them, for spreadOf(). */
  get mark(): number {
    return Math.max(0, this.looks.numbers.length - TIMES);
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}
