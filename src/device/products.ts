/**
 * Which kernel computes a matrix product on a device, and which of its surroundings one launch
 * computes together with it.
 */
import type { Device } from './device.ts';

/** Sizes of a product C[m, n] = A[m, k] · B[k, n], of which a launch computes `batch`. */
export interface ProductSizes {
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** The products that a device computes with its own kernel although it has a vendor's library. */
export interface ProductLimits {
  /** largest number of multiply-adds of one product */
  readonly multiplyAdds: number;
  /** largest number of terms of a sum */
  readonly terms: number;
  /** measurement from which the numbers come */
  readonly source: string;
}

/**
 * Limits of Hotslot's own kernel by device family. A family without an entry has no vendor's
 * library, so its own kernel computes all products. `npm run bench -- products` measures them.
 */
export const productLimits: Readonly<Partial<Record<Device['family'], ProductLimits>>> = {
  cuda: {
    multiplyAdds: 2 ** 24,
    terms: 512,
    source:
      'H100, 27 November 2026: own kernel 9.1 µs at 256 × 256 × 256, where a product of cuBLAS takes 5 to 15 µs',
  },
};

/** How a plan launches the products of a device. */
export interface ProductRules {
  /** Returns why a product is apart from its surroundings, or null if one launch computes them. */
  apart(sizes: ProductSizes): string | null;
  /** whether launches read an input from two places, so that no launch needs to concatenate it */
  readonly twoPlaces: boolean;
  /** whether one launch runs a network on two inputs */
  readonly joins: boolean;
}

/** The host's own product is a part of its fused kernels. Their bits are those of single launches. */
export const hostRules: ProductRules = { apart: () => null, twoPlaces: false, joins: false };
/** Rules of devices whose own kernel computes all products. */
export const ownRules: ProductRules = { apart: () => null, twoPlaces: true, joins: true };

/** Returns the rules of a device with a vendor's library for large products. */
export function vendorRules(library: string, limits: ProductLimits): ProductRules {
  const apart = ({ batch, m, n, k }: ProductSizes): string | null => {
    const of = `${batch > 1 ? `${batch} of ` : ''}${m}×${n}×${k}`;
    if (m * n * k > limits.multiplyAdds)
      return `${library} multiplies ${of}: more than ${limits.multiplyAdds} multiply-adds`;
    if (k > limits.terms) return `${library} multiplies ${of}: sums of more than ${limits.terms}`;
    return null;
  };
  return { apart, twoPlaces: true, joins: true };
}

/** Returns the rules of a device. */
export function productRulesOf({ family, traits: { matrixProducts } }: Device): ProductRules {
  if (family === 'host') return hostRules;
  const limits = productLimits[family];
  const [library = ''] = matrixProducts.split(' ');
  return limits && library === 'cuBLAS' ? vendorRules(library, limits) : ownRules;
}
