/** Policies that act with published weights, on the calling thread and without a device. */

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

/** Inputs of the actions in addition to the network's outputs: the box, and random numbers. */
type Making = ReturnType<typeof boxOf> & { n: number; actionDim: number; random: Random };
/** Makes actions from the network's outputs for n rows. */
type Fill = (outputs: Float32Array, actions: Float32Array, making: Making) => void;

/**
 * A policy that draws nothing: outputs are limited to ±meanClamp, squashed unless the network does
 * so, scaled to the box, and cut off at its ends.
 */
export interface GreedyActor {
  /** the published vector, as it was loaded */
  readonly vector: Float32Array;
  /** limit of normalized observations, or undefined if they are not normalized */
  readonly clip: number | undefined;
  /** half widths and middles of the box, and its ends */
  readonly box: ReturnType<typeof boxOf>;
  /**
   * limit of means before they are squashed by tanh, or undefined if the network squashes them and
   * the box cuts off
   */
  readonly meanClamp: number | undefined;
}

/**
 * Returns the greedy actor of a policy, for exports to other formats. The package does not export
 * this function.
 */
export let greedyActor: (policy: ActorPolicy) => GreedyActor;

export abstract class ActorPolicy {
  readonly network: Network;
  readonly actionDim: number;
  /**
   * numbers of a published vector: the network's parameters and, with a normalizer, means and
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

  /** Copies a published vector in, such as a version taken from the mailbox. */
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
   * Returns actions [n, actionDim] for `obs`, n rows of observations, row-major. The array is valid
   * until the next call. Throws ERR_HOTSLOT_STATE_EMPTY until the policy has weights. Throws
   * RangeError if obs is not n or more whole rows, or if one of the first n has NaN.
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
  /** the mean's action instead of a drawn one, default false */
  greedy?: boolean;
  /** seed of the random numbers, default 0 */
  seed?: number;
}

export const sacPolicyKeys: readonly string[] = [...actorKeys, ...gaussianKeys];

/** The stochastic actor of SAC, made from the actor's options of a SacLearner. */
export class SacPolicy extends ActorPolicy {
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
  /** deviation of the noise on actions, in half widths of the box. 0, the default, is greedy */
  noise?: number;
  /** seed of the random numbers, default 0 */
  seed?: number;
}

/** The deterministic actor of TD3, made from the actor's options of a Td3Learner. */
export class Td3Policy extends ActorPolicy {
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
