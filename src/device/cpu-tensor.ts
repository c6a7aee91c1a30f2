/**
 * An array with a shape in plain process memory. It has no device. Device tensors are created from
 * it and read into it.
 */

import { describeValue } from '../base/checks.ts';
import {
  checkDType,
  checkShape,
  type DType,
  type DTypeOf,
  dtypeOf,
  dtypes,
  type TypedArray,
} from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';

/**
 * A tensor in plain process memory: a typed array with a shape. Operators of `hotslot/linop` take
 * and return it for 'cpu'.
 * @example
 * const x = new CpuTensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
 */
export class CpuTensor<
  A extends TypedArray = TypedArray,
  D extends DType = TypedArray extends A ? DType : DTypeOf<A>,
> {
  readonly data: A;
  readonly shape: readonly number[];
  readonly dtype: D;

  /**
   * Uses `data` as row-major elements, without a copy. `shape` defaults to one dimension. Throws if
   * `data` has another number of elements than `shape`. `dtype` defaults to the dtype of the array.
   * A Uint8Array can also be 'bool', and a Uint16Array can also be 'float16' or 'bfloat16'.
   */
  constructor(data: A, shape: readonly number[] = [data?.length], dtype?: D) {
    const own = dtypeOf(data);
    if (!own) {
      const names = new Set(Object.values(dtypes).map(({ array }) => array.name));
      throw typeError(
        `a cpu tensor must be made from one of ${[...names].join(', ')}; got ${describeValue(data)}`,
      );
    }
    if (dtype !== undefined && !(data instanceof dtypes[checkDType('a cpu tensor', dtype)].array))
      throw typeError(
        `a cpu tensor of ${dtype} must be made from a ${dtypes[dtype].array.name}, got ${describeValue(data)}`,
      );
    if (checkShape(shape) !== data.length)
      throw rangeError(`${data.length} elements do not fill a tensor of ${shape.join('×')}`);
    this.data = data;
    this.shape = [...shape];
    this.dtype = dtype ?? (own as DType as D);
  }

  get size(): number {
    return this.data.length;
  }
  /** Returns a row-major copy of the elements, as every tensor's toArray() does. */
  async toArray(): Promise<A> {
    return this.data.slice() as A;
  }
}
