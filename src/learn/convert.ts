/**
 * Converts elements of any dtype to float32 on the device, by the kernel `convert` on strided
 * tensors.
 */
import { checkKeys, describeValue } from '../base/checks.ts';
import { dtypes, elementCount } from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkStream, checkTensor } from '../device/checks.ts';
import type { Stream, Tensor } from '../device/device.ts';
import { rowMajor } from '../device/strides.ts';

export interface ConvertOptions {
  /** factor, finite in float32, default 1 */
  scale?: number;
  /** summand, added after the multiplication by `scale`, finite in float32, default 0 */
  shift?: number;
}

/**
 * Enqueues to = scale · from + shift, element by element in float32, without fused multiply-add. It
 * only launches a kernel, so a graph can capture it. With scale 1 and shift 0 it only converts, so
 * every element that float32 can represent stays unchanged.
 *
 * Both tensors have the same number of elements. Either both are contiguous, of any shapes, or both
 * have the same first dimension and contiguous rows, as the fields of a batch have.
 *
 * @param to float32
 * @param from any dtype. Integers and float64 are first rounded to the nearest float, and a bool is
 *   0 or 1
 * @param options `scale` (default 1) and `shift` (default 0)
 * @throws {TypeError} if `to` is not float32, or for other strides
 * @throws {RangeError} for shapes that do not fit, a `scale` or `shift` that is not finite, and
 *   tensors that share elements at different indices
 * @example
 * convert(stream, pixels, batch.obs, { scale: 1 / 255 });
 */
export function convert(
  stream: Stream,
  to: Tensor<'float32'>,
  from: Tensor,
  options: ConvertOptions = {},
): void {
  checkStream('convert', stream);
  checkKeys('convert', options, ['scale', 'shift']);
  const { scale = 1, shift = 0 } = options;
  checkTensor('convert', to).checkOpen();
  checkTensor('convert', from).checkOpen();
  if (to.dtype !== 'float32')
    throw typeError(`convert writes float32, got a tensor of ${to.dtype}`);
  for (const [name, value] of Object.entries({ scale, shift }))
    if (typeof value !== 'number')
      throw typeError(`convert: ${name} must be a number, got ${describeValue(value)}`);
  const flat = to.contiguous && from.contiguous;
  if (to.size !== from.size || (!flat && to.shape[0] !== from.shape[0])) {
    throw rangeError(
      `convert from ${sizes(from)} to ${sizes(to)}: they must have as many rows, and elements in each`,
    );
  }
  if (to.size === 0) return;
  const rows = flat ? 1 : (to.shape[0] as number);
  const columns = to.size / rows;
  const strides = [to, from].map((tensor) => (rows > 1 ? distance(tensor, columns) : columns)) as [
    number,
    number,
  ];
  stream.launch('convert', {
    tensors: [to, from],
    wholes: [rows, columns, ...strides, dtypes[from.dtype].code],
    reals: [scale, shift],
  });
}

const sizes = (tensor: Tensor): string => tensor.shape.join('×') || 'a scalar';

/**
 * Returns the number of elements from one row to the next. Throws unless the elements of each row
 * are contiguous.
 */
function distance({ dtype, shape, strides }: Tensor, columns: number): number {
  const inner = shape.slice(1);
  const dense = rowMajor(inner);
  const [step = 0, ...steps] = strides;
  if (step < columns || inner.some((length, i) => length > 1 && steps[i] !== dense[i])) {
    throw typeError(
      `convert takes rows whose ${elementCount(inner)} elements are contiguous, got ${dtype} [${shape}] with strides [${strides}]`,
    );
  }
  return step;
}
