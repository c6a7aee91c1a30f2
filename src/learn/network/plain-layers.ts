/** Networks of the library's own layers as plain data, from which another thread builds them again. */
import { typeError } from '../../base/errors.ts';
import { conv2d } from './conv2d.ts';
import { dueling, expectation, quantileMean } from './heads.ts';
import type { ActivationName } from './host.ts';
import { kindOf, type LayerKind } from './kinds.ts';
import {
  elu,
  flatten,
  gelu,
  geluTanh,
  type Layer,
  layerNorm,
  linear,
  relu,
  sigmoid,
  silu,
  tanh,
} from './layers.ts';
import { Network } from './network.ts';

/** A layer as plain data: its kind, and the numbers of elements of its input and output rows. */
export type PlainLayer = LayerKind & { readonly inputs: number; readonly outputs: number };

const activations: Readonly<Record<ActivationName, () => Layer>> = {
  relu,
  tanh,
  sigmoid,
  silu,
  gelu,
  geluTanh,
  elu,
};

/** Returns the layers of a network as plain data. Throws for a layer that a user wrote. */
export function plainLayers(what: string, network: Network): PlainLayer[] {
  let inputs = network.inputs;
  return network.layers.map((layer, i) => {
    const kind = kindOf(layer);
    if (kind === undefined)
      throw typeError(
        `${what}: layers[${i}], ${layer.name}, is not a layer of hotslot/learner, so another thread cannot build it; make the policy in a module`,
      );
    const plain = { ...kind, inputs, outputs: layer.outputs(inputs) };
    inputs = plain.outputs;
    return plain;
  });
}

/** Builds the network of plainLayers(). */
export const networkOf = (layers: readonly PlainLayer[]): Network => new Network(layers.map(built));

function built(layer: PlainLayer): Layer {
  switch (layer.kind) {
    case 'linear':
      return linear(layer.inputs, layer.outputs);
    case 'flatten':
      return flatten();
    case 'activation':
      return activations[layer.name]();
    case 'layerNorm':
      return layerNorm(layer.inputs, { epsilon: layer.epsilon });
    case 'conv2d': {
      const { channels, height, width, filters, stride, padding, ...kernel } = layer.sizes;
      return conv2d([channels, height, width], filters, {
        kernel: [kernel.kernelHeight, kernel.kernelWidth],
        stride,
        padding,
      });
    }
    case 'dueling':
      return dueling(layer.actions, { atoms: layer.atoms });
    case 'quantileMean':
      return quantileMean(layer.quantiles, layer.actions);
    case 'expectation': {
      const { count, atoms, min, max } = layer;
      return expectation(count, { atoms, min, max });
    }
  }
}
