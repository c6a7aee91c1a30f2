/** What everything built on devices checks first. */
import { shown } from '../checks.ts';
import { closedError, typeError } from '../errors.ts';
import type { Device } from './device.ts';

/** Throws TypeError unless it is a Device, ERR_HOTSLOT_STATE_CLOSED when that is closed. */
export function checkDevice(what: string, device: Device): Device {
  if (typeof device !== 'object' || device === null || typeof device.allocate !== 'function')
    throw typeError(`${what} takes an opened device, got ${shown(device)}: openDevice(name) gives one`);
  if (device.closed) throw closedError(`${what}: device ${device.name}`, 'open it again');
  return device;
}
