/** Chooses the backend for a device. */
import { openDevice } from '../device/open.ts';
import { checkKeys, typeError, unavailableError } from '../errors.ts';
import type { ReplayTransferBackend } from './backend.ts';
import { HostCopyReplayTransferBackend } from './host-copy.ts';
import { TransferMode } from './native.ts';

export type TransferName = 'immediate' | 'deferred' | 'direct';

/**
 * A backend for `device` with `ringDepth` slots. 'cpu' means 'host:0'. `transfer` chooses how the host device copies:
 * 'immediate' on its copy stream (the default), 'deferred' to the consumer's stream, 'direct' not at all (pack writes
 * the device half). Throws for an unknown device, and ERR_HOTSLOT_UNAVAILABLE for a family that cannot be used here.
 */
export function buildReplayTransferBackend(options: {
  device: string;
  ringDepth: number;
  transfer?: TransferName;
}): ReplayTransferBackend {
  checkKeys('buildReplayTransferBackend', options, ['device', 'ringDepth', 'transfer']);
  const { device: name, ringDepth, transfer = 'immediate' } = options;
  if (!Object.hasOwn(TransferMode, transfer)) {
    throw typeError(`transfer must be one of ${Object.keys(TransferMode).join(', ')}, got ${String(transfer)}`);
  }
  const device = openDevice(name);
  if (device.family !== 'host') {
    throw unavailableError(`there is no transfer backend for ${device.name} yet; use 'host:0'`);
  }
  return new HostCopyReplayTransferBackend(device, { ringDepth, mode: TransferMode[transfer] });
}
