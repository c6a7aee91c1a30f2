/** The acting side of a learner's network: greedy actions on the calling thread from a flat weight vector, no device. */
import { checkCount, checkKeys, shown } from '../checks.ts';
import { rangeError, typeError } from '../errors.ts';
import { activate, dense } from './dense.ts';
import { MlpLayout, type MlpOptions } from './mlp-layout.ts';

export class MlpPolicy {
  readonly layout: MlpLayout;
  /** the flat vector that act and values read; copy new weights into it with load() */
  readonly parameters: Float32Array;
  #capacity = 0;
  #hidden: Float32Array[] = [];
  #actions = new Int32Array(0);

  /** `parameters`, if given, are copied: a flat vector of MlpLayout's parameterCount floats. */
  constructor(options: MlpOptions, parameters?: Float32Array) {
    checkKeys('MlpPolicy', options, ['sizes', 'activation', 'outputActivation']);
    this.layout = new MlpLayout(options);
    this.parameters = new Float32Array(this.layout.parameterCount);
    if (parameters !== undefined) this.load(parameters);
  }

  /** Copies a flat weight vector in, such as a version taken from the mailbox. */
  load(parameters: Float32Array): this {
    if (!(parameters instanceof Float32Array))
      throw typeError(`parameters must be a Float32Array, got ${shown(parameters)}`);
    if (parameters.length !== this.parameters.length) {
      throw rangeError(
        `parameters must be ${this.parameters.length} floats for [${this.layout.sizes}], got ${parameters.length}`,
      );
    }
    this.parameters.set(parameters);
    return this;
  }

  /**
   * The network's outputs [n, outputs] for `obs`, n rows of float32 observations (row-major). The array is the policy's
   * own and good until the next call.
   */
  values(obs: Float32Array, n: number): Float32Array {
    const { layers, inputs } = this.layout;
    checkCount('n', n, 0);
    if (!(obs instanceof Float32Array)) throw typeError(`obs must be a Float32Array, got ${shown(obs)}`);
    if (obs.length < n * inputs)
      throw rangeError(`${n} rows of ${inputs} need ${n * inputs} floats, got ${obs.length}`);
    if (n > this.#capacity || this.#hidden.length === 0) this.#grow(n);
    let x = obs;
    layers.forEach((layer, i) => {
      const y = this.#hidden[i] as Float32Array;
      dense(x, n, layer, this.parameters, y);
      activate(y, n * layer.outputs, layer.activation);
      x = y;
    });
    return x.subarray(0, n * this.layout.outputs);
  }

  /** The greedy action of each of `n` rows, the first of equals. The array is good until the next call. */
  act(obs: Float32Array, n: number): Int32Array {
    const { outputs } = this.layout;
    const values = this.values(obs, n);
    for (let row = 0; row < n; row++) {
      let best = row * outputs;
      for (let at = best + 1; at < (row + 1) * outputs; at++) {
        if ((values[at] as number) > (values[best] as number)) best = at;
      }
      this.#actions[row] = best - row * outputs;
    }
    return this.#actions.subarray(0, n);
  }

  #grow(n: number): void {
    this.#capacity = n;
    this.#hidden = this.layout.layers.map(({ outputs }) => new Float32Array(n * outputs));
    this.#actions = new Int32Array(n);
  }
}
