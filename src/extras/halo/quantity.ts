/** Checks the arrays that a transformer gets against its specifications. */

import { describeValue } from '../../base/checks.ts';
import { dtypes, type TypedArray } from '../../base/dtype.ts';
import { closedError, rangeError, typeError } from '../../base/errors.ts';
import { Tensor } from '../../device/device.ts';
import type { Components } from './descriptors.ts';
import type { QuantityHaloSpec } from './spec.ts';

/**
 * An array with a specification's shape, strides and dtype. `data` is memory that starts with the
 * array's first element. The other fields are optional, and must equal those of the specification.
 */
export interface HaloQuantity {
  data: TypedArray | Tensor;
  shape?: readonly number[];
  /** distances in elements */
  strides?: readonly number[];
  dims?: readonly string[];
}

/** One quantity per descriptor, in the same order. */
export type HaloQuantities = readonly HaloQuantity[];

/**
 * Returns the data of all quantities in descriptor order: one array per scalar, or two arrays for
 * the components of a vector. Throws like checkQuantity(). Also throws if a list is missing or has
 * another length.
 */
export function checkQuantities(
  what: string,
  descriptors: readonly Components[],
  deviceName: string,
  x: HaloQuantities,
  y: HaloQuantities | null | undefined,
): (TypedArray | Tensor)[] {
  const vector = descriptors[0]?.length === 2;
  if (vector !== (y !== undefined && y !== null))
    throw typeError(
      `${what}: ${vector ? 'a vector transformer needs y too' : 'a scalar transformer takes no y'}`,
    );
  checkList(what, 'x', x, descriptors.length);
  if (vector) checkList(what, 'y', y, descriptors.length);
  const out: (TypedArray | Tensor)[] = [];
  for (let i = 0; i < descriptors.length; i++) {
    const [xSpec, ySpec] = descriptors[i] as Components;
    const of = x[i] as HaloQuantity;
    out.push(checkQuantity('x', i, of, xSpec.specification, deviceName));
    if (!ySpec) continue;
    const other = (y as HaloQuantities)[i] as HaloQuantity;
    out.push(checkQuantity('y', i, other, ySpec.specification, deviceName));
  }
  return out;
}

function checkList(what: string, name: string, given: unknown, length: number): void {
  if (!Array.isArray(given))
    throw typeError(`${what} takes an array of quantities as ${name}, got ${describeValue(given)}`);
  if (given.length !== length)
    throw rangeError(
      `${what}: ${name} has ${given.length} quantities, the transformer ${length} descriptors`,
    );
}

/**
 * Returns the quantity's data. Throws TypeError if its type, dtype or device is wrong. Throws
 * RangeError if its shape, strides or dims differ from the specification, or if it has too few
 * elements. The text names the quantity.
 */
function checkQuantity(
  list: 'x' | 'y',
  index: number,
  quantity: HaloQuantity,
  spec: QuantityHaloSpec,
  device: string,
): TypedArray | Tensor {
  if (typeof quantity !== 'object' || quantity === null || !('data' in quantity))
    throw typeError(
      `${list}[${index}] is { data, shape?, strides?, dims? }, got ${describeValue(quantity)}`,
    );
  const { data, shape, strides, dims } = quantity;
  let elements: number;
  if (device === 'cpu') {
    if (!(data instanceof dtypes[spec.dtype].array))
      throw wrongData(list, index, data, spec, device);
    elements = data.length;
  } else {
    if (!(data instanceof Tensor) || data.dtype !== spec.dtype || data.device.name !== device)
      throw wrongData(list, index, data, spec, device);
    if (data.closed) throw closedError(`${list}[${index}]: its data`);
    elements = data.spanBytes / spec.itemsize;
    // A contiguous tensor counts as plain memory if it has one dimension, or if `shape` and
    // `strides` are given. Every other tensor must have the shape and strides of the specification.
    const memory =
      data.contiguous && (data.shape.length <= 1 || (shape !== undefined && strides !== undefined));
    if (!memory && !same(data.shape, spec.shape))
      throw unlike(list, index, "data's shape", data.shape, spec.shape);
    if (!memory && !same(data.strides, spec.strides, spec.shape))
      throw unlike(list, index, "data's strides", data.strides, spec.strides);
  }
  if (shape !== undefined && !same(shape, spec.shape))
    throw unlike(list, index, 'shape', shape, spec.shape);
  if (strides !== undefined && !same(strides, spec.strides, spec.shape))
    throw unlike(list, index, 'strides', strides, spec.strides);
  if (dims !== undefined && !same(dims, spec.dims))
    throw unlike(list, index, 'dims', dims, spec.dims);
  if (elements < spec.span) {
    const needed = `a [${spec.shape}] with strides [${spec.strides}] needs ${spec.span}`;
    throw rangeError(`${list}[${index}]: its data has ${elements} elements, ${needed}`);
  }
  return data;
}

/**
 * Returns whether two lists are equal. If `shape` is given, ignores the entries of dimensions that
 * have size 1 in `shape`.
 */
function same<T>(got: readonly T[], wanted: readonly T[], shape?: readonly number[]): boolean {
  if (got?.length !== wanted.length) return false;
  for (let d = 0; d < wanted.length; d++)
    if (got[d] !== wanted[d] && shape?.[d] !== 1) return false;
  return true;
}

function unlike(
  list: string,
  index: number,
  what: string,
  got: unknown,
  wanted: readonly unknown[],
): Error {
  const text = Array.isArray(got) ? `[${got}]` : describeValue(got);
  return rangeError(`${list}[${index}]: its ${what} is ${text}, its specification's [${wanted}]`);
}

function wrongData(
  list: string,
  index: number,
  data: unknown,
  { dtype }: QuantityHaloSpec,
  device: string,
): Error {
  const which = `${list}[${index}]: data`;
  if (device === 'cpu')
    return typeError(
      `${which} of a ${dtype} quantity on cpu is a ${dtypes[dtype].array.name}, got ${describeValue(data)}`,
    );
  if (!(data instanceof Tensor))
    return typeError(`${which} on ${device} is a Tensor, got ${describeValue(data)}`);
  if (data.dtype !== dtype)
    return typeError(`${which} is ${data.dtype}, its specification ${dtype}`);
  return typeError(`${which} is on ${data.device.name}, this transformer is for ${device}`);
}
