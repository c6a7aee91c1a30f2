/**
 * Policies that act with weights that a learner published. They run on the calling thread and need
 * no device.
 */

import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { arrayOf } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { withPresentNames } from '../../base/old-names.ts';
import { Random } from '../../base/random.ts';
import { checkObservations, checkWithin, unloaded } from '../checks.ts';
import { tanh } from '../network/layers.ts';
import type { Network } from '../network/network.ts';
import { normalizerOption, normalizerOptions } from '../normalizer.ts';
import { type ActorOptions, actorKeys, actorNetwork } from './options.ts';
import { boxOf, type GaussianOptions, gaussianKeys, gaussianOptions } from './squashed-gaussian.ts';

/**
 * Values that a Fill needs in addition to the network's outputs: the box of actions, and a
 * generator of random numbers.
 */
type Making = ReturnType<typeof boxOf> & { n: number; actionDim: number; random: Random };
/** Computes the actions of n rows from the network's outputs, and writes them to `actions`. */
type Fill = (outputs: Float32Array, actions: Float32Array, making: Making) => void;

/**
 * Describes a policy without its random numbers. The policy limits the network's outputs to
 * ±meanClamp and squashes them by tanh, unless the network itself ends with tanh. It then scales
 * them to the box and clamps them to the box's ends.
 */
export interface GreedyActor {
  /** the published vector that was loaded */
  readonly vector: Float32Array;
  /**
   * largest absolute value of a normalized observation, or undefined if the policy does not
   * normalize
   */
  readonly clip: number | undefined;
  /** half widths, middles and ends of the box of actions */
  readonly box: ReturnType<typeof boxOf>;
  /**
   * largest absolute value of a mean before tanh, or undefined if the network itself ends with tanh
   */
  readonly meanClamp: number | undefined;
}

/**
 * Returns the greedy actor of a policy, for exports to other formats. Throws if the policy has no
 * weights.
 */
export let greedyActor: (policy: ActorPolicy) => GreedyActor;

/**
 * Acts with a vector that a learner published. It runs on the calling thread and needs no device.
 * SacPolicy and Td3Policy extend it.
 */
export abstract class ActorPolicy {
  readonly network: Network;
  /** number of floats of an action */
  readonly actionDim: number;
  /**
   * number of floats of a published vector: the network's parameters, and a normalizer's means and
   * factors
   */
  readonly length: number;
  readonly #sampling: Making;
  readonly #fill: Fill;
  readonly #vector: Float32Array;
  readonly #run: (x: Float32Array, rows: number) => Float32Array;
  readonly #clip: number | undefined;
  readonly #meanClamp: number | undefined;
  #loaded = false;
  #normalizedObs = new Float32Array(0);
  #actions = new Float32Array(0);

