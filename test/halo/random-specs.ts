/**
 * Random specifications, slices and values for tests of the transformer. They are the same in every
 * run.
 */
import { arrayOf, type DType, type TypedArray } from '../../src/base/dtype.ts';
import { Random } from '../../src/base/random.ts';
import { HaloExchangeSpec, type HaloRange, QuantityHaloSpec } from '../../src/entries/halo.ts';

const random = new Random(54);
export const below = (n: number) => random.below(n);
export const pick = <T>(from: readonly T[]): T => from[below(from.length)] as T;

/** Returns integers for any dtype, and fractions too for float dtypes. */
export function randomValues(dtype: DType, n: number): TypedArray {
  const values = arrayOf(dtype, n);
  for (let i = 0; i < n; i++) {
    const value = below(1 << 30) - (dtype.startsWith('u') ? 0 : 1 << 29);
    if (values instanceof BigInt64Array || values instanceof BigUint64Array)
      values[i] = BigInt(value);
    else values[i] = value;
  }
  return values;
}

export const dimLists = [
  ['i', 'j', 'k'],
  ['k', 'j', 'i'],
  ['j', 'i'],
  ['i', 'k', 'j'],
  ['i', 'k'],
  ['k', 'j'],
  ['k'],
  ['tile', 'k', 'j_interface', 'i'],
  ['i_interface', 'j', 'k', 'tracer', 'member'],
];

function randomSpec(dtype: DType, dims: readonly string[]): QuantityHaloSpec {
  const shape = dims.map(() => 1 + below(6));
  const order = pick([dims.map((_, d) => d), dims.map((_, d) => dims.length - 1 - d)]);
  const strides = dims.map(() => 0);
  // Sometimes leaves gaps between rows, as in parts of larger arrays.
  let step = pick([1, 1, 2]);
  for (const d of [...order].reverse()) {
    strides[d] = step;
    step *= shape[d]! + pick([0, 0, 1]);
  }
  return new QuantityHaloSpec({
    nPoints: 1,
    shape,
    strides,
    origin: dims.map(() => 0),
    extent: shape,
    dims,
    dtype,
  });
}

function randomSlices({ shape }: QuantityHaloSpec): HaloRange[] {
  return shape.map((n) => {
    const start = below(n);
    const stop = start + 1 + below(n - start);
    // A negative bound counts from the end.
    return pick([
      [start, stop],
      [start - n, stop],
      [start, stop === n ? n : stop - n],
    ]) as HaloRange;
  });
}

export function randomExchange(
  dtype: DType,
  dims: readonly string[],
  rotation: number,
): HaloExchangeSpec {
  const specification = randomSpec(dtype, dims);
  const slices = randomSlices(specification);
  return new HaloExchangeSpec({
    specification,
    packSlices: slices,
    packClockwiseRotation: rotation,
    unpackSlices: slices,
  });
}
