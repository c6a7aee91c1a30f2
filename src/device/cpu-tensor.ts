/** An array in plain process memory with a shape: what tensors are made from and read into. `cpu` is no device. */

import { shown } from '../checks.ts';
import { checkDType, checkShape, type DType, dtypes, type TypedArray } from '../dtype.ts';
import { rangeError, typeError } from '../errors.ts';

export class CpuTensor {
  readonly data: TypedArray;
  readonly shape: readonly number[];
  readonly dtype: DType;

  /** Row-major; throws when the elements do not fill the shape, whose default is one dimension. */
  constructor(data: TypedArray, shape: readonly number[] = [data?.length]) {
    const dtype = (Object.keys(dtypes) as DType[]).find((each) => data instanceof dtypes[each].array);
    if (!dtype) {
      const names = Object.values(dtypes).map(({ array }) => array.name);
      throw typeError(`a cpu tensor is made of one of ${names.join(', ')}; got ${shown(data)}`);
    }
    if (checkShape(shape) !== data.length)
      throw rangeError(`${data.length} elements do not fill a tensor of ${shape.join('×')}`);
    this.data = data;
    this.shape = [...shape];
    this.dtype = checkDType('cpu tensor', dtype);
  }

  get size(): number {
    return this.data.length;
  }
  /** A row-major copy, as every tensor gives it. */
  async toArray(): Promise<TypedArray> {
    return this.data.slice();
  }
}
