/**
 * Defines the element types of packed rows, tensors and kernels, with their typed arrays.
 * JavaScript has no typed array for `bool`, `float16` and `bfloat16`, so they use the array of
 * another dtype. dtypeOf() never returns one of these three.
 */
import { checkCount, describeValue } from './checks.ts';
import { rangeError, typeError } from './errors.ts';

/** All dtypes. `code` identifies a dtype in kernels, and must match native/kernels/gk.hpp. */
export const dtypes = {
  float32: { bytes: 4, array: Float32Array, code: 0 },
  float64: { bytes: 8, array: Float64Array, code: 1 },
  int8: { bytes: 1, array: Int8Array, code: 2 },
  uint8: { bytes: 1, array: Uint8Array, code: 3 },
  int16: { bytes: 2, array: Int16Array, code: 4 },
  uint16: { bytes: 2, array: Uint16Array, code: 5 },
  int32: { bytes: 4, array: Int32Array, code: 6 },
  uint32: { bytes: 4, array: Uint32Array, code: 7 },
  int64: { bytes: 8, array: BigInt64Array, code: 8 },
  uint64: { bytes: 8, array: BigUint64Array, code: 9 },
  bool: { bytes: 1, array: Uint8Array, code: 10 },
  float16: { bytes: 2, array: Uint16Array, code: 11 },
  bfloat16: { bytes: 2, array: Uint16Array, code: 12 },
} as const;

/**
 * The name of a dtype. `bool` is a byte of 0 or 1. `float16` and `bfloat16` elements are the bits
 * of the floats. See toFloat16() and toBfloat16().
 */
export type DType = keyof typeof dtypes;

/** The typed array for the elements of each dtype. */
interface TypedArrays {
  float32: Float32Array;
  float64: Float64Array;
  int8: Int8Array;
  uint8: Uint8Array;
  int16: Int16Array;
  uint16: Uint16Array;
  int32: Int32Array;
  uint32: Uint32Array;
  int64: BigInt64Array;
  uint64: BigUint64Array;
  bool: Uint8Array;
  float16: Uint16Array;
  bfloat16: Uint16Array;
}

/** Dtypes whose elements are stored in the typed array of another dtype. */
type Borrowing = 'bool' | 'float16' | 'bfloat16';

/** The typed array of a dtype: Float32Array for 'float32'. */
export type ArrayOf<D extends DType> = TypedArrays[D];
/** The dtype of a typed array: 'float32' for Float32Array, 'uint16' for Uint16Array. */
export type DTypeOf<A extends TypedArray> = {
  [D in Exclude<DType, Borrowing>]: A extends ArrayOf<D> ? D : never;
}[Exclude<DType, Borrowing>];
export type TypedArray = ArrayOf<DType>;

/** Returns the dtype of a typed array, or undefined for any other value. */
export function dtypeOf<A extends TypedArray>(values: A): DTypeOf<A> | undefined {
  // `bool`, `float16` and `bfloat16` are last in `dtypes`, so the first match is never one of them.
  return (Object.keys(dtypes) as DTypeOf<A>[]).find((each) => values instanceof dtypes[each].array);
}

/** Returns `value`. Throws a TypeError with the value in the text unless it is a known dtype. */
export function checkDType<D extends DType>(name: string, value: D | undefined): D {
  if (typeof value !== 'string' || !Object.hasOwn(dtypes, value)) {
    throw typeError(
      `${name}: unknown dtype ${describeValue(value)}; known: ${Object.keys(dtypes).join(', ')}`,
    );
  }
  return value;
}

/**
 * Returns a new zeroed typed array of `length` elements. Throws ERR_HOTSLOT_MEMORY if the engine
 * cannot allocate it.
 */
export function arrayOf<D extends DType>(dtype: D, length: number): ArrayOf<D> {
  try {
    return new dtypes[dtype].array(length) as ArrayOf<D>;
  } catch (error) {
    const need = `${length} elements of ${dtype} need ${length * dtypes[dtype].bytes} bytes`;
    throw rangeError(
      `${need}, which the engine could not allocate: ${(error as Error).message}`,
      'ERR_HOTSLOT_MEMORY',
    );
  }
}

/** Returns the product of a shape's dimensions (1 for a scalar's empty shape). */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((n, d) => n * d, 1);
}

/**
 * Returns the number of elements of a shape. Throws unless `shape` is an array of whole numbers of
 * at least 0.
 */
export function checkShape(shape: readonly number[]): number {
  if (!Array.isArray(shape))
    throw typeError(`a shape is an array of whole numbers, got ${describeValue(shape)}`);
  // Builds the error's text only for a wrong dimension.
  for (const d of shape)
    if (!Number.isSafeInteger(d) || d < 0)
      checkCount(`shape [${shape.map(describeValue).join()}]: every dimension`, d, 0);
  // Strides are computed with 1 in place of empty dimensions, and must be safe integers.
  const most = shape.reduce((n, d) => n * Math.max(d, 1), 1);
  if (!Number.isSafeInteger(most))
    throw rangeError(`a shape of [${shape}] has strides beyond 2^53`);
  return elementCount(shape);
}
