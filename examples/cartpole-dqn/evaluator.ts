/**
 * Decides whether CartPole is solved. The newest published weights play a hundred greedy episodes
 * with new seeds. Weights that reach the threshold play a hundred more, and only the mean of these
 * counts. So frequent evaluation does not improve the result by chance.
 */

import { MlpPolicy } from '../../src/entries/learner.ts';
import type { WeightMailbox } from '../../src/index.ts';
import { type Evaluation, evaluate, SOLVED } from './evaluate.ts';
import { networkSizes, type Settings } from './settings.ts';

/**
 * Mean return of the collectors' recent episodes, explored ones included, from which evaluations
 * begin.
 */
const PROMISING = 150;

export interface EvaluatorState {
  count: number;
  sets: number;
  version: number;
  weights: Float32Array;
}

export class Evaluator {
  /** number of evaluations of new weights so far */
  count = 0;
  /** result of the last evaluation */
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

  /** Returns the state for loadState(). During an evaluation, this is the state before it. */
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

  /** Weights of the last evaluation. */
  get weights(): Float32Array {
    return this.#weights;
  }

  /**
   * Evaluates the newest weights. Returns the confirmed mean return if they solve CartPole. Returns
   * null if they do not, or if the recent return is too low for an evaluation.
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

  /**
   * Returns the mean return of the newest weights over whole episodes, or null if no weights were
   * published.
   */
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
