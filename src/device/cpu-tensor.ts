/** An array in plain process memory with a shape: what tensors are made from and read into. `cpu` is no device. */

import { shown } from '../checks.ts';
import { checkShape, type DTypeOf, dtypes, type TypedArray } from '../dtype.ts';
import { rangeError, typeError } from '../errors.ts';

export class CpuTensor<A extends TypedArray = TypedArray> {
  readonly data: A;
  readonly shape: readonly number[];
  readonly dtype: DTypeOf<A>;

  /** Row-major; throws when the elements do not fill the shape, whose default is one dimension. */
  constructor(data: A, shape: readonly number[] = [data?.length]) {
    const dtype = (Object.keys(dtypes) as DTypeOf<A>[]).find((each) => data instanceof dtypes[each].array);
    if (!dtype) {
      const names = Object.values(dtypes).map(({ array }) => array.name);
      throw typeError(`a cpu tensor is made of one of ${names.join(', ')}; got ${shown(data)}`);
    }
    if (checkShape(shape) !== data.length)
      throw rangeError(`${data.length} elements do not fill a tensor of ${shape.join('×')}`);
    this.data = data;
    this.shape = [...shape];
    this.dtype = dtype;
  }

  get size(): number {
    return this.data.length;
  }
  /** A row-major copy, as every tensor gives it. */
  async toArray(): Promise<A> {
    return this.data.slice() as A;
  }
}
