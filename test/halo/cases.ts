/**
 * Shared by halo tests: the 60 golden cases that NDSL computed, and a plain reference
 * implementation.
 */
import { readFileSync } from 'node:fs';
import { arrayOf, elementCount, type TypedArray } from '../../src/base/dtype.ts';
import type { HaloExchangeSpec, HaloRange, QuantityHaloSpec } from '../../src/entries/halo.ts';
import type { HaloCase } from '../golden/halo.ts';

const fixture = new URL('../../../test/fixtures/halo_ndsl.json', import.meta.url);
export const golden: HaloCase[] = JSON.parse(readFileSync(fixture, 'utf8')).cases;

// ---- the plain reference implementation --------------------------------------------------------

/**
 * Returns the offsets of a range's elements in the array, in row-major order after n
 * counter-clockwise quarter turns.
 */
export function walked(spec: QuantityHaloSpec, slices: readonly HaloRange[], n: number): number[] {
  const [x, y] = [spec.xDim, spec.yDim];
  const extents = slices.map(([start, stop]) => stop - start);
  const both = x >= 0 && y >= 0;
  const turned = [...extents];
  if (both && n % 2 === 1) [turned[x], turned[y]] = [extents[y]!, extents[x]!];
  return Array.from({ length: elementCount(turned) }, (_, at) => {
    const index = turned.map(() => 0);
    let left = at;
    for (let d = turned.length - 1; d >= 0; d--) {
      index[d] = left % turned[d]!;
      left = Math.floor(left / turned[d]!);
    }
    const from = [...index];
    const last = (d: number) => extents[d]! - 1;
    if (both) {
      const [a, b] = [index[x]!, index[y]!];
      const turns = [
        [a, b],
        [last(x) - b, a],
        [last(x) - a, last(y) - b],
        [b, last(y) - a],
      ];
      [from[x], from[y]] = turns[n] as [number, number];
    } else {
      if (x >= 0 && (n === 1 || n === 2)) from[x] = last(x) - index[x]!;
      if (y >= 0 && (n === 3 || n === 2)) from[y] = last(y) - index[y]!;
    }
    return from.reduce((sum, i, d) => sum + (i + slices[d]![0]) * spec.strides[d]!, 0);
  });
}

const turnsOf = (rotation: number) => (((-rotation % 4) + 4) % 4) as 0 | 1 | 2 | 3;

/** Returns the packed elements: one array per descriptor, or the x and y arrays of each. */
export function packedBy(
  specs: readonly HaloExchangeSpec[][],
  data: readonly TypedArray[][],
): TypedArray {
  const out: (number | bigint)[] = [];
  specs.forEach((components, i) => {
    const n = turnsOf(components[0]!.packClockwiseRotation);
    const vector = components.length === 2;
    components.forEach((_, which) => {
      const from = vector && n % 2 === 1 ? 1 - which : which;
      const negative = vector && (which === 0 ? n === 2 || n === 3 : n === 1 || n === 2);
      const { specification, packSlices } = components[from]!;
      for (const at of walked(specification, packSlices, n)) {
        const value = data[i]![from]![at] as number;
        out.push(negative ? -value : value);
      }
    });
  });
  const { dtype } = specs[0]![0]!.specification;
  const buffer = arrayOf(dtype, out.length);
  for (const [i, value] of out.entries()) (buffer as Float32Array)[i] = value as number;
  return buffer;
}

export function unpackInto(
  specs: readonly HaloExchangeSpec[][],
  data: readonly TypedArray[][],
  buffer: TypedArray,
): void {
  let at = 0;
  specs.forEach((components, i) => {
    components.forEach(({ specification, unpackSlices }, which) => {
      for (const to of walked(specification, unpackSlices, 0))
        (data[i]![which] as Float32Array)[to] = buffer[at++] as number;
    });
  });
}
