/**
 * Decides whether CartPole is solved. The newest published weights play a hundred greedy episodes
 * of fresh seeds. Weights that reach the threshold play a hundred others, whose mean counts: so
 * looking often does not flatter the result.
 */

import { MlpPolicy } from '../../src/entries/learner.ts';
import type { WeightMailbox } from '../../src/index.ts';
import { type Evaluation, evaluate, SOLVED } from './evaluate.ts';
import { networkSizes, type Settings } from './settings.ts';

/** Evaluations begin when the collectors' episodes, explored ones included, last this long. */
const PROMISING = 150;

export interface EvaluatorState {
  count: number;
  sets: number;
  version: number;
  weights: Float32Array;
}

export class Evaluator {
  /** looks at new weights so far */
  count = 0;
  /** of the last look */
  last: Evaluation | null = null;
  readonly #mailbox: WeightMailbox;
  readonly #policy: MlpPolicy;
  readonly #weights: Float32Array;
  readonly #seed: number;
  #version = 0;
  #sets = 0;
  #before: EvaluatorState | null = null;

  constructor(mailbox: WeightMailbox, settings: Settings, seed: number) {
    this.#mailbox = mailbox;
    this.#policy = new MlpPolicy({ sizes: networkSizes(settings) });
    this.#weights = new Float32Array(mailbox.length);
    this.#seed = seed;
  }

  /** Where it is, for loadState(); while a look is under way, where it was before. */
  state(): EvaluatorState {
    if (this.#before) return this.#before;
    return {
      count: this.count,
      sets: this.#sets,
      version: this.#version,
      weights: this.#weights.slice(),
    };
  }
  loadState({ count, sets, version, weights }: EvaluatorState): void {
    this.count = count;
    this.#sets = sets;
    this.#version = version;
    this.#weights.set(weights);
    if (version > 0) this.#policy.load(weights);
  }

  /** The weights judged last. */
  get weights(): Float32Array {
    return this.#weights;
  }

  /**
   * The confirmed mean return when the newest weights solve it; null when they do not, or are not
   * worth a look.
   */
  async look(recentReturn: number): Promise<number | null> {
    this.#before = this.state();
    try {
      return await this.#look(recentReturn);
    } finally {
      this.#before = null;
    }
  }

  async #look(recentReturn: number): Promise<number | null> {
    if (!(recentReturn >= PROMISING) || !this.#refresh()) return null;
    this.count++;
    this.last = await this.#play(SOLVED);
    if (!this.last.whole || this.last.meanReturn < SOLVED) return null;
    this.last = await this.#play(SOLVED);
    return this.last.whole && this.last.meanReturn >= SOLVED ? this.last.meanReturn : null;
  }

  /** What the newest weights are worth, played to the end; null when none were ever published. */
  async judge(): Promise<number | null> {
    this.#refresh();
    if (this.#version === 0) return null;
    return (await this.#play(0)).meanReturn;
  }

  #play(least: number): Promise<Evaluation> {
    return evaluate(this.#policy, this.#seed, this.#sets++, least);
  }

  #refresh(): boolean {
    const newer = this.#mailbox.read(this.#weights, this.#version);
    if (newer === 0) return false;
    this.#version = newer;
    this.#policy.load(this.#weights);
    return true;
  }
}
