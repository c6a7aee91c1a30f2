/**
 * The places where halo tests keep their arrays: the CPU's memory, and the tested device, which is
 * opened once.
 */
import { type DType, dtypes, type TypedArray } from '../../src/base/dtype.ts';
import { type Device, openDevice, Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

let opened: Device | undefined;
export function tested(): Device {
  opened ??= openDevice(TESTED);
  return opened;
}
export function closeTested(): void {
  opened?.close();
  opened = undefined;
}

export const places = ['cpu', TESTED] as const;
export const deviceAt = (place: string): Device | 'cpu' => (place === 'cpu' ? 'cpu' : tested());

/** Returns memory of a place with these values. Release it with close(). */
export function memoryAt(
  place: string,
  values: TypedArray,
  dtype = dtypeOf(values) as DType,
): TypedArray | Tensor {
  if (place === 'cpu') return values.slice();
  const tensor = tested().allocate({ shape: [values.length], dtype, zeroed: false });
  return tensor.write(values);
}
export async function valuesAt(memory: TypedArray | Tensor): Promise<TypedArray> {
  return memory instanceof Tensor ? memory.toArray() : memory;
}
export function close(...memories: (TypedArray | Tensor)[]): void {
  for (const each of memories) if (each instanceof Tensor) each.close();
}
/** Writes values into a buffer. On a device the write is enqueued on the current stream. */
export function fill(buffer: TypedArray | Tensor, values: TypedArray): void {
  if (buffer instanceof Tensor) buffer.write(values);
  else (buffer as Float32Array).set(values as Float32Array);
}

export function dtypeOf(values: TypedArray): DType {
  return (Object.keys(dtypes) as DType[]).find(
    (each) => values instanceof dtypes[each].array,
  ) as DType;
}
