/** Defines the inputs and outputs of operators, and checks them before any side effect. */

import { describeValue } from '../../base/checks.ts';
import type { TypedArray } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import { CpuTensor } from '../../device/cpu-tensor.ts';
import { Tensor } from '../../device/device.ts';

/** Names of dimensions, outermost first. */
export type NamedShape = readonly string[];
/**
 * An input or output of an operator. It is a Tensor on a device, or a CpuTensor or a typed array in
 * process memory. A typed array has one dimension.
 */
export type Operand = Tensor | CpuTensor | TypedArray;
export type Answer = Operand | Promise<Operand>;

/** The properties of an operator that describe its input. Null means unknown. */
interface Taker {
  readonly ishape: NamedShape | null;
  readonly idevice: string | null;
}

/**
 * Returns the input as a tensor. Throws TypeError if its device or number of dimensions is not the
 * operator's. Throws ERR_HOTSLOT_STATE_CLOSED if it is closed.
 */
export function checkOperand(linop: Taker, x: Operand): Tensor | CpuTensor {
  if (!(x instanceof Tensor || x instanceof CpuTensor || ArrayBuffer.isView(x)))
    throw typeError(
      `${linop} takes a Tensor, a CpuTensor or a typed array, got ${describeValue(x)}`,
    );
  const tensor = ArrayBuffer.isView(x) ? new CpuTensor(x) : x;
  const on = tensor instanceof Tensor ? tensor.device.name : 'cpu';
  if (linop.idevice !== null && on !== linop.idevice)
    throw typeError(
      `${linop} takes its input on ${linop.idevice}, got one on ${on}: move it there first`,
    );
  if (tensor instanceof Tensor) tensor.checkOpen();
  if (linop.ishape && tensor.shape.length !== linop.ishape.length) {
    const names = `${linop.ishape.length} dimensions ${named(linop.ishape)}`;
    throw typeError(`${linop} takes ${names}, got ${tensor.shape.length} of [${tensor.shape}]`);
  }
  return tensor;
}

export function checkNames(what: string, shape: NamedShape | null): NamedShape | null {
  if (shape === null) return null;
  if (!Array.isArray(shape) || shape.some((name) => typeof name !== 'string'))
    throw typeError(
      `${what} is an array of dimension names, or null for any; got ${describeValue(shape)}`,
    );
  return [...shape];
}

export function named(shape: NamedShape | null): string {
  return shape ? JSON.stringify(shape) : 'any';
}
