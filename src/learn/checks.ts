/**
 * Checks of a learner's arguments: numbers, and float32 tensors whose rows may have a stride, as
 * kernels take them.
 */

import { checkCount, describeValue } from '../base/checks.ts';
import type { DType } from '../base/dtype.ts';
import { type CodedError, rangeError, stateError, typeError } from '../base/errors.ts';
import { Tensor } from '../device/device.ts';

/**
 * Returns the number of elements from one row to the next, for a [rows, columns] tensor with
 * adjacent columns.
 */
export function rowStride(tensor: Tensor<'float32'>): number {
  const columns = tensor.shape[1] ?? 1;
  return (tensor.shape[0] as number) > 1 ? (tensor.strides[0] as number) : columns;
}

/**
 * Throws unless `tensor` is float32 [rows, columns] with adjacent columns. Any number of rows is
 * valid if `rows` is undefined.
 */
export function checkMatrix(
  name: string,
  tensor: Tensor<'float32'>,
  rows: number | undefined,
  columns: number,
): Tensor<'float32'> {
  checkFloats(name, tensor);
  const [r, c] = tensor.shape;
  if (tensor.shape.length !== 2 || c !== columns || (rows !== undefined && r !== rows)) {
    throw rangeError(
      `${name} must be ${rows ?? 'rows'}×${columns}, got ${tensor.shape.join('×') || 'a scalar'}`,
    );
  }
  if (columns > 1 && tensor.strides[1] !== 1) {
    throw typeError(`${name} needs neighboring columns, got strides [${tensor.strides}]`);
  }
  if ((r as number) > 1 && (tensor.strides[0] as number) < columns) {
    throw rangeError(
      `${name} needs rows at least ${columns} elements apart, got strides [${tensor.strides}]`,
    );
  }
  return tensor;
}

/** Throws unless `tensor` is float32 [rows] or [rows, 1]. Returns a view of shape [rows, 1]. */
export function checkColumn(
  name: string,
  tensor: Tensor<'float32'>,
  rows: number,
): Tensor<'float32'> {
  checkFloats(name, tensor);
  return checkRows(name, tensor, rows);
}

/**
 * Throws unless `tensor` is [rows] or [rows, 1], of any dtype. Returns a view of shape [rows, 1].
 */
export function checkRows<D extends DType>(
  name: string,
  tensor: Tensor<D>,
  rows: number,
): Tensor<D> {
  tensor.checkOpen();
  const [r, c = 1] = tensor.shape;
  if (tensor.shape.length < 1 || tensor.shape.length > 2 || r !== rows || c !== 1) {
    throw rangeError(
      `${name} must be ${rows} or ${rows}×1, got ${tensor.shape.join('×') || 'a scalar'}`,
    );
  }
  const stride = tensor.strides[0] as number;
  if (rows > 1 && stride < 1)
    throw rangeError(
      `${name} needs rows at least 1 element apart, got strides [${tensor.strides}]`,
    );
  return tensor.view({ shape: [rows, 1], strides: [Math.max(stride, 1), 1] });
}

/** Returns a view of the rows [start, start + rows) of a tensor. */
export function rowsOf<D extends DType>(tensor: Tensor<D>, start: number, rows: number): Tensor<D> {
  const stride = tensor.strides[0] as number;
  return tensor.view({
    shape: [rows, ...tensor.shape.slice(1)],
    offset: start * stride,
    strides: tensor.strides,
  });
}

/** Throws unless `tensor` is float32, contiguous and has `length` elements. */
export function checkVector(
  name: string,
  tensor: Tensor<'float32'>,
  length: number,
): Tensor<'float32'> {
  checkFloats(name, tensor);
  if (tensor.size !== length || !tensor.contiguous) {
    throw rangeError(
      `${name} must be ${length} contiguous floats, got ${tensor.shape.join('×')} with strides [${tensor.strides}]`,
    );
  }
  return tensor;
}

/** Throws a TypeError unless `tensor` is an open float32 tensor. */
export function checkFloats(name: string, tensor: Tensor<'float32'>): void {
  if (!(tensor instanceof Tensor && tensor.dtype === 'float32')) {
    const instead =
      tensor instanceof Tensor ? '; convert() of hotslot/learner makes one from it' : '';
    throw typeError(
      `${name} must be a float32 tensor, got ${instead ? tensor.dtype : describeValue(tensor)}${instead}`,
    );
  }
  if (tensor.byteOffset % 4 !== 0)
    throw rangeError(`${name} starts at byte ${tensor.byteOffset}, which is not a multiple of 4`);
  tensor.checkOpen();
}

/** Throws unless `value` is a number from `low` to `high`, both included. */
export function checkWithin(name: string, value: number, low: number, high: number): number {
  if (typeof value !== 'number')
    throw typeError(`${name} must be a number, got ${typeof value} (${describeValue(value)})`);
  if (!(value >= low && value <= high))
    throw rangeError(`${name} must be within [${low}, ${high}], got ${value}`);
  return value;
}

/**
 * Throws unless `obs` contains n or more whole rows of `inputs` floats, and no NaN in the first n
 * rows. Without this check, a policy would choose an action for NaN.
 */
export function checkObservations(obs: Float32Array, n: number, inputs: number): void {
  checkCount('n', n, 0);
  if (!(obs instanceof Float32Array))
    throw typeError(`obs must be a Float32Array, got ${describeValue(obs)}`);
  if (obs.length < n * inputs || obs.length % inputs !== 0)
    throw rangeError(
      `${n} rows of ${inputs} need ${n * inputs} floats, or those of more rows, got ${obs.length}`,
    );
  for (let at = 0; at < n * inputs; at++)
    if (Number.isNaN(obs[at]))
      throw rangeError(
        `obs has NaN in row ${Math.floor(at / inputs)}, number ${at % inputs}; the policy cannot choose an action`,
      );
}

/** Returns the error of a call that needs weights, for a policy that has none. */
export const unloaded = (call: string): CodedError =>
  stateError(
    'EMPTY',
    `${call}: this policy has no weights yet; load() a published version, or await learner.parameters.toArray()`,
  );
