/**
 * A worker's one long task: makes the collector, then collects, adds and reads weights until the
 * stop word is set.
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
import { StatisticsPages, type StatisticsShare, type StatisticsWriter } from './statistics.ts';

/** Milliseconds that a thread has to be gone after it was ended. */
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
  /** how often the collector was made anew (its previous thread may still be ending) */
  restarts: number;
  /** state from an earlier run, null for a new collector */
  resume: SavedCollector | null;
  /** to the opener: the result of state() */
  port: MessagePort;
}

/** The state of a collector between two collect(), as its thread reports it. */
export interface SavedCollector {
  /** the result of state() */
  readonly state: unknown;
  /** rows collected but not yet added */
  readonly rows: Collected;
}
/** A thread's answer to a request to stand still. */
export type HoldAnswer = { readonly hold: number } & (
  | { readonly saved: SavedCollector | null }
  | { readonly refused: string }
);

/**
 * The collector's exception as plain data, because structured cloning would drop code and class.
 */
export interface CollectorThrew {
  readonly thrown: unknown;
}

/**
 * Resolves when the stop word was seen. Rejects with an object that holds the exception of the
 * user's module.
 */
export default async function collectUntilStopped(setup: CollectorSetup): Promise<void> {
  try {
    await collect(setup);
  } catch (error) {
    // Wrapped in an object, because the thread pool takes a thrown null or undefined for a result.
    throw { thrown: toPlain(error) } satisfies CollectorThrew;
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
      // The collect() is over even if it threw.
      report.collected();
      await collector.close?.();
    }
  } finally {
    // Frees the lanes for the collector that is made anew. If the thread ends, its lanes are taken
    // back.
    writer?.close();
  }
}

/**
 * The destination of collect()'s result: rows go to the buffer itself, steps through a writer of
 * this worker's lanes.
 */
interface Sink {
  limiter: RateLimiter | null;
  writer: TrajectoryWriter | null;
  fields: CollectorContext['fields'];
  /** returns how many were taken, 0 if the limiter does not allow any yet */
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
    const fields = byKey(Object.values(buffer.layout.fields));
    return { limiter: buffer.limiter, writer: null, fields, add: (rows) => buffer.add(rows) };
  }
  const buffer = TrajectoryBuffer.attach(shared);
  // A resumed collector continues its episodes.
  const lanes = { ...lanesOf(buffer.lanes, worker, workers), resume: resume !== null };
  const writer = restarts > 0 ? await freed(() => buffer.writer(lanes)) : buffer.writer(lanes);
  const fields = byKey(buffer.layout.fields);
  return { limiter: buffer.limiter, writer, fields, add: (step) => writer.add(step as Steps) };
}

const byKey = (fields: readonly (BufferField & { key: string })[]): CollectorContext['fields'] =>
  Object.fromEntries(fields.map(({ key, dtype, shape }) => [key, { dtype, shape }]));

/**
 * Claims the lanes once their previous owner is gone. A thread that ends gives them back, but
 * slightly after the pool learns of its end.
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

/** Returns a worker's part of the lanes: in order, and as even as possible. */
function lanesOf(
  all: number,
  worker: number,
  workers: number,
): { firstLane: number; lanes: number } {
  const firstLane = Math.floor((worker * all) / workers);
  return { firstLane, lanes: Math.floor(((worker + 1) * all) / workers) - firstLane };
}

/**
 * Runs the collector. It awaits only the promises of collect(), and posts and allocates nothing of
 * its own.
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
    // Reads the bell before the stop word and the offer: either those reads see the change, or the
    // park returns at once.
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
        // The opener can also stop a collect() that waits indefinitely.
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
      // Environments with promises need the event loop, which must turn.
      if (stop) await bell?.parkAsync(seen, MAX_PARK_MS);
      else bell?.park(seen, MAX_PARK_MS);
    }
  }
}

/** Reports the collector's state, and continues when the opener releases it. */
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

/** Ends a collector's wait when the opener has set the stop word. */
class StopWord {
  #stopped = false;
  /**
   * resolves the current promise, because a race with one lasting promise would keep some memory of
   * every collect()
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
