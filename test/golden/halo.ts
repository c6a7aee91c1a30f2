/**
 * Cases of `halo_ndsl.json`: results of NDSL's CPU transformer. Ours must have the same bits on the
 * CPU and on the tested device.
 */
import { type DType, dtypes, type TypedArray } from '../../src/base/dtype.ts';
import {
  HaloDataTransformer,
  HaloExchangeSpec,
  type HaloQuantity,
  QuantityHaloSpec,
} from '../../src/entries/halo.ts';
import type { Tensor } from '../../src/index.ts';
import { close, deviceAt, fill, memoryAt, places, valuesAt } from '../halo/places.ts';
import { firstDifference } from '../rig/same-bits.ts';
import { same } from './differences.ts';

/**
 * A case: the memory before, what packing must give, the buffer to unpack, and the memory after.
 */
export interface HaloCase {
  name: string;
  kind: 'scalar' | 'vector';
  dtype: 'float32' | 'float64';
  dims: string[];
  shape: number[];
  strides: number[];
  nHalo: number;
  origin: number[];
  extent: number[];
  clockwiseRotation: number;
  edges: string[];
  descriptors: { pack: [number, number][]; unpack: [number, number][] }[][];
  /** base64 of each component's memory */
  before: string[];
  packBuffer: string;
  unpackBuffer: string;
  after: string[];
}

export function decoded(base64: string, dtype: DType): TypedArray {
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
  return new dtypes[dtype].array(bytes.buffer as ArrayBuffer) as TypedArray;
}
/** Returns the bits as text, so that signs of zeros and NaNs count. */
export const bits = (values: TypedArray) =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('hex');

export function goldenSpecs(of: HaloCase, component: number): HaloExchangeSpec[] {
  const { nHalo: nPoints, shape, strides, origin, extent, dims, dtype } = of;
  const itemsize = dtypes[dtype].bytes;
  const specification = new QuantityHaloSpec({
    nPoints,
    shape,
    strides,
    itemsize,
    origin,
    extent,
    dims,
    dtype,
  });
  return of.descriptors.map(
    (components) =>
      new HaloExchangeSpec({
        specification,
        packSlices: components[component]!.pack,
        packClockwiseRotation: of.clockwiseRotation,
        unpackSlices: components[component]!.unpack,
      }),
  );
}

export function goldenTransformer(of: HaloCase, place: string): HaloDataTransformer {
  const y = of.kind === 'vector' ? goldenSpecs(of, 1) : null;
  return HaloDataTransformer.get(deviceAt(place), goldenSpecs(of, 0), y);
}
/**
 * Returns the same quantity once per descriptor, like a rank that shares several edges with one
 * neighbor.
 */
export function repeated(of: HaloCase, data: TypedArray | Tensor): HaloQuantity[] {
  const { shape, strides, dims } = of;
  return of.descriptors.map(() => ({ data, shape, strides, dims }));
}

/** Throws at the first element that differs. NaN equals NaN, with any sign and payload. */
function sameBits(what: string, got: TypedArray, expected: TypedArray): void {
  same(`${what}: the number of elements`, got.length, expected.length);
  const at = firstDifference(got, expected);
  if (at >= 0)
    same(
      `${what}: element ${at}`,
      bits(got.subarray(at, at + 1)),
      bits(expected.subarray(at, at + 1)),
    );
}

/** Checks the case on each place, one after the other. */
export async function checkHalo(golden: HaloCase): Promise<void> {
  for (const place of places) await checkHaloOn(place, golden);
}

export async function checkHaloOn(place: string, golden: HaloCase): Promise<void> {
  const { dtype } = golden;
  const data = golden.before.map((text) => memoryAt(place, decoded(text, dtype)));
  try {
    using transformer = goldenTransformer(golden, place);
    const [x, y = null] = data.map((of) => repeated(golden, of)) as [
      HaloQuantity[],
      HaloQuantity[]?,
    ];
    transformer.asyncPack(x, y);
    sameBits(
      `on ${place}, packed`,
      await valuesAt(transformer.getPackBuffer()),
      decoded(golden.packBuffer, dtype),
    );
    fill(transformer.getUnpackBuffer(), decoded(golden.unpackBuffer, dtype));
    transformer.asyncUnpack(x, y);
    await transformer.synchronize();
    same(`on ${place}: the number of components`, data.length, golden.after.length);
    for (const [i, of] of data.entries())
      sameBits(
        `on ${place}, component ${i} after`,
        await valuesAt(of),
        decoded(golden.after[i]!, dtype),
      );
  } finally {
    close(...data);
  }
}
