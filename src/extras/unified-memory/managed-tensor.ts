/**
 * Moves one tensor in managed memory, and gives the driver advice about its pages. The functions
 * for whole modules share the checks and errors of this file.
 */

import { checkKeys, describeValue } from '../../base/checks.ts';
import type { TypedArray } from '../../base/dtype.ts';
import { DeviceError, typeError, UnifiedMemoryUnsupportedError } from '../../base/errors.ts';
import { CpuTensor } from '../../device/cpu-tensor.ts';
import { type Device, type Stream, Tensor } from '../../device/device.ts';
import type { DeviceFamily } from '../../device/facts.ts';
import { nativeManaged, nativeMemory } from '../../device/native.ts';

/** A tensor, null or undefined. The functions skip null, undefined and tensors without elements. */
export type MaybeTensor = Tensor | CpuTensor | TypedArray | null | undefined;

/** The device that a tensor's pages move to, and the stream that orders the move. */
export interface PrefetchOptions {
  /** index of the device in the tensor's family, or −1 for the CPU */
  device: number;
  /** stream that orders the move (default and null: the current stream of the tensor's device) */
  stream?: Stream | null | undefined;
}

/**
 * Enqueues the move of a tensor's pages to a device of its family, or to the CPU (−1). Does nothing
 * for null and empty tensors, and does not check the options then.
 *
 * Throws TypeError for a tensor that is not in managed memory, an unknown option or a stream of
 * another device. Throws RangeError for a device that does not exist, and ERR_HOTSLOT_STATE_CLOSED
 * for a closed tensor. After a driver error, throws a DeviceError that names shape, dtype, address
 * and bytes. If the family cannot prefetch, throws UnifiedMemoryUnsupportedError.
 *
 * This function and the next two are Megatron's, from core.inference.unified_memory.
 */
export function prefetchManagedTensor(t: MaybeTensor, options: PrefetchOptions): void {
  if (isEmpty(t)) return;
  const tensor = checkManaged('prefetchManagedTensor', t);
  checkKeys('prefetchManagedTensor', options, ['device', 'stream']);
  const { device, stream } = options;
  checkLocation(tensor.device.family, device, -1);
  prefetch(tensor, device, streamFor(tensor.device, stream), () => asText(tensor));
}

/**
 * Sets the preferred location of a tensor's pages. `device` is an index in the tensor's family, or
 * −1 for the CPU. Throws like prefetchManagedTensor().
 */
export function adviseManagedTensorPreferredLocation(
  t: MaybeTensor,
  options: { device: number },
): void {
  if (isEmpty(t)) return;
  const tensor = checkManaged('adviseManagedTensorPreferredLocation', t);
  checkKeys('adviseManagedTensorPreferredLocation', options, ['device']);
  checkLocation(tensor.device.family, options.device, -1);
  prefer(tensor, options.device, () => asText(tensor));
}

/**
 * Lets a device access the tensor's pages without moving them. `device` is an index in the tensor's
 * family. Throws like prefetchManagedTensor().
 */
export function adviseManagedTensorAccessedBy(t: MaybeTensor, options: { device: number }): void {
  if (isEmpty(t)) return;
  const tensor = checkManaged('adviseManagedTensorAccessedBy', t);
  checkKeys('adviseManagedTensorAccessedBy', options, ['device']);
  const { device: accessedBy } = options;
  checkLocation(tensor.device.family, accessedBy, 0);
  named(
    () => tensor.device.advise(tensor, { accessedBy }),
    () => `advice that device ${accessedBy} accesses ${asText(tensor)}`,
  );
}

/** Enqueues a prefetch. `words` returns the description of the moved memory for errors. */
export function prefetch(
  tensor: Tensor,
  device: number,
  stream: Stream,
  words: () => string,
): void {
  named(
    () => stream.prefetch(tensor, device),
    () => `the prefetch to ${placeName(device)} of ${words()}`,
  );
}
export function prefer(tensor: Tensor, preferredLocation: number, words: () => string): void {
  named(
    () => tensor.device.advise(tensor, { preferredLocation }),
    () => `advice to prefer ${placeName(preferredLocation)} for ${words()}`,
  );
}

export function isEmpty(t: unknown): boolean {
  if (t === null || t === undefined) return true;
  if (t instanceof Tensor || t instanceof CpuTensor) return t.size === 0;
  return Array.isArray(t) || ArrayBuffer.isView(t)
    ? (t as { length?: unknown }).length === 0
    : false;
}

function checkManaged(what: string, t: unknown): Tensor {
  if (!(t instanceof Tensor))
    throw typeError(`${what} takes a tensor in managed memory, got ${otherAsText(t)}`);
  t.checkOpen();
  if (!t.storage.managed)
    throw typeError(
      `${what} takes a tensor in managed memory, got ${shapeOf(t)} ${t.dtype} on ${t.device.name}: ${poolAdvice}`,
    );
  return t;
}
export const poolAdvice = 'allocate it from a unified memory pool (createUnifiedMempool)';

/** Throws unless `device` is an integer from `least` to the index of the family's last device. */
export function checkLocation(family: DeviceFamily, device: unknown, least: -1 | 0): void {
  if (typeof device !== 'number')
    throw typeError(`device must be a number, got ${typeof device} (${describeValue(device)})`);
  nativeManaged().checkLocation(family, device, least);
}

/**
 * Returns `stream`, or the current stream of `device` if none is given. Throws TypeError for a
 * stream of another device.
 */
export function streamFor(device: Device, stream: Stream | null | undefined): Stream {
  if (stream === undefined || stream === null) return device.currentStream;
  if (typeof stream?.prefetch !== 'function')
    throw typeError(`stream must be a stream, got ${describeValue(stream)}`);
  if (stream.device.name !== device.name)
    throw typeError(`a stream of ${stream.device.name} cannot prefetch a tensor of ${device.name}`);
  return stream;
}

/**
 * Runs `call`, and adds the text of `words` to a driver error. Rethrows any other error unchanged,
 * because its text already names the operation and the tensor.
 */
function named(call: () => void, words: () => string): void {
  try {
    call();
  } catch (cause) {
    const { message, code } = cause as Error & { code?: string };
    const text = `${words()} was refused: ${message}`;
    if (cause instanceof DeviceError) throw new DeviceError(text, cause, { cause });
    if (code === 'ERR_HOTSLOT_UNAVAILABLE')
      throw new UnifiedMemoryUnsupportedError(text, { cause });
    throw cause;
  }
}

const placeName = (device: number) => (device < 0 ? 'the CPU' : `device ${device}`);
export const shapeOf = (tensor: { shape: readonly number[] }) =>
  tensor.shape.join('×') || 'a scalar';

/** Returns shape, dtype, bytes and address as text for errors. */
export function asText(tensor: Tensor): string {
  const address = (nativeMemory().address(tensor.handle) + tensor.byteOffset).toString(16);
  return `${shapeOf(tensor)} ${tensor.dtype} (${tensor.spanBytes} bytes at 0x${address})`;
}

function otherAsText(t: unknown): string {
  return t instanceof CpuTensor ? `a cpu tensor of ${shapeOf(t)} ${t.dtype}` : describeValue(t);
}
