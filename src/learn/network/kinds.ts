/**
 * What the library's own layers are, for those who write a network down in another form. A layer of
 * somebody else's has no kind.
 */
import type { ActivationName } from './host.ts';

/** What a layer does, beside its parameters; sizes in numbers of a row, or pixels. */
export type LayerKind =
  | { readonly kind: 'linear' | 'flatten' }
  | { readonly kind: 'activation'; readonly name: ActivationName }
  | { readonly kind: 'layerNorm'; readonly epsilon: number }
  | { readonly kind: 'conv2d'; readonly sizes: Conv2dSizes }
  | { readonly kind: 'dueling'; readonly actions: number; readonly atoms: number }
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
  /** places of an image that it makes */
  readonly high: number;
  readonly wide: number;
}

const kinds = new WeakMap<object, LayerKind>();

/** Says what `layer` is, and gives it back. */
export function ofKind<L extends object>(kind: LayerKind, layer: L): L {
  kinds.set(layer, kind);
  return layer;
}

/** undefined of a layer that somebody else wrote. */
export const kindOf = (layer: object): LayerKind | undefined => kinds.get(layer);
