/** Where the weights of a multilayer perceptron lie in one flat float32 vector; learner, policy and mailbox share it. */
import { checkCount, checkKeys, shown } from '../checks.ts';
import { rangeError, typeError } from '../errors.ts';
import { Random } from '../random.ts';
import { type Activation, checkActivation } from './activation.ts';

export interface MlpOptions {
  /** neurons per layer, input first: [4, 120, 84, 2] */
  sizes: readonly number[];
  /** between layers; default 'relu' */
  activation?: Activation;
  /** behind the last layer; default 'none' */
  outputActivation?: Activation;
}

/** One dense layer y = act(x·W + b): offsets in floats from the start of the flat vector. */
export interface DenseLayer {
  readonly inputs: number;
  readonly outputs: number;
  /** W, inputs × outputs, row-major: the weights of one input lie together (torch's Linear stores the transpose) */
  readonly weight: number;
  /** b, outputs floats, directly behind W */
  readonly bias: number;
  readonly activation: Activation;
}

/** The flat vector is W1, b1, W2, b2, … without gaps. */
export class MlpLayout {
  readonly sizes: readonly number[];
  readonly layers: readonly DenseLayer[];
  /** floats in the flat vector */
  readonly parameterCount: number;

  constructor(options: MlpOptions) {
    checkKeys(new.target.name, options, ['sizes', 'activation', 'outputActivation']);
    const { sizes, activation = 'relu', outputActivation = 'none' } = options;
    if (!Array.isArray(sizes)) throw typeError(`sizes must be an array of layer sizes, got ${shown(sizes)}`);
    if (sizes.length < 2) throw rangeError(`sizes needs at least input and output, got [${sizes}]`);
    this.sizes = sizes.map((size, i) => checkCount(`sizes[${i}]`, size, 1, 2 ** 20));
    checkActivation('activation', activation);
    checkActivation('outputActivation', outputActivation);
    const layers: DenseLayer[] = [];
    let at = 0;
    for (let i = 0; i + 1 < sizes.length; i++) {
      const inputs = this.sizes[i] as number;
      const outputs = this.sizes[i + 1] as number;
      const bias = at + inputs * outputs;
      const last = i + 2 === sizes.length;
      layers.push({ inputs, outputs, weight: at, bias, activation: last ? outputActivation : activation });
      at = bias + outputs;
    }
    this.layers = layers;
    this.parameterCount = at;
  }

  get inputs(): number {
    return this.sizes[0] as number;
  }
  get outputs(): number {
    return this.sizes[this.sizes.length - 1] as number;
  }

  /** Fresh weights and biases, uniform within ±1/√inputs of their layer as torch.nn.Linear draws them; by `seed`. */
  initialise(seed: number): Float32Array {
    const random = new Random(seed);
    const flat = new Float32Array(this.parameterCount);
    for (const layer of this.layers) {
      const bound = 1 / Math.sqrt(layer.inputs);
      const end = layer.bias + layer.outputs;
      for (let i = layer.weight; i < end; i++) flat[i] = random.between(-1, 1) * bound;
    }
    return flat;
  }
}
