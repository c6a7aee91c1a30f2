/**
 * Which kernel computes a matrix product on a device, and which of its surroundings one launch
 * computes together with it.
 */
import type { Device } from './device.ts';
import { nativeKernels, type ProductLimits } from './native.ts';

/** Sizes of a product C[m, n] = A[m, k] · B[k, n], of which a launch computes `batch`. */
interface ProductSizes {
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** How a plan launches the products of a device. */
export interface ProductRules {
  /** Returns why a product is apart from its surroundings, or null if one launch computes them. */
  apart(sizes: ProductSizes): string | null;
  /** whether launches read an input from two places, so that no launch needs to concatenate it */
  readonly twoPlaces: boolean;
  /** whether one launch runs a network on two inputs */
  readonly joins: boolean;
  /** whether one launch computes all members of an ensemble */
  readonly batches: boolean;
}

/**
 * The host's own product is a part of its fused kernels. Their bits are those of single launches. The
 * host computes one member after the other, so that the gradients of a member are still in its cache.
 */
export const hostRules: ProductRules = {
  apart: () => null,
  twoPlaces: false,
  joins: false,
  batches: false,
};
/** Rules of devices whose own kernel computes all products. */
export const ownRules: ProductRules = {
  apart: () => null,
  twoPlaces: true,
  joins: true,
  batches: true,
};

/**
 * Returns the rules of a device with a vendor's library for large products.
 *
 * @param precision of the library's products, ' in TF32' or an empty text
 */
export function vendorRules(library: string, limits: ProductLimits, precision = ''): ProductRules {
  const says = (of: string): string => `${library} multiplies ${of}${precision}`;
  const apart = ({ batch, m, n, k }: ProductSizes): string | null => {
    const of = `${batch > 1 ? `${batch} of ` : ''}${m}×${n}×${k}`;
    if (m * n * k > limits.multiplyAdds)
      return `${says(of)}: more than ${limits.multiplyAdds} multiply-adds`;
    if (k > limits.terms) return `${says(of)}: sums of more than ${limits.terms} terms`;
    return null;
  };
  return { ...ownRules, apart };
}

/** Returns the rules of a device. */
export function productRulesOf({ family, traits }: Device): ProductRules {
  if (family === 'host') return hostRules;
  const limits = nativeKernels().productLimits[family];
  const { matrixProducts, products } = traits;
  const [library = ''] = matrixProducts.split(' ');
  if (!limits || library !== 'cuBLAS') return ownRules;
  return vendorRules(library, limits, products === 'tf32' ? ' in TF32' : '');
}
