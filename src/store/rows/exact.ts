/** Converts elements to another dtype in which each has the same value. */
import { type ArrayOf, arrayOf, type DType } from '../../base/dtype.ts';
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from '../../base/float16.ts';

/** The converted elements, or the index of the first element that the other dtype cannot hold. */
export type Exact = { readonly data: ArrayOf<DType> } | { readonly lost: number };

/**
 * Converts elements from one dtype to another. float64 is rounded to float32, as is usual for files
 * of float64. A finite value must stay finite. For every other pair of dtypes each value stays the
 * same. Returns the index of the first value for which this is impossible. If the dtypes are equal,
 * returns the array itself.
 */
export function exactly(data: ArrayOf<DType>, from: DType, to: DType): Exact {
  if (from === to) return { data };
  if (from === 'float64' && to === 'float32') return rounded(data as Float64Array);
  const values = numbersOf(data, from);
  if (to === 'float16' || to === 'bfloat16') return halved(values, to);
  return to === 'int64' || to === 'uint64' ? widened(values, to) : narrowed(values, to);
}

type Values = ArrayLike<number | bigint>;

const numbersOf = (data: ArrayOf<DType>, dtype: DType): Values =>
  dtype === 'float16'
    ? fromFloat16(data as Uint16Array)
    : dtype === 'bfloat16'
      ? fromBfloat16(data as Uint16Array)
      : data;

/**
 * Returns whether both values are the same number, without rounding. Two NaNs count as the same.
 */
function same(one: number, other: number | bigint): boolean {
  if (typeof other === 'bigint') return Number.isInteger(one) && BigInt(one) === other;
  return one === other || (Number.isNaN(one) && Number.isNaN(other));
}

function rounded(values: Float64Array): Exact {
  const data = Float32Array.from(values);
  const lost = data.findIndex((value, i) => !Number.isFinite(value) && Number.isFinite(values[i]));
  return lost < 0 ? { data } : { lost };
}

function halved(values: Values, to: 'float16' | 'bfloat16'): Exact {
  const wide = Float32Array.from({ length: values.length }, (_, i) => Number(values[i]));
  const data = to === 'float16' ? toFloat16(wide) : toBfloat16(wide);
  const back = to === 'float16' ? fromFloat16(data) : fromBfloat16(data);
  const lost = back.findIndex((value, i) => !same(value, values[i] as number | bigint));
  return lost < 0 ? { data } : { lost };
}

function widened(values: Values, to: 'int64' | 'uint64'): Exact {
  const data = arrayOf(to, values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number | bigint;
    if (typeof value === 'number' && !Number.isInteger(value)) return { lost: i };
    data[i] = BigInt(value);
    if (data[i] !== BigInt(value)) return { lost: i };
  }
  return { data };
}

function narrowed(values: Values, to: DType): Exact {
  const data = arrayOf(to, values.length) as Float64Array;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number | bigint;
    data[i] = Number(value);
    if (!same(data[i] as number, value) || (to === 'bool' && (data[i] as number) > 1))
      return { lost: i };
  }
  return { data };
}