  static {
    greedyActor = (policy) => {
      if (!(#sampling in policy))
        throw typeError(`this object only inherits from a policy: ${describeValue(policy)}`);
      if (!policy.#loaded) throw unloaded('encodeOnnx');
      const [box, meanClamp] = [policy.#sampling, policy.#meanClamp];
      return { vector: policy.#vector, clip: policy.#clip, box, meanClamp };
    };
  }

  protected constructor(
    options: ActorOptions,
    network: Network,
    seed: number,
    fill: Fill,
    meanClamp?: number,
  ) {
    const { obsDim, actionDim } = options;
    this.#meanClamp = meanClamp;
    this.network = network;
    this.actionDim = actionDim;
    this.#fill = fill;
    this.#sampling = {
      ...boxOf(actionDim, options),
      n: 0,
      actionDim,
      random: new Random(checkCount('seed', seed, 0)),
    };
    const normalizer = normalizerOption(options.normalizer ?? false);
    this.#clip = normalizer && normalizerOptions(normalizer).clip;
    this.length = network.parameterCount + (normalizer ? 2 * obsDim : 0);
    this.#vector = arrayOf('float32', this.length);
    this.#run = network.onHost(this.#vector.subarray(0, network.parameterCount));
  }

  /**
   * Copies a published vector into the policy, such as a version read from the mailbox.
   *
   * @param published float32 [length]
   * @returns this policy
   * @throws {TypeError|RangeError} for another array, or another length
   */
  load(published: Float32Array): this {
    if (!(published instanceof Float32Array))
      throw typeError(`load takes a Float32Array, got ${describeValue(published)}`);
    if (published.length !== this.length)
      throw rangeError(`this policy is ${this.length} floats, got ${published.length}`);
    this.#vector.set(published);
    this.#loaded = true;
    return this;
  }

  /**
   * Returns actions [n, actionDim] within the box for n observations.
   *
   * @param obs float32 [n, obsDim], row-major, before normalization. It may contain more than `n`
   *   rows
   * @param n number of rows to use, 0 or more
   * @returns an array that belongs to the policy and is valid until the next call
   * @throws {TypeError} for anything but a Float32Array and a number
   * @throws {RangeError} if `obs` has fewer than `n` rows, an incomplete row, or NaN in the first
   *   `n` rows
   * @throws {ERR_HOTSLOT_STATE_EMPTY} before load()
   */
  act(obs: Float32Array, n: number): Float32Array {
    checkObservations(obs, n, this.network.inputs);
    if (!this.#loaded) throw unloaded('act');
    if (this.#actions.length < n * this.actionDim)
      this.#actions = new Float32Array(n * this.actionDim);
    this.#sampling.n = n;
    this.#fill(
      this.#run(this.#clip === undefined ? obs : this.#normalized(obs, n), n),
      this.#actions,
      this.#sampling,
    );
    return this.#actions.subarray(0, n * this.actionDim);
  }

  #normalized(obs: Float32Array, n: number): Float32Array {
    const { inputs, parameterCount } = this.network;
    const clip = this.#clip as number;
    if (this.#normalizedObs.length < n * inputs) this.#normalizedObs = new Float32Array(n * inputs);
    for (let at = 0; at < n * inputs; at++) {
      const j = parameterCount + (at % inputs);
      const value =
        ((obs[at] as number) - (this.#vector[j] as number)) * (this.#vector[j + inputs] as number);
      this.#normalizedObs[at] = Math.min(Math.max(value, -clip), clip);
    }
    return this.#normalizedObs;
  }
}

export interface SacPolicyOptions {
  /** whether the policy uses the mean instead of a sampled action. Default false */
  greedy?: boolean;
  /** seed of the random numbers, 0 to 2⁵³ − 1, default 0 */
  seed?: number;
}

export const sacPolicyKeys: readonly string[] = [...actorKeys, ...gaussianKeys];

/**
 * Acts with the actor of a SacLearner. It samples actions, or acts greedily with the option
 * `greedy`.
 * @example
 * const policy = new SacPolicy({ obsDim: 17, actionDim: 6 }, { seed: 3 });
 * const weights = new Float32Array(policy.length);
 * mailbox.read(weights);
 * const actions = policy.load(weights).act(obs, 8);
 */
export class SacPolicy extends ActorPolicy {
  /**
   * Creates a policy without weights.
   *
   * @param given the learner's options that describe the actor
   * @param options `greedy` (default false) and `seed` (default 0)
   * @throws {TypeError|RangeError} for a wrong option
   */
  constructor(given: ActorOptions & GaussianOptions, options: SacPolicyOptions = {}) {
    const actor = withPresentNames('SacPolicy', given);
    checkKeys('SacPolicy', actor, sacPolicyKeys);
    checkKeys('SacPolicy', options, ['greedy', 'seed']);
    const { greedy = false, seed = 0 } = options;
    checkFlag('greedy', greedy);
    const { form, min, max, meanClamp } = gaussianOptions(actor);
    const deviation = (raw: number) => {
      const bent = min + 0.5 * (max - min) * (Math.tanh(raw) + 1);
      return Math.exp(form === 'tanh' ? bent : Math.min(Math.max(raw, min), max));
    };
    super(
      ...([actor, actorNetwork(actor, (n) => 2 * n), seed] as const),
      (outputs, actions, { n, actionDim, scale, bias, low, high, random }) => {
        for (let at = 0; at < n * actionDim; at++) {
          const j = at % actionDim;
          const place = 2 * at - j;
          let u = Math.min(Math.max(outputs[place] as number, -meanClamp), meanClamp);
          if (!greedy) u += deviation(outputs[place + actionDim] as number) * random.normal();
          const action = Math.tanh(u) * (scale[j] as number) + (bias[j] as number);
          actions[at] = Math.min(Math.max(action, low[j] as number), high[j] as number);
        }
      },
      meanClamp,
    );
  }
}

export interface Td3PolicyOptions {
  /**
   * standard deviation of the noise on actions, in half widths of the box, default 0, which is
   * greedy
   */
  noise?: number;
  /** seed of the random numbers, 0 to 2⁵³ − 1, default 0 */
  seed?: number;
}

/**
 * Acts as the deterministic actor of a Td3Learner, with or without noise.
 * @example
 * const policy = new Td3Policy({ obsDim: 17, actionDim: 6 }, { noise: 0.1 });
 * const weights = new Float32Array(policy.length);
 * mailbox.read(weights);
 * const actions = policy.load(weights).act(obs, 8);
 */
export class Td3Policy extends ActorPolicy {
  /**
   * Creates a policy without weights.
   *
   * @param given the learner's options that describe the actor
   * @param options `noise` (default 0) and `seed` (default 0)
   * @throws {TypeError|RangeError} for a wrong option
   */
  constructor(given: ActorOptions, options: Td3PolicyOptions = {}) {
    const actor = withPresentNames('Td3Policy', given);
    checkKeys('Td3Policy', actor, actorKeys);
    checkKeys('Td3Policy', options, ['noise', 'seed']);
    const { noise = 0, seed = 0 } = options;
    checkWithin('noise', noise, 0, 1e30);
    super(
      ...([actor, actorNetwork(actor, (n) => n, [tanh()]), seed] as const),
      (outputs, actions, { n, actionDim, scale, bias, low, high, random }) => {
        for (let at = 0; at < n * actionDim; at++) {
          const j = at % actionDim;
          const moved = noise === 0 ? 0 : noise * random.normal();
          const action =
            ((outputs[at] as number) + moved) * (scale[j] as number) + (bias[j] as number);
          actions[at] = Math.min(Math.max(action, low[j] as number), high[j] as number);
        }
      },
    );
  }
}
