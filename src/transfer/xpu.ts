/**
 * Copies for Intel's GPUs: by the copy engine, out of slots that the driver imported in place where it can; where it cannot,
 * it copies from pageable memory, and `hostMemoryKind` says so.
 */
import type { Device } from '../device/device.ts';
import { typeError } from '../errors.ts';
import type { BackendOptions } from './backend.ts';
import { CopyingTransferBackend } from './copying.ts';

export class XpuReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    if (device.family !== 'xpu') throw typeError(`XpuReplayTransferBackend is for xpu devices, got ${device.name}`);
    super(device, options, { submitter: 'level_zero' });
  }
}
