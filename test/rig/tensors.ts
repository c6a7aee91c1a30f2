/** Small tensors of a test: creates them from numbers and adds them. */
import type { Device, Stream, Tensor } from '../../src/index.ts';

/**
 * Returns an int32 or float32 tensor with these values, which are written: any stream may use it.
 */
export async function tensorOf(
  device: Device,
  values: readonly number[],
  dtype: 'int32' | 'float32' = 'float32',
): Promise<Tensor> {
  const array = dtype === 'int32' ? Int32Array : Float32Array;
  const tensor = device.allocate({ shape: [values.length], dtype }).write(new array(values));
  await device.currentStream.synchronize();
  return tensor;
}

export const valuesOf = async (tensor: Tensor, stream?: Stream) =>
  Array.from(await tensor.toArray(stream), Number);

/** y = y + x, elementwise. */
export function add(stream: Stream, y: Tensor, x: Tensor): void {
  stream.launch('axpby', { tensors: [y, x], wholes: [y.size], reals: [1, 1] });
}
