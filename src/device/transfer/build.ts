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
 * Makes a backend for `device` with `ringDepth` slots. 'cpu' means 'host:0'. `transfer` chooses how
 * the host device copies: 'immediate' on its copy stream (the default), 'deferred' to the
 * consumer's stream, 'direct' and 'auto' not at all (pack writes the device buffer). GPUs copy at
 * once. `timed: false` saves the events that measure copies. Throws for an unknown device, and
 * ERR_HOTSLOT_UNAVAILABLE for a family that cannot be used here.
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
        `transfer '${transfer}' is for the host device; ${device.name} copies at once: leave it out`,
      );
    const gpu =
      device.family === 'xpu'
        ? new XpuReplayTransferBackend(device, slots)
        : new CudaLikeReplayTransferBackend(device, slots);
    ownedBy(gpu, device);
    return gpu;
  });
}

/** Throws a TypeError unless `transfer` is a TransferMode or 'auto'. */
export function checkTransfer(transfer: unknown): TransferChoice {
  if (transfer !== 'auto' && !Object.hasOwn(TransferMode, transfer as string))
    throw typeError(
      `transfer must be one of auto, ${Object.keys(TransferMode).join(', ')}, got ${describeValue(transfer)}`,
    );
  return transfer as TransferChoice;
}
