/**
 * Kinds of the library's own layers, for exports of a network to other formats. A layer that a user
 * wrote has no kind.
 */
import type { ActivationName } from './host.ts';

/**
 * Describes what a layer computes, without its parameters. Sizes count elements of a row, or
 * pixels.
 */
export type LayerKind =
  | { readonly kind: 'linear' | 'flatten' }
  | { readonly kind: 'activation'; readonly name: ActivationName }
  | { readonly kind: 'layerNorm'; readonly epsilon: number }
  | { readonly kind: 'conv2d'; readonly sizes: Conv2dSizes }
  | { readonly kind: 'dueling'; readonly actions: number; readonly atoms: number }
  | { readonly kind: 'quantileMean'; readonly quantiles: number; readonly actions: number }
  | {
      readonly kind: 'expectation';
      readonly count: number;
      readonly atoms: number;
      readonly min: number;
      readonly max: number;
    };

export interface Conv2dSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  readonly kernelHeight: number;
  readonly kernelWidth: number;
  readonly stride: number;
  readonly padding: number;
  readonly filters: number;
  /** height of an output image in pixels. `wide` is its width */
  readonly high: number;
  readonly wide: number;
}

const kinds = new WeakMap<object, LayerKind>();

/** Records the kind of `layer`, and returns the layer. */
export function ofKind<L extends object>(kind: LayerKind, layer: L): L {
  kinds.set(layer, kind);
  return layer;
}

/** Returns a layer's kind, or undefined for a layer that a user wrote. */
export const kindOf = (layer: object): LayerKind | undefined => kinds.get(layer);

/** A linear layer and the layers that a network computes together with it. */
export interface LinearKind {
  /** number of the activation in native/kernels/unary.gk, or −1 for none */
  readonly op: number;
  /** epsilon of a layer normalization before the activation, or null for none */
  readonly epsilon: number | null;
}

const linears = new WeakMap<object, LinearKind>();

/** Records that `layer` is a linear layer with an activation, and returns the layer. */
export function ofLinear<L extends object>(kind: LinearKind, layer: L): L {
  linears.set(layer, kind);
  return layer;
}

/** Returns the activation and normalization of a linear layer, or undefined for other layers. */
export const linearOf = (layer: object): LinearKind | undefined => linears.get(layer);
