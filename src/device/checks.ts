/** What everything built on devices checks first. */
import { describeValue } from '../base/checks.ts';
import { closedError, typeError } from '../base/errors.ts';
import { type Device, type Stream, Tensor } from './device.ts';

/**
 * Devices as openDevice() made them: a proxy of one, or what inherits from one, lacks what is
 * private to it.
 */
export const openedDevices = new WeakSet<object>();

/** Throws TypeError unless it is a Device, ERR_HOTSLOT_STATE_CLOSED when that is closed. */
export function checkDevice(what: string, device: Device): Device {
  if (typeof device !== 'object' || device === null || !openedDevices.has(device))
    throw typeError(
      `${what} takes an opened device, got ${describeValue(device)}: openDevice(name) gives one`,
    );
  if (device.closed) throw closedError(`${what}: device ${device.name}`, 'open it again');
  return device;
}

/** Throws TypeError unless it is a tensor, of whatever memory. */
export function checkTensor(what: string, tensor: Tensor): Tensor {
  if (tensor instanceof Tensor) return tensor;
  throw typeError(
    `${what} takes a tensor, got ${describeValue(tensor)}: device.allocate() makes one`,
  );
}

/**
 * The handle of a stream, event, graph or exec; TypeError for anything else. Cheap: every launch
 * comes by here.
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
    `${what} takes a stream, got ${describeValue(stream)}: device.createStream() and currentStream give one`,
  );
}
