/** UniLab's names of the backend, each for some families of devices. */
import { checkKeys } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { checkDevice } from '../checks.ts';
import type { Device } from '../device.ts';
import type { DeviceFamily } from '../facts.ts';
import type { BackendOptions } from './backend.ts';
import { CopyingTransferBackend } from './copying.ts';
import type { TransferMode } from './native.ts';

/**
 * The backend for NVIDIA's and AMD's GPUs: the driver's copy engine copies out of slots pinned in
 * the shared memory itself. If the driver does not pin them, it copies from pageable memory, and
 * `hostMemoryKind` and a warning say so.
 */
export class CudaLikeReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    super(checkFamily('CudaLikeReplayTransferBackend', device, ['cuda', 'rocm']), options);
  }
}

/**
 * The backend for Intel's GPUs, likewise, out of slots that the driver imports in place if it can.
 */
export class XpuReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    super(checkFamily('XpuReplayTransferBackend', device, ['xpu']), options);
  }
}

/**
 * The portable backend, which copies on the host device's copy stream. Mode `deferred` is for
 * devices to which the consumer's thread must submit. With `direct` pack writes the device buffer
 * itself, which only the host device allows.
 */
export class HostCopyReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions & { mode?: TransferMode }) {
    checkKeys('HostCopyReplayTransferBackend', options, ['ringDepth', 'timed', 'mode']);
    const { mode, ...slots } = options;
    super(checkDevice('HostCopyReplayTransferBackend', device), slots, mode);
  }
}

function checkFamily(name: string, device: Device, families: readonly DeviceFamily[]): Device {
  if (families.includes(checkDevice(name, device).family)) return device;
  throw typeError(`${name} is for ${families.join(' and ')} devices, got ${device.name}`);
}
