/** Greedy episodes by the newest weights that a training has published. */

import { Random } from '../../base/random.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { EnvironmentSet } from '../environments/environment-set.ts';
import { policyOf } from './algorithms.ts';
import { type Evaluation, evaluate } from './evaluate.ts';
import type { TrainPlan } from './train-options.ts';

/** A stream of the seed that is neither a collector's nor an evaluation's. */
const STREAM = 2 ** 20 + 1;
const SEEDS = 2 ** 31;

export class Looks {
  readonly weights: Float32Array;
  readonly policy: ReturnType<typeof policyOf>;
  readonly #mailbox: WeightMailbox;
  readonly #testers: EnvironmentSet;
  readonly #stack: number;
  /** each look begins elsewhere */
  readonly #random: Random;
  #version = 0;

  constructor({ learner, seed, noise, stack }: TrainPlan, mailbox: WeightMailbox, testers: EnvironmentSet) {
    this.weights = new Float32Array(mailbox.length);
    this.policy = policyOf(learner.policy, { greedy: true, seed, noise });
    this.#mailbox = mailbox;
    this.#testers = testers;
    this.#stack = stack;
    this.#random = new Random(seed, STREAM);
  }

  /** Takes up the newest weights, if there are others; or `weights`, in their place. */
  take(weights?: Float32Array): void {
    if (weights) this.weights.set(weights);
    else if (this.#mailbox.published === this.#version) return;
    else {
      const version = this.#mailbox.read(this.weights, this.#version);
      if (version > 0) this.#version = version;
    }
    this.policy.load(this.weights);
  }

  /** Of the newest weights, or once more of those before; null when there are none yet, and when the signal ended it. */
  async look(
    episodes: number,
    newest: boolean,
    signal: AbortSignal,
  ): Promise<Pick<Evaluation, 'meanReturn' | 'deviation'> | null> {
    if (newest) this.take();
    if (this.#version === 0) return null;
    const seed = this.#random.below(SEEDS);
    const how = { environments: this.#testers, policy: this.policy, stack: this.#stack, episodes, seed };
    try {
      const { meanReturn, deviation } = await evaluate({ ...how, signal });
      return { meanReturn, deviation };
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }
}
