/** Policies of traced learners that the built-in learners do not have. */
import { checkCount, checkFlag, checkKeys } from '../../base/checks.ts';
import { Random } from '../../base/random.ts';
import type { Network } from '../network/network.ts';
import { type ActOptions, MlpPolicy } from '../policy.ts';

export interface CategoricalPolicyOptions {
  /** whether the policy takes the most likely action instead of a sampled one. Default false */
  greedy?: boolean;
  /** seed of the random numbers, 0 to 2⁵³ − 1, default 0 */
  seed?: number;
}

/** Samples actions from the softmax of a network's outputs. It runs on the calling thread. */
export class CategoricalPolicy extends MlpPolicy {
  readonly #greedy: boolean;
  readonly #random: Random;

  /**
   * Creates a policy without weights.
   *
   * @throws {TypeError|RangeError} for a wrong option
   */
  constructor(network: Network, options: CategoricalPolicyOptions = {}) {
    checkKeys('CategoricalPolicy', options, ['greedy', 'seed']);
    const { greedy = false, seed = 0 } = options;
    checkFlag('greedy', greedy);
    super(network);
    this.#greedy = greedy;
    this.#random = new Random(checkCount('seed', seed, 0));
  }

  /**
   * Returns an action for each of `n` observations. With a mask, the softmax is over legal actions.
   * A row without a legal action gets 0.
   *
   * @param options `mask`: legal actions
   * @returns int32 [n], an array that belongs to the policy and is valid until the next call
   * @throws as values()
   */
  override act(obs: Float32Array, n: number, options?: ActOptions): Int32Array {
    const actions = super.act(obs, n, options);
    if (this.#greedy) return actions;
    const { outputs } = this.network;
    const logits = this.values(obs, n, options);
    for (let row = 0; row < n; row++) {
      // Each row takes one random number, also if it has no choice.
      if (options?.mask?.[row * outputs + (actions[row] as number)] === 0) {
        this.#random.between(0, 1);
        continue;
      }
      const own = logits.subarray(row * outputs, (row + 1) * outputs);
      const most = own[actions[row] as number] as number;
      const sum = own.reduce((total, x) => total + Math.exp(x - most), 0);
      let left = this.#random.between(0, sum);
      // The most likely action remains if rounding leaves a rest after the last one, and if a
      // logit is not finite. It is a legal one.
      for (let a = 0; a < outputs; a++) {
        left -= Math.exp((own[a] as number) - most);
        if (!(left < 0)) continue;
        actions[row] = a;
        break;
      }
    }
    return actions;
  }
}
