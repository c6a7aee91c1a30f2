/**
 * Small environments that a learner solves quickly. The best action follows directly from the
 * observation.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Environment, EnvironmentContext, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

export interface TargetOptions {
  /**
   * true: two actions, and the sign of the observation gives the right one. Otherwise the best
   * action is half of the observation, within ±1
   */
  discrete?: boolean;
  /** steps of an episode, 5 by default. Infinity: episodes do not end */
  length?: number;
  /** delay of reset() in milliseconds. Infinity: reset() never resolves */
  late?: number;
  /**
   * number of the step in which an environment throws. It must be above the number of steps of the
   * first evaluation
   */
  failAt?: number;
  /** number of episodes of the evaluation's environments that end. Later episodes do not end */
  ending?: number;
  /** whether step `failAt` throws null instead of an error */
  nothing?: boolean;
  /** whether step `failAt` returns NaN as reward instead of throwing */
  wrong?: boolean;
  /**
   * Int32. 0: number of environments created. 1: number closed. From 2 on: how many have each index
   */
  words?: Int32Array;
}

const LENGTH = 5;

export class Target implements Environment<number | ArrayLike<number>> {
  readonly observationSpace = { shape: [2] } as const;
  readonly actionSpace;
  readonly #options: TargetOptions;
  readonly #index: number;
  #random = new Random(0);
  #seen = 0;
  #left = 0;
  #episodes = 0;
  #steps = 0;

  constructor(index: number, options: TargetOptions) {
    this.#options = options;
    this.#index = index;
    this.actionSpace = options.discrete
      ? ({ n: 2 } as const)
      : ({ shape: [1], low: -1, high: 1 } as const);
    if (options.words) {
      Atomics.add(options.words, 0, 1);
      if (index + 2 < options.words.length) Atomics.add(options.words, index + 2, 1);
    }
  }

  reset(seed: number): number[] | Promise<number[]> {
    this.#random = new Random(seed);
    this.#left = this.#options.length ?? LENGTH;
    // Environments 0 and 1 belong to the collectors, and the others to the evaluation.
    const { ending = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#index >= 2 && ++this.#episodes > ending) this.#left = Number.POSITIVE_INFINITY;
    const { late } = this.#options;
    if (late === undefined) return this.#look();
    return late === Number.POSITIVE_INFINITY ? new Promise(() => {}) : wait(late, this.#look());
  }

  step(action: number | ArrayLike<number>): Step {
    if (++this.#steps === this.#options.failAt && this.#options.nothing) throw null;
    if (this.#steps === this.#options.failAt && this.#options.wrong)
      return { obs: this.#look(), reward: Number.NaN, terminated: false };
    if (this.#steps === this.#options.failAt) throw new Error(`environment ${this.#index} broke`);
    const reward =
      typeof action === 'number'
        ? Number(action === Number(this.#seen > 0))
        : -((action[0]! - this.#seen / 2) ** 2);
    this.#left--;
    return { obs: this.#look(), reward, terminated: this.#left === 0 };
  }

  close(): void {
    if (this.#options.words) Atomics.add(this.#options.words, 1, 1);
  }

  #look(): number[] {
    this.#seen = this.#random.between(-1, 1);
    return [this.#seen, 1];
  }
}

/** The default export is an async function, which a module of environments may have. */
export default async ({ index, options }: EnvironmentContext<TargetOptions | undefined>) => {
  await Promise.resolve();
  return new Target(index, options ?? {});
};
