/** Greedy episodes by the newest weights that a training has published. */
import type { WeightMailbox } from '../buffer/weight-mailbox.ts';
import { policyOf } from './algorithms.ts';
import type { AnyEnvironment } from './environment.ts';
import { type Evaluation, evaluate } from './evaluate.ts';
import type { TrainPlan } from './train-options.ts';

export class Looks {
  readonly weights: Float32Array;
  readonly policy: ReturnType<typeof policyOf>;
  readonly #mailbox: WeightMailbox;
  readonly #testers: readonly AnyEnvironment[];
  readonly #seed: number;
  #version = 0;
  #count = 0;

  constructor({ learner, seed, noise }: TrainPlan, mailbox: WeightMailbox, testers: readonly AnyEnvironment[]) {
    this.weights = new Float32Array(mailbox.length);
    this.policy = policyOf(learner.policy, { greedy: true, seed, noise });
    this.#mailbox = mailbox;
    this.#testers = testers;
    this.#seed = seed;
  }

  /** Of the newest weights, or once more of those before; null when there are none yet, and when the signal ended it. */
  async look(
    episodes: number,
    newest: boolean,
    signal?: AbortSignal,
  ): Promise<Pick<Evaluation, 'meanReturn' | 'deviation'> | null> {
    if (newest && this.#mailbox.published !== this.#version) {
      const version = this.#mailbox.read(this.weights, this.#version);
      if (version > 0) this.#version = version;
      this.policy.load(this.weights);
    }
    if (this.#version === 0) return null;
    // Each look begins elsewhere.
    const seed = this.#seed * 1_000_003 + this.#count++;
    const how = { environments: this.#testers, policy: this.policy, episodes, seed };
    try {
      const { meanReturn, deviation } = await evaluate({ ...how, ...(signal ? { signal } : {}) });
      return { meanReturn, deviation };
    } catch (error) {
      if (signal?.aborted) return null;
      throw error;
    }
  }
}
