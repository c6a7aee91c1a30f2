/**
 * A collector for tests of remote runs. Each row or step holds the seed of its host, its worker or
 * lane, and its number.
 */
import { getEnvironmentData } from 'node:worker_threads';
import type { Collector, CollectorContext } from '../../src/index.ts';

export const rowFields = {
  /**
   * seed, worker, number, and the value of the weights: 0 before the first weights, −1 if the
   * weights are torn
   */
  value: { shape: [4], dtype: 'float64' },
} as const;
export const stepFields = {
  /** seed and number. A final observation has the number plus ½ */
  obs: { shape: [2], dtype: 'float64', observation: true },
} as const;

/** Options that the learner sends to the collectors. */
export interface RunOptions {
  /** number of rows that a collect() returns; 1 by default */
  band?: number;
  /** number of steps of an episode; 5 by default */
  episode?: number;
  /** number of rows of each worker, if no test limits them by `words` */
  limit?: number;
}

/**
 * Name of the shared words by which a test controls the collectors of a pool. The module's query is
 * appended to it.
 */
export const WORDS = 'hotslot test';
/**
 * Indices of the words. `limit`: number of rows of each worker, or of steps of each lane, that may
 * be made. `throws`: 1 makes the next collect() throw. `factory`: 1 makes the next factory throw.
 */
export const Word = { limit: 0, throws: 1, factory: 2 } as const;

export default function runCollector(context: CollectorContext): Collector {
  const { worker, seed, report, writer, fields } = context;
  const { band = 1, episode = 5, limit = 0 } = (context.options ?? {}) as RunOptions;
  const leash = getEnvironmentData(`${WORDS}${new URL(import.meta.url).search}`) as unknown as
    | Int32Array
    | undefined;
  const words = leash ?? Int32Array.of(limit, 0, 0);
  let number = 0;
  let weight = 0;
  if (Atomics.load(words, Word.factory) === 1) throw new Error('no environment today');
  const load = (weights: Float32Array) => {
    weight = weights.every((each) => each === weights[0]) ? weights[0]! : -1;
  };
  const may = () => {
    if (Atomics.load(words, Word.throws) === 1) throw new Error('the environment broke');
    if (number < Atomics.load(words, Word.limit)) return true;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    return false;
  };
  if ('nextObs' in fields || 'next_obs' in fields)
    return {
      collect() {
        if (!may()) return null;
        const [obs, nextObs] = [Float32Array.of(worker, number), Float32Array.of(worker, ++number)];
        const [rewards, dones] = [Float32Array.of(number), Float32Array.of(0)];
        return {
          obs,
          nextObs,
          actions: Float32Array.of(-number),
          rewards,
          dones,
          truncated: dones,
        };
      },
    };
  if (writer === null)
    return {
      load,
      collect() {
        if (!may()) return null;
        const value = new Float64Array(4 * band);
        for (let row = 0; row < band; row++) value.set([seed, worker, number++, weight], 4 * row);
        report.steps(band);
        if (number % 10 === 0) report.episode(worker + 1, 10);
        return { value };
      },
    };
  const { lanes } = writer;
  return {
    load,
    collect() {
      if (!may()) return null;
      const each = (plus: number) =>
        Float64Array.from({ length: 2 * lanes }, (_, i) => (i % 2 === 0 ? seed : number + plus));
      const ends = (number + 1) % episode === 0;
      const terminated = new Uint8Array(lanes).fill(ends ? 1 : 0);
      const [obs, finalObs] = [each(0), each(0.5)];
      number++;
      report.steps(lanes);
      return {
        obs,
        finalObs,
        rewards: new Float32Array(lanes),
        terminated,
        truncated: new Uint8Array(lanes),
      };
    },
  };
}
