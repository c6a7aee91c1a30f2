/** Checks that modules built on devices make before anything else. */
import { describeValue } from '../base/checks.ts';
import { closedError, typeError } from '../base/errors.ts';
import { type Device, type Stream, Tensor } from './device.ts';
import { type Products, productsKinds } from './facts.ts';

/**
 * The devices that openDevice() returned. A proxy of a device, or an object that inherits from one,
 * lacks the device's private fields, so it is not in this set.
 */
export const openedDevices = new WeakSet<object>();

/**
 * Returns the device. Throws TypeError unless it is a Device, and ERR_HOTSLOT_STATE_CLOSED if it is
 * closed.
 */
export function checkDevice(what: string, device: Device): Device {
  if (typeof device !== 'object' || device === null || !openedDevices.has(device))
    throw typeError(
      `${what} takes an opened device, got ${describeValue(device)}; openDevice(name) returns one`,
    );
  if (device.closed) throw closedError(`${what}: device ${device.name}`, 'open it again');
  return device;
}

/** Throws a TypeError unless the option `products` is a precision or omitted. */
export function checkProducts(products: unknown): asserts products is Products | undefined {
  if (products !== undefined && !productsKinds.includes(products as never))
    throw typeError(
      `products must be ${productsKinds.map((kind) => `'${kind}'`).join(' or ')}, got ${describeValue(products)}`,
    );
}

/** Returns the tensor, of any memory. Throws TypeError for anything else. */
export function checkTensor(what: string, tensor: Tensor): Tensor {
  if (tensor instanceof Tensor) return tensor;
  throw typeError(
    `${what} takes a tensor, got ${describeValue(tensor)}; device.allocate() returns one`,
  );
}

/**
 * Returns the handle of a stream, event, graph or exec. Throws TypeError for anything else. The
 * check must be cheap, because every launch calls this function.
 */
export function handleOf(what: string, kind: string, object: { readonly handle: number }): number {
  const handle = object?.handle;
  if (typeof handle === 'number') return handle;
  throw typeError(`${what} takes ${kind}, got ${describeValue(object)}`);
}

export function checkFunction(what: string, fn: unknown): void {
  if (typeof fn !== 'function')
    throw typeError(`${what} takes a function, got ${describeValue(fn)}`);
}

export function checkStream(what: string, stream: Stream): Stream {
  if (typeof stream?.launch === 'function') return stream;
  throw typeError(
    `${what} takes a stream, got ${describeValue(stream)}; device.createStream() and currentStream return one`,
  );
}
