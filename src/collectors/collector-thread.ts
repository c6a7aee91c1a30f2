/** A worker's one long task: make the collector, then collect, add and read weights until the stop word says so. */
import { insideOfLimiter } from '../buffer/rate-limiter.ts';
import { ReplayBuffer, type SharedReplayBuffer } from '../buffer/replay-buffer.ts';
import { type SharedWeightMailbox, WeightMailbox } from '../buffer/weight-mailbox.ts';
import { typeError } from '../errors.ts';
import { toPlain } from '../plain-error.ts';
import { Bell } from '../wait/bell.ts';
import { LONGEST_PARK_MS } from '../wait/wait.ts';
import type { Collected, Collector, CollectorFactory } from './collector.ts';
import { OPENER_BELL, READY, STOP } from './control-words.ts';
import { StatisticsPages, type StatisticsShare, type StatisticsWriter } from './statistics.ts';

export interface CollectorSetup {
  entry: string;
  worker: number;
  workers: number;
  seed: number;
  options: unknown;
  buffer: SharedReplayBuffer;
  mailbox: SharedWeightMailbox | null;
  /** this worker's bell on the limiter's board; −1 when no limiter gates add() */
  bell: number;
  control: Int32Array;
  statistics: StatisticsShare;
}

/** Resolves when the stop word was seen; rejects with whatever the user's module throws. */
export default async function collectUntilStopped(setup: CollectorSetup): Promise<void> {
  try {
    await collect(setup);
  } catch (error) {
    // Structured cloning would drop code and class; plain data keeps them.
    throw toPlain(error);
  }
}

async function collect(setup: CollectorSetup): Promise<void> {
  const { entry, worker, workers, seed, options, control } = setup;
  const { default: factory } = (await import(entry)) as { default?: CollectorFactory };
  if (typeof factory !== 'function') {
    throw typeError(
      `${entry} must export a function that makes a collector as its default, it exports ${typeof factory}`,
    );
  }
  const report = new StatisticsPages(setup.statistics).writer(worker);
  const collector = await factory({ worker, workers, seed, options, report });
  if (typeof collector?.collect !== 'function') {
    throw typeError(`the collector made by ${entry} needs a collect() function, it has ${typeof collector?.collect}`);
  }
  Atomics.add(control, READY, 1);
  new Bell(control.subarray(OPENER_BELL)).ring();
  try {
    await loop(collector, setup, report);
  } finally {
    // Also of a collect() that threw: it is over.
    report.collected();
    await collector.close?.();
  }
}

/** Awaits what collect() promises and nothing else; posts and allocates nothing on its own account. */
async function loop(collector: Collector, setup: CollectorSetup, report: StatisticsWriter): Promise<void> {
  const { control } = setup;
  const buffer = ReplayBuffer.attach(setup.buffer);
  const mailbox = setup.mailbox && WeightMailbox.attach(setup.mailbox);
  const { limiter } = buffer;
  const bell = setup.bell < 0 || limiter === null ? null : insideOfLimiter(limiter).bells.at(setup.bell);
  const weights = new Float32Array(mailbox?.length ?? 0);
  let version = 0;
  let rows: Collected = null;
  let stop: StopWord | null = null;
  for (;;) {
    // The bell before the stop word and the offer: either they see the change or the park returns at once.
    const seen = bell?.read() ?? 0;
    if (Atomics.load(control, STOP) !== 0) return;
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
        // The opener stops what waits for ever, too.
        stop ??= new StopWord(control);
        const first = await stop.or(given);
        if (first === 'stopped') return;
        rows = first;
      } else rows = given;
      report.collected();
      if (rows === null) continue;
    }
    if (buffer.add(rows) > 0) rows = null;
    else {
      report.waited();
      // Environments that are waited for have an event loop, which must turn.
      if (stop) await bell?.parkAsync(seen, LONGEST_PARK_MS);
      else bell?.park(seen, LONGEST_PARK_MS);
    }
  }
}

const isPromise = (given: Collected | Promise<Collected>): given is Promise<Collected> =>
  typeof (given as { then?: unknown } | null)?.then === 'function';

/** Ends what a collector waits for when the opener has set the stop word. */
class StopWord {
  #stopped = false;
  /** of the promise that is waited for now: a race with one lasting promise would keep something of every collect() */
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
