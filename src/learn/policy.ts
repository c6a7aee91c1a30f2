/**
 * The acting side of a learner's network: greedy actions on the calling thread from a flat weight
 * vector, without a device.
 */
import { describeValue } from '../base/checks.ts';
import { arrayOf } from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkObservations, unloaded } from './checks.ts';
import { Mlp, type MlpOptions } from './mlp.ts';
import { Network } from './network/network.ts';

/**
 * Returns a policy's weights, for exports to other formats. Throws if the policy has no weights.
 */
export let weightsOf: (policy: MlpPolicy, call: string) => Float32Array;

export class MlpPolicy {
  readonly network: Network;
  /** the flat vector that act and values read, into which load() copies new weights */
  readonly parameters: Float32Array;
  readonly #run: (x: Float32Array, rows: number) => Float32Array;
  #loaded = false;
  #actions = new Int32Array(0);

  static {
    weightsOf = (policy, call) => {
      // Weights may also have been written into `parameters`.
      policy.#loaded ||= policy.parameters.some((weight) => weight !== 0);
      if (!policy.#loaded) throw unloaded(call);
      return policy.parameters;
    };
  }

  /**
   * Makes a policy from a Network or from an Mlp's options. `parameters`, if given, are copied: a
   * flat vector of the network's parameterCount.
   */
  constructor(network: Network | MlpOptions, parameters?: Float32Array) {
    this.network = network instanceof Network ? network : new Mlp(network);
    this.parameters = arrayOf('float32', this.network.parameterCount);
    this.#run = this.network.onHost(this.parameters);
    if (parameters !== undefined) this.load(parameters);
  }

  /** Copies a flat weight vector in, such as a version taken from the mailbox. */
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
   * Returns the network's outputs [n, outputs] for `obs`, n rows of float32 observations
   * (row-major). The array belongs to the policy and is valid until the next call. Throws
   * ERR_HOTSLOT_STATE_EMPTY until the policy has weights. Throws RangeError if obs is not n or more
   * whole rows, or if one of the first n has NaN.
   */
  values(obs: Float32Array, n: number): Float32Array {
    checkObservations(obs, n, this.network.inputs);
    if (!this.#loaded) weightsOf(this, 'values');
    return this.#run(obs, n);
  }

  /**
   * Returns the greedy action of each of `n` rows, the first of equals. The array is valid until
   * the next call. Throws as values() does.
   */
  act(obs: Float32Array, n: number): Int32Array {
    const { outputs } = this.network;
    const values = this.values(obs, n);
    if (this.#actions.length < n) this.#actions = new Int32Array(n);
    for (let row = 0; row < n; row++) {
      let best = row * outputs;
      for (let at = best + 1; at < (row + 1) * outputs; at++) {
        if ((values[at] as number) > (values[best] as number)) best = at;
      }
      this.#actions[row] = best - row * outputs;
    }
    return this.#actions.subarray(0, n);
  }
}
