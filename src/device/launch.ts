/** Turns the arguments of a launch into plain numbers, which one native call reads at once. */
import { describeValue } from '../base/checks.ts';
import { dtypes } from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkTensor } from './checks.ts';
import type { Tensor } from './device.ts';
import { kernels, omittedReals, presentKernelName } from './kernels.ts';
import { nativeKernels } from './native.ts';
import type { LoadedKernel } from './own-kernels/declarations.ts';
import { layOut } from './strides.ts';

/**
 * Count of numbers per tensor in the native call: handle, offset, bytes, dtype code, and the two
 * numbers of layOut().
 */
const TENSOR_FIELDS = 6;
/**
 * Length of `numbers`: max_pointers tensors, max_wholes whole numbers and max_floats reals. The
 * native call rejects a launch with more arguments than fit.
 */
const ROOM = 12 * TENSOR_FIELDS + 12 + 8;

/**
 * The arguments of one launch: the tensors' fields, then the whole numbers, then the reals. Each
 * thread has one such array. The next lineUp() overwrites it, because the native call has copied it
 * by then.
 */
export const numbers = new Float64Array(ROOM);

/** Arguments of a launch, before they are checked. */
export interface LooseArguments {
  tensors?: readonly Tensor[];
  wholes?: readonly number[];
  reals?: readonly number[];
}

/**
 * Writes the arguments of a launch into `numbers`. Throws TypeError or RangeError, with the
 * argument's index, unless each tensor is a Tensor and each other argument is a number.
 */
export function lineUp(kernel: string, tensors: unknown, wholes: unknown, reals: unknown): void {
  checkList('tensors', tensors);
  checkList('wholes', wholes);
  checkList('reals', reals);
  let at = 0;
  for (let i = 0; i < tensors.length; i++) {
    const tensor = checkTensor(`launch of '${kernel}'`, tensors[i] as Tensor);
    const { bytes, code } = dtypes[tensor.dtype];
    numbers[at++] = tensor.handle;
    numbers[at++] = tensor.byteOffset;
    numbers[at++] = tensor.spanBytes;
    numbers[at++] = code;
    at = layOut(tensor.shape, tensor.strides, bytes, numbers, at);
  }
  for (let i = 0; i < wholes.length; i++) {
    const whole = wholes[i];
    if (typeof whole !== 'number')
      throw typeError(
        `launch of '${kernel}': wholes[${i}] must be a number, got ${describeValue(whole)}`,
      );
    if (!Number.isSafeInteger(whole))
      throw rangeError(`launch of '${kernel}': wholes[${i}] must be a whole number, got ${whole}`);
    numbers[at++] = whole;
  }
  for (let i = 0; i < reals.length; i++) {
    const real = reals[i];
    if (typeof real !== 'number')
      throw typeError(
        `launch of '${kernel}': reals[${i}] must be a number, got ${describeValue(real)}`,
      );
    numbers[at++] = real;
  }
}

function checkList(name: string, list: unknown): asserts list is readonly unknown[] {
  if (!Array.isArray(list))
    throw typeError(`launch: ${name} must be an array, got ${describeValue(list)}`);
}

/** A tensor, or the part of it that an operation touches, with its name in that operation. */
export type Named = readonly [name: string, tensor: Tensor];

/**
 * Returns the tensors that a launch reads and writes. Each tensor is reduced to the elements that
 * the launch touches, such as the rows of a table without the columns next to them. Returns empty
 * lists if the arguments do not match the kernel, because the launch itself then throws.
 */
export function touched(
  kernel: string | LoadedKernel,
  {
    tensors = [],
    wholes = [],
    reals = typeof kernel === 'string' ? omittedReals(kernel) : [],
  }: LooseArguments,
): { reads: Named[]; writes: Named[] } {
  if (typeof kernel !== 'string') {
    const all = tensors.map((tensor, i): Named => [`tensor ${i}`, tensor]);
    return { reads: all, writes: all.slice(0, kernel.writes) };
  }
  const name = presentKernelName(kernel);
  const shape = Object.hasOwn(kernels, name) ? kernels[name as keyof typeof kernels] : null;
  if (shape === null || tensors.length !== shape.tensors.length) return { reads: [], writes: [] };
  const reach = nativeKernels().kernelReach(
    name,
    Float64Array.of(...wholes, ...reals),
    wholes.length,
    reals.length,
  );
  const parts = tensors.map((tensor, i): Named => {
    const argument = shape.tensors[i] as string;
    const [bytes, step] = [reach[2 * i] as number, reach[2 * i + 1] as number];
    if (tensor?.dtype !== 'float32') return [argument, tensor];
    if (step === 0) return [argument, tensor.view({ shape: [bytes / 4] })];
    const rows = Math.floor((bytes - 1) / step) + 1;
    const columns = (((bytes - 1) % step) + 1) / 4;
    return [argument, tensor.view({ shape: [rows, columns], strides: [step / 4, 1] })];
  });
  const names: readonly string[] = shape.reals;
  const keeps = 'keeps' in shape || (reals[names.indexOf('beta')] ?? 0) !== 0;
  return { reads: parts.slice(keeps ? 0 : shape.writes), writes: parts.slice(0, shape.writes) };
}
