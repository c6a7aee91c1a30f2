/**
 * Measures how quiet the machine is. Every core does the same reference work before and after each
 * figure, and the spread of its times is recorded. If other programs ran meanwhile, a figure says
 * more about them than about Hotslot.
 */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type Figure, percentile } from './harness.ts';
import { ASKED, type Attending, DONE, memory, TIMES, work } from './quiet-worker.ts';

/**
 * Milliseconds of the reference work, in the order of measurement. `numbers` has the arithmetic,
 * and `memory` the reads that miss every cache.
 */
export interface Looks {
  numbers: number[];
  memory: number[];
}

/** The 90th percentile of the times divided by the 10th. 1 is perfect. */
export interface Spread {
  numbers: number;
  memory: number;
}

/**
 * The widest spread with which figures are recorded. It was measured on two cores of a shared
 * virtual machine. While nothing else ran there, the spreads were 1.03 to 1.17 of numbers and 1.10
 * to 1.66 of memory, nine of ten below 1.35. Next to ten busy threads they were 2.0 to 52 and 1.6
 * to 10. The limit of memory is wider, because other virtual machines use the same last-level
 * cache.
 */
export const MAX_SPREAD: Spread = { numbers: 1.25, memory: 1.5 };

const apart = (times: number[]): number => percentile(times, 0.9) / percentile(times, 0.1);

/** Returns the spread of the times from index `from` on. With fewer than two times it is 1. */
export function spreadOf({ numbers, memory }: Looks, from = 0): Spread {
  if (numbers.length - from < 2) return { numbers: 1, memory: 1 };
  return { numbers: apart(numbers.slice(from)), memory: apart(memory.slice(from)) };
}

export const isWide = (spread: Spread): boolean =>
  spread.numbers > MAX_SPREAD.numbers || spread.memory > MAX_SPREAD.memory;

export const told = ({ numbers, memory }: Spread): string =>
  `${numbers.toFixed(2)} × of numbers, ${memory.toFixed(2)} × of memory`;

/**
 * Returns whether the quartiles of the figure and of its baseline are as close as a quiet machine's
 * times. A figure without quartiles is not steady.
 */
const isSteady = ({ quartiles, baseline, baselineQuartiles }: Figure): boolean =>
  [quartiles, ...(baseline === undefined ? [] : [baselineQuartiles])].every(
    (each) => each !== undefined && each[1] <= each[0] * MAX_SPREAD.numbers,
  );

/**
 * Decides which figures of benchmarks on `device` are recorded. `kept` has all figures of each
 * benchmark during which the machine was quiet. For a device other than the CPU, it also has each
 * figure whose own quartiles are close. `refused` has the benchmarks without any figure in `kept`,
 * with their spreads.
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
 * Returns why the benchmarks must not be recorded, with the spreads and what to do. Returns null if
 * the machine was quiet during all of them.
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

/**
 * Measures the machine's spread with one thread per core. A process has one such object. Its
 * threads sleep between two measurements.
 */
export class Quiet {
  readonly looks: Looks = { numbers: [], memory: [] };
  readonly #words = memory();
  readonly #control = new Int32Array(new SharedArrayBuffer(8));
  readonly #times: Float64Array[] = [];
  readonly #workers: Worker[] = [];
  #told = 0;
  #around: Spread = { numbers: 1, memory: 1 };

  /** Starts a thread for each of `cores` cores but the first, which this thread uses. */
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
    // V8 compiles the code during the first measurements.
    for (let i = 0; i < 3; i++) quiet.look();
    quiet.looks.numbers.length = quiet.looks.memory.length = 0;
    return quiet;
  }

  /** Does the reference work on all cores at once, TIMES times each. It takes about 60 ms. */
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
      // Records the slowest core's time, because the work is done when all cores are done.
      const slowest = (part: number) =>
        Math.max(...this.#times.map((times) => times[2 * time + part] as number));
      this.looks.numbers.push(slowest(0));
      this.looks.memory.push(slowest(1));
    }
  }

  /**
   * Measures again, and returns the spread of this and the previous measurement. Figures that are
   * reported within 50 ms share one measurement.
   */
  around(): Spread {
    if (performance.now() - this.#told < 50) return this.#around;
    const before = this.mark;
    this.look();
    this.#around = spreadOf(this.looks, before);
    this.#told = performance.now();
    return this.#around;
  }
  /** The index of the last measurement's first time, for spreadOf(). */
  get mark(): number {
    return Math.max(0, this.looks.numbers.length - TIMES);
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}
