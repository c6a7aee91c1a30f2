/**
 * Policies that act greedily with a learner's network, from a flat weight vector. They run on the
 * calling thread and need no device.
 */
import { checkKeys, describeValue } from '../base/checks.ts';
import { arrayOf } from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkObservations, unloaded } from './checks.ts';
import { Mlp, type MlpOptions } from './mlp.ts';
import { Network } from './network/network.ts';

/** Options of a policy's act(). */
export interface ActOptions {
  /**
   * legal actions, [n, actions], row-major: any byte but 0 is legal. It may have as many rows as the
   * observations, if these are more than `n`. The action of a row without a legal action is 0. The array is valid until act() returns.
   * Default: all actions are legal
   */
  readonly mask?: Uint8Array | undefined;
}

/**
 * Returns a policy's weights, for exports to other formats. Throws if the policy has no weights.
 */
export let weightsOf: (policy: MlpPolicy, call: string) => Float32Array;

/**
 * Returns the mask of a call, or undefined. Throws for another array, or unless it has `n` rows, or
 * as many rows as the observations.
 */
function checkedMask(
  options: ActOptions,
  n: number,
  actions: number,
  observations: number,
): Uint8Array | undefined {
  checkKeys('policy', options, ['mask']);
  const { mask } = options;
  if (mask === undefined) return undefined;
  if (!(mask instanceof Uint8Array))
    throw typeError(
      `mask must be a Uint8Array of one byte for each action, got ${describeValue(mask)}`,
    );
  if (mask.length !== n * actions && mask.length !== observations * actions)
    throw rangeError(
      `mask: ${n} rows of ${actions} actions need ${n * actions} bytes, got ${mask.length}`,
    );
  return mask;
}

/**
 * Acts greedily on the outputs of a network. It runs on the calling thread and needs no device.
 * @example
 * const policy = new MlpPolicy({ sizes: [4, 32, 2] });
 * policy.load(await learner.parameters.toArray());
 * const actions = policy.act(obs, 8);
 */
export class MlpPolicy {
  readonly network: Network;
  /** flat weight vector that act() and values() read. load() copies new weights into it */
  readonly parameters: Float32Array;
  readonly #run: (x: Float32Array, rows: number, mask?: Uint8Array) => Float32Array;
  #loaded = false;
  #actions = new Int32Array(0);

  static {
    weightsOf = (policy, call) => {
      // The caller may have written weights directly into `parameters`, without load().
      policy.#loaded ||= policy.parameters.some((weight) => weight !== 0);
      if (!policy.#loaded) throw unloaded(call);
      return policy.parameters;
    };
  }

  /**
   * Creates a policy from a Network or from an Mlp's options.
   *
   * @param parameters flat vector of parameterCount weights, which the constructor copies. Default:
   *   the policy has no weights until load()
   * @throws {TypeError|RangeError} for wrong options, another array, or another length
   * @throws {TypeError} if a layer of the network has no run()
   */
  constructor(network: Network | MlpOptions, parameters?: Float32Array) {
    this.network = network instanceof Network ? network : new Mlp(network);
    this.parameters = arrayOf('float32', this.network.parameterCount);
    this.#run = this.network.onHost(this.parameters);
    if (parameters !== undefined) this.load(parameters);
  }

  /**
   * Copies a flat weight vector into the policy, such as a version read from the mailbox.
   *
   * @param parameters float32, the network's parameterCount
   * @returns this policy
   * @throws {TypeError|RangeError} for another array, or another length
   */
  load(parameters: Float32Array): this {
    if (!(parameters instanceof Float32Array))
      throw typeError(`parameters must be a Float32Array, got ${describeValue(parameters)}`);
    if (parameters.length !== this.parameters.length) {
      const { inputs, outputs } = this.network;
      throw rangeError(
        `parameters must be ${this.parameters.length} floats for a network from ${inputs} to ${outputs} numbers, got ${parameters.length}`,
      );
    }
    this.parameters.set(parameters);
    this.#loaded = true;
    return this;
  }

  /**
   * Returns the network's outputs [n, outputs] for n observations.
   *
   * @param obs float32 [n, inputs], row-major. It may contain more than `n` rows
   * @param n number of rows to use, 0 or more
   * @param options `mask`: legal actions. The outputs of illegal ones are −Infinity, and a dueling
   *   layer takes its mean over legal ones
   * @returns an array that belongs to the policy and is valid until the next call
   * @throws {TypeError} for anything but a Float32Array and a number, a mask that is not a
   *   Uint8Array, or an unknown option
   * @throws {RangeError} if `obs` has fewer than `n` rows, an incomplete row, or NaN in the first
   *   `n` rows, or if `mask` has another number of rows
   * @throws {ERR_HOTSLOT_STATE_EMPTY} if the policy has no weights
   */
  values(obs: Float32Array, n: number, options?: ActOptions): Float32Array {
    checkObservations(obs, n, this.network.inputs);
    const { outputs } = this.network;
    const mask = options && checkedMask(options, n, outputs, obs.length / this.network.inputs);
    if (!this.#loaded) weightsOf(this, 'values');
    const values = this.#run(obs, n, mask);
    if (mask)
      for (let at = 0; at < n * outputs; at++)
        if (mask[at] === 0) values[at] = Number.NEGATIVE_INFINITY;
    return values;
  }

  /**
   * Returns the greedy action of each of `n` observations: the index of the largest output, or of
   * the first of several. With a mask it is a legal action. A row without a legal action gets 0.
   *
   * @param obs float32 [n, inputs], row-major. It may contain more than `n` rows
   * @param n number of rows to use, 0 or more
   * @param options `mask`: legal actions
   * @returns int32 [n], an array that belongs to the policy and is valid until the next call
   * @throws as values()
   */
  act(obs: Float32Array, n: number, options?: ActOptions): Int32Array {
    const { outputs } = this.network;
    const values = this.values(obs, n, options);
    const mask = options?.mask;
    if (this.#actions.length < n) this.#actions = new Int32Array(n);
    for (let row = 0; row < n; row++) {
      if (mask) {
        this.#actions[row] = bestAmong(values, mask, row * outputs, outputs);
        continue;
      }
      let best = row * outputs;
      for (let at = best + 1; at < (row + 1) * outputs; at++) {
        if ((values[at] as number) > (values[best] as number)) best = at;
      }
      this.#actions[row] = best - row * outputs;
    }
    return this.#actions.subarray(0, n);
  }
}

/** Returns the legal action with the largest value among `actions` ones from `from` on, or 0. */
function bestAmong(values: Float32Array, mask: Uint8Array, from: number, actions: number): number {
  let best = -1;
  for (let a = 0; a < actions; a++) {
    if (mask[from + a] === 0) continue;
    if (best < 0 || (values[from + a] as number) > (values[from + best] as number)) best = a;
  }
  return Math.max(best, 0);
}
