/** What everything built on devices checks first. */
import { shown, stateError, typeError } from '../errors.ts';
import type { Device } from './device.ts';

/** Throws TypeError unless it is a Device, ERR_HOTSLOT_STATE_CLOSED when that is closed. */
export function checkDevice(what: string, device: Device): Device {
  if (typeof device !== 'object' || device === null || typeof device.allocate !== 'function')
    throw typeError(`${what} takes an opened device, got ${shown(device)}: openDevice(name) gives one`);
  if (device.closed) throw stateError('CLOSED', `${what}: device ${device.name} is closed; open it again`);
  return device;
}
