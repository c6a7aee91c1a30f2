/**
 * The one long task of a worker's thread. It creates the collector. Then it collects, adds and
 * reads weights until the stop word is set.
 */
import { setTimeout } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';
import { nowMs } from '../../base/clock.ts';
import { typeError } from '../../base/errors.ts';
import { toPlain } from '../../base/plain-error.ts';
import { Bell } from '../../shm/bell.ts';
import { MAX_PARK_MS } from '../../shm/wait.ts';
import type { Steps } from '../../store/lanes/schema.ts';
import type { SharedTrajectoryBuffer } from '../../store/lanes/shared-steps.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';
import { internalsOfLimiter, type RateLimiter } from '../../store/rate-limiter.ts';
import { ReplayBuffer, type SharedReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { type SharedWeightMailbox, WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type {
  BufferField,
  Collected,
  Collector,
  CollectorContext,
  CollectorFactory,
} from './collector.ts';
import { HOLD, OPENER_BELL, READY, STOP } from './control-block.ts';
import { isNeverRestarted } from './never-restarted.ts';
import { StatisticsPages, type StatisticsShare, type StatisticsWriter } from './statistics.ts';

/**
 * Most milliseconds that a restarted collector waits for its previous thread to release the lanes.
 * After that, the claim's error ends the collector.
 */
const FREED_MS = 2000;

export interface CollectorSetup {
  entry: string;
  worker: number;
  workers: number;
  seed: number;
  options: unknown;
  buffer: SharedReplayBuffer | SharedTrajectoryBuffer;
  mailbox: SharedWeightMailbox | null;
  /** this worker's bell on the limiter's board, −1 if no limiter gates add() */
  bell: number;
  control: Int32Array;
  statistics: StatisticsShare;
  /** number of times that the collector was recreated. Its previous thread may still be ending */
  restarts: number;
  /** state of the collector in an earlier run, null for a new collector */
  resume: SavedCollector | null;
  /** port to the opener, for the result of state() */
  port: MessagePort;
}

/** The state of a collector between two calls of collect(), as its thread reports it. */
export interface SavedCollector {
  /** the result of state() */
  readonly state: unknown;
  /** rows collected but not yet added */
  readonly rows: Collected;
}
/**
 * A thread's answer to the request to stand still. `hold` is the hold word that it answers.
 * `refused` is the reason why the collector cannot return its state.
 */
export type HoldAnswer = { readonly hold: number } & (
  | { readonly saved: SavedCollector | null }
  | { readonly refused: string }
);

/**
 * The collector's exception as plain data. Structured cloning would drop the exception's code and
 * class.
 */
export interface CollectorThrew {
  readonly thrown: unknown;
  /** whether a restart cannot mend the error */
  readonly final: boolean;
}

/**
 * Runs a collector. Resolves after the thread has seen the stop word. Rejects with an object that
 * contains the exception of the user's module.
 */
export default async function collectUntilStopped(setup: CollectorSetup): Promise<void> {
  try {
    await collect(setup);
  } catch (error) {
    // Wraps the exception in an object, because the thread pool treats a thrown null or undefined
    // as a result.
    throw {
      thrown: toPlain(error),
      final: isNeverRestarted(error),
    } satisfies CollectorThrew;
  }
}

async function collect(setup: CollectorSetup): Promise<void> {
  const { entry, worker, workers, seed, options, restarts, resume, control } = setup;
  const { default: factory } = (await import(entry)) as { default?: CollectorFactory };
  if (typeof factory !== 'function') {
    throw typeError(
      `${entry} must export a function that makes a collector as its default, but it exports ${typeof factory}`,
    );
  }
  const report = new StatisticsPages(setup.statistics).writer(worker);
  const { limiter, writer, fields, add } = await attached(setup);
  try {
    const before = { restarts, stepsBefore: report.stepsSoFar, state: resume?.state };
    const collector = await factory({
      worker,
      workers,
      seed,
      ...before,
      options,
      writer,
      fields,
      report,
    });
    if (typeof collector?.collect !== 'function') {
      throw typeError(
        `the collector made by ${entry} needs a collect() function, but has ${typeof collector?.collect}`,
      );
    }
    Atomics.add(control, READY, 1);
    new Bell(control.subarray(OPENER_BELL)).ring();
    try {
      await loop(collector, { ...setup, limiter, add }, report);
    } finally {
      // Clears the start time, which is still set if collect() threw. Otherwise the pool could warn
      // that this collect() has not returned.
      report.collected();
      await collector.close?.();
    }
  } finally {
    // Releases the lanes for a recreated collector. If the thread ends before this line, its end
    // releases them.
    writer?.close();
  }
}

/**
 * The destination of collect()'s results. Rows are added to the buffer. Steps are added by a writer
 * of this worker's lanes.
 */
interface Sink {
  limiter: RateLimiter | null;
  writer: TrajectoryWriter | null;
  fields: CollectorContext['fields'];
  /**
   * adds rows or steps, and returns the number added. Returns 0 if the limiter does not allow any
   * yet
   */
  add: (collected: object) => number;
}

async function attached({
  buffer: shared,
  worker,
  workers,
  restarts,
  resume,
}: CollectorSetup): Promise<Sink> {
  if (shared.kind === 'hotslot.ReplayBuffer') {
    const buffer = ReplayBuffer.attach(shared);
    return {
      limiter: buffer.limiter,
      writer: null,
      fields: fieldsOf(buffer),
      add: (rows) => buffer.add(rows),
    };
  }
  const buffer = TrajectoryBuffer.attach(shared);
  // With `resume`, the writer continues the lanes' unfinished episodes.
  const lanes = { ...lanesOf(buffer.lanes, worker, workers), resume: resume !== null };
  const writer = restarts > 0 ? await freed(() => buffer.writer(lanes)) : buffer.writer(lanes);
  return {
    limiter: buffer.limiter,
    writer,
    fields: fieldsOf(buffer),
    add: (step) => writer.add(step as Steps),
  };
}

/** Returns the fields of a buffer as collectors get them. */
export function fieldsOf(buffer: ReplayBuffer | TrajectoryBuffer): CollectorContext['fields'] {
  const fields: readonly (BufferField & { key: string })[] = Object.values(buffer.layout.fields);
  return Object.fromEntries(fields.map(({ key, ...field }) => [key, fieldOf(field)]));
}
const fieldOf = ({ dtype, shape, mask, observation }: BufferField): BufferField => ({
  dtype,
  shape,
  ...(mask !== undefined && { mask }),
  ...(observation !== undefined && { observation }),
});

/**
 * Claims the lanes after their previous thread has released them. A thread that ends releases its
 * lanes slightly after the pool learns of its end.
 */
async function freed(claim: () => TrajectoryWriter): Promise<TrajectoryWriter> {
  for (const end = nowMs() + FREED_MS; ; await setTimeout(1)) {
    try {
      return claim();
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_HOTSLOT_STATE_BUSY' || nowMs() > end)
        throw error;
    }
  }
}

/**
 * Returns the lanes of a worker. The workers divide the lanes in order and as evenly as possible.
 */
function lanesOf(
  all: number,
  worker: number,
  workers: number,
): { firstLane: number; lanes: number } {
  const firstLane = Math.floor((worker * all) / workers);
  return { firstLane, lanes: Math.floor(((worker + 1) * all) / workers) - firstLane };
}

/**
 * Collects, adds and reads weights until the stop word is set. If collect() returns rows and not
 * promises, the loop never awaits, except to stand still for a checkpoint. The loop itself posts no
 * messages and allocates no memory.
 */
async function loop(
  collector: Collector,
  setup: CollectorSetup & Pick<Sink, 'limiter' | 'add'>,
  report: StatisticsWriter,
): Promise<void> {
  const { control, limiter, add } = setup;
  const mailbox = setup.mailbox && WeightMailbox.attach(setup.mailbox);
  const bell =
    setup.bell < 0 || limiter === null ? null : internalsOfLimiter(limiter).bells.at(setup.bell);
  const weights = new Float32Array(mailbox?.length ?? 0);
  let version = 0;
  let rows: Collected = setup.resume?.rows ?? null;
  let reported = 0;
  let stop: StopWord | null = null;
  for (;;) {
    // Reads the bell before the stop word and the limiter. If one of them changes after it was
    // read, the bell has changed too, and the park returns at once.
    const seen = bell?.read() ?? 0;
    if (Atomics.load(control, STOP) !== 0) return;
    const hold = Atomics.load(control, HOLD);
    if (hold % 2 !== 0 && hold !== reported) {
      reported = hold;
      await standStill(collector, rows, hold, setup);
      continue;
    }
    if (rows === null) {
      if (mailbox !== null && collector.load && mailbox.published !== version) {
        const newer = mailbox.read(weights, version);
        if (newer > 0) {
          version = newer;
          report.acts(version);
          collector.load(weights, version);
        }
      }
      report.collects();
      const given = collector.collect();
      if (isPromise(given)) {
        // If the promise never settles, the stop word ends the wait.
        stop ??= new StopWord(control);
        const first = await stop.or(given);
        if (first === 'stopped') return;
        rows = first;
      } else rows = given;
      report.collected();
      if (rows === null) continue;
    }
    if (add(rows) > 0) rows = null;
    else {
      report.waited();
      // If collect() returns promises, the thread must not block, because they need its event loop.
      if (stop) await bell?.parkAsync(seen, MAX_PARK_MS);
      else bell?.park(seen, MAX_PARK_MS);
    }
  }
}

/**
 * Posts the collector's state to the opener, and waits until the opener changes the hold word. A
 * collector without state() posts an answer and continues at once.
 */
async function standStill(
  collector: Collector,
  rows: Collected,
  hold: number,
  { port, control }: Pick<CollectorSetup, 'port' | 'control'>,
): Promise<void> {
  const answer = async (): Promise<HoldAnswer> => {
    const saved = collector.state ? { state: await collector.state(), rows } : null;
    return { hold, saved };
  };
  try {
    port.postMessage(await answer());
  } catch (error) {
    port.postMessage({
      hold,
      refused: (error as Error)?.message ?? String(error),
    } satisfies HoldAnswer);
    return;
  }
  if (!collector.state) return;
  while (Atomics.load(control, HOLD) === hold && Atomics.load(control, STOP) === 0)
    await Atomics.waitAsync(control, HOLD, hold, MAX_PARK_MS).value;
}

const isPromise = (given: Collected | Promise<Collected>): given is Promise<Collected> =>
  typeof (given as { then?: unknown } | null)?.then === 'function';

/** Ends the wait for a promise of collect() when the opener sets the stop word. */
class StopWord {
  #stopped = false;
  /**
   * resolves the promise that the latest or() returned. A race with one lasting promise would
   * retain memory of every collect()
   */
  #end = () => {};

  constructor(control: Int32Array) {
    void (async () => {
      while (Atomics.load(control, STOP) === 0) await Atomics.waitAsync(control, STOP, 0).value;
      this.#stopped = true;
      this.#end();
    })();
  }

  or<T>(promised: PromiseLike<T>): Promise<T | 'stopped'> {
    return new Promise((resolve, reject) => {
      this.#end = () => resolve('stopped');
      promised.then(resolve, reject);
      if (this.#stopped) this.#end();
    });
  }
}
