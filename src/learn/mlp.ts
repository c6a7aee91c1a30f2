/**
 * The multilayer perceptron (MLP), defined by the sizes of its layers. Most learners train such
 * networks.
 */
import { checkCount, checkKeys, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { type Activation, checkActivation } from './activation.ts';
import { type Layer, linear, relu, tanh } from './network/layers.ts';
import { Network } from './network/network.ts';

export interface MlpOptions {
  /** neurons per layer, input first: [4, 120, 84, 2] */
  sizes: readonly number[];
  /** activation between layers, default 'relu' */
  activation?: Activation;
  /** activation after the last layer, default 'none' */
  outputActivation?: Activation;
}

export const layerOf: Record<Activation, () => Layer[]> = {
  none: () => [],
  relu: () => [relu()],
  tanh: () => [tanh()],
};

/** Returns a linear layer from each size to the next, and the activation after each of them. */
export const hiddenLayers = (sizes: readonly number[], activation: Activation): Layer[] =>
  sizes
    .slice(1)
    .flatMap((outputs, i) => [linear(sizes[i] as number, outputs), ...layerOf[activation]()]);

/**
 * Describes a network of linear layers with activations between them.
 * @example
 * const net = new Mlp({ sizes: [4, 120, 84, 2], activation: 'tanh' });
 * const weights = net.initialize(7);
 */
export class Mlp extends Network {
  /** neurons per layer, input first */
  readonly sizes: readonly number[];

  /**
   * Builds the layers.
   *
   * @throws {TypeError} for an unknown option or activation, or for `sizes` other than numbers
   * @throws {RangeError} for fewer than two sizes, or a size outside of 1 to 2²⁰
   */

  constructor(options: MlpOptions) {
    checkKeys('Mlp', options, ['sizes', 'activation', 'outputActivation']);
    const { sizes, activation = 'relu', outputActivation = 'none' } = options;
    if (!Array.isArray(sizes))
      throw typeError(`sizes must be an array of layer sizes, got ${describeValue(sizes)}`);
    if (sizes.length < 2) throw rangeError(`sizes needs at least input and output, got [${sizes}]`);
    sizes.forEach((size, i) => {
      checkCount(`sizes[${i}]`, size, 1, 2 ** 20);
    });
    const between = checkActivation('activation', activation);
    const output = checkActivation('outputActivation', outputActivation);
    const [inputs, outputs] = sizes.slice(-2) as [number, number];
    super([
      ...hiddenLayers(sizes.slice(0, -1), between),
      linear(inputs, outputs),
      ...layerOf[output](),
    ]);
    this.sizes = Object.freeze([...sizes]);
    Object.freeze(this);
  }
}
