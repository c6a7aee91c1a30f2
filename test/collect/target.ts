/**
 * Small environments that are learned at once: the reward is best where the action is what the
 * observation says.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Environment, EnvironmentContext, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

export interface TargetOptions {
  /**
   * two actions, of which the sign says one; without it a number within ±1, half of what is seen
   */
  discrete?: boolean;
  /** steps of an episode, 5 by default; none ends by itself where it is Infinity */
  length?: number;
  /** reset() answers so late, in milliseconds; Infinity: never */
  late?: number;
  /** throws in so many steps of an environment; not in the first, which evaluates */
  failAt?: number;
  /** episodes of the environments that evaluate which end; those after them do not */
  ending?: number;
  /** throws null in the place of an error */
  nothing?: boolean;
  /** gives a reward that is none in the place of an error */
  wrong?: boolean;
  /** Int32 words: 0: environments made, 1: closed, and from 2 on how many have each index */
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
    // The collectors' environments are counted from 0, two of them.
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

/** A function and a promise, as a module may have them. */
export default async ({ index, options }: EnvironmentContext<TargetOptions | undefined>) => {
  await Promise.resolve();
  return new Target(index, options ?? {});
};
