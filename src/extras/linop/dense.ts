/** Makes strided rows dense, for copies that need one contiguous range of bytes. */

import { dtypes, elementCount } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import { type Device, type Stream, Tensor } from '../../device/device.ts';
import { rowMajor } from '../../device/strides.ts';

/**
 * Returns a dense copy of a strided tensor, made by one kernel on `stream`. The caller closes the
 * copy. Each row must be dense, and the rows must be evenly spaced, as those of a field in packed
 * rows are. Row size, distance and offset must be multiples of four bytes. Throws TypeError
 * otherwise.
 */
export function denseCopy(x: Tensor, device: Device, stream: Stream): Tensor {
  const { bytes } = dtypes[x.dtype];
  const wide = x.shape.map((_, i) => i).filter((i) => x.shape[i] !== 1);
  const [[rows, ...rest], [step, ...steps]] = [
    wide.map((i) => x.shape[i]),
    wide.map((i) => x.strides[i]),
  ] as [[number, ...number[]], [number, ...number[]]];
  const row = elementCount(rest);
  const rowsDense = rowMajor(rest).every((dense, i) => dense === steps[i]) && step >= row;
  if (!rowsDense || [row * bytes, step * bytes, x.byteOffset].some((n) => n % 4 !== 0)) {
    const got = `${x.dtype} [${x.shape}] with strides [${x.strides}] at byte ${x.byteOffset}`;
    throw typeError(
      `dense rows at one distance, in whole words of 4 bytes, can be moved; got ${got}; make it dense first`,
    );
  }
  const out = device.allocate({ shape: x.shape, dtype: x.dtype, zeroed: false });
  // Treats the bytes as float32 elements, because the kernel only moves them.
  const [columns, stride] = [(row * bytes) / 4, (step * bytes) / 4];
  const words = (of: Tensor, distance: number) =>
    new Tensor(of.storage, [rows, columns], 'float32', of.byteOffset, [distance, 1]);
  stream.launch('copy2d', {
    tensors: [words(out, columns), words(x, stride)],
    wholes: [rows, columns, columns, stride],
  });
  return out;
}
