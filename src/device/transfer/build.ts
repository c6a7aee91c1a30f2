/** Chooses the backend for a device. */

import { checkKeys, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { openDevice } from '../open.ts';
import { allOrNothing, own as ownedBy } from '../owner.ts';
import type { ReplayTransferBackend } from './backend.ts';
import {
  CudaLikeReplayTransferBackend,
  HostCopyReplayTransferBackend,
  XpuReplayTransferBackend,
} from './families.ts';
import { type TransferChoice, TransferMode } from './native.ts';

/**
 * Creates the transfer backend of a device's family.
 *
 * @param options `device`: a name, where 'cpu' means 'host:0'. `ringDepth`: the number of slots.
 *   `transfer` selects how the CPU device copies: 'immediate' on its copy stream (default),
 *   'deferred' on the consumer's stream, 'direct' and 'auto' without a copy. `timed: false` omits
 *   the events that measure copies
 * @throws {RangeError} ERR_HOTSLOT_UNKNOWN_DEVICE for an unknown device
 * @throws {ERR_HOTSLOT_UNAVAILABLE} for a family that this machine cannot use
 * @example
 * const backend = buildReplayTransferBackend({ device: 'cpu', ringDepth: 2 });
 * backend.close();
 */
export function buildReplayTransferBackend(options: {
  device: string;
  ringDepth: number;
  transfer?: TransferChoice;
  timed?: boolean;
}): ReplayTransferBackend {
  checkKeys('buildReplayTransferBackend', options, ['device', 'ringDepth', 'transfer', 'timed']);
  const { device: name, transfer = 'immediate', ...slots } = options;
  checkTransfer(transfer);
  return allOrNothing((own) => {
    const device = own(openDevice(name));
    if (device.family === 'host') {
      const backend = new HostCopyReplayTransferBackend(device, {
        ...slots,
        mode: transfer === 'auto' ? TransferMode.direct : transfer,
      });
      ownedBy(backend, device);
      return backend;
    }
    if (transfer !== 'immediate' && transfer !== 'auto')
      throw typeError(
        `transfer '${transfer}' is for the CPU device; ${device.name} copies at once: leave it out`,
      );
    const gpu =
      device.family === 'xpu'
        ? new XpuReplayTransferBackend(device, slots)
        : new CudaLikeReplayTransferBackend(device, slots);
    ownedBy(gpu, device);
    return gpu;
  });
}

/** Returns `transfer`. Throws a TypeError unless it is a TransferMode or 'auto'. */
export function checkTransfer(transfer: unknown): TransferChoice {
  if (transfer !== 'auto' && !Object.hasOwn(TransferMode, transfer as string))
    throw typeError(
      `transfer must be one of auto, ${Object.keys(TransferMode).join(', ')}, got ${describeValue(transfer)}`,
    );
  return transfer as TransferChoice;
}
