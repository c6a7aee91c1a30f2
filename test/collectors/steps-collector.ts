/**
 * A collector of lanes for the pool's tests. Each step contains its lane, its number in the lane,
 * its worker and its collector.
 */
import type { CollectorContext } from '../../src/index.ts';
import { defineCollector } from '../../src/index.ts';

/** Steps of an episode. */
export const EPISODE = 10;

export const fields = {
  /** lane, number of the step in its lane, worker, number of the collector */
  obs: { shape: [4], observation: true },
  actions: { shape: [], dtype: 'int32' },
} as const;

export interface StepsOptions {
  /** how collect() fails: it throws, its thread exits, or it dies of an uncaught error */
  fault?: 'collect' | 'exit' | 'uncaught' | 'factory';
  /** the only worker that misbehaves. By default all do */
  faulty?: number;
  /** collect() returns promises, for which the event loop must stay alive */
  later?: boolean;
  /** it adds its steps with the writer, and returns null */
  itself?: boolean;
  /** each step takes some time, so that no ring is full before the test reads it */
  calm?: boolean;
  /**
   * Int32 words that the test and its collectors share: 0: collectors created. 1: closes. 2: 1 if a
   * collector may fail
   */
  words: Int32Array;
}

type Context = CollectorContext<StepsOptions>;

export function makeSteps({
  worker,
  writer,
  options,
  report,
}: Context & { writer: NonNullable<Context['writer']> }) {
  const { fault, faulty = worker, later = false, itself = false, calm = false, words } = options;
  const { firstLane, lanes } = writer;
  const maker = Atomics.add(words, 0, 1);
  if (fault === 'factory' && faulty === worker) throw new Error('no environment today');
  const terminated = new Uint8Array(lanes);
  const step = {
    obs: new Float32Array(4 * lanes),
    finalObs: new Float32Array(4 * lanes),
    actions: new Int32Array(lanes),
    rewards: new Float32Array(lanes),
    terminated,
    truncated: new Uint8Array(lanes),
  };
  let count = 0;
  const next = () => {
    for (let lane = 0; lane < lanes; lane++) {
      step.obs.set([firstLane + lane, count, worker, maker], 4 * lane);
      step.finalObs.set([firstLane + lane, count + 1, worker, maker], 4 * lane);
      step.actions[lane] = count;
      step.rewards[lane] = count;
    }
    count++;
    terminated.fill(count % EPISODE === 0 ? 1 : 0);
    report.steps(lanes);
    if (count % EPISODE === 0) report.episode(EPISODE, EPISODE);
    return step;
  };
  return {
    collect() {
      if (
        fault &&
        fault !== 'factory' &&
        faulty === worker &&
        Atomics.compareExchange(words, 2, 1, 0) === 1
      ) {
        if (fault === 'collect') throw new Error('the environment broke');
        if (fault === 'exit') process.exit(7);
        setImmediate(() => {
          throw new Error('nobody caught this');
        });
      }
      if (calm) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      if (itself) {
        // Returns the steps that the limiter does not accept now. The pool waits for the limiter
        // and adds them.
        const made = next();
        return writer.add(made) > 0 ? null : made;
      }
      return later
        ? new Promise<typeof step>((resolve) => setImmediate(() => resolve(next())))
        : next();
    },
    close() {
      Atomics.add(words, 1, 1);
    },
  };
}

export default defineCollector<StepsOptions, typeof fields>()((context) => makeSteps(context));
