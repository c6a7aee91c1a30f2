/** UniLab's names of the transfer backend. Each name is for some families of devices. */
import { checkKeys } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { checkDevice } from '../checks.ts';
import type { Device } from '../device.ts';
import type { DeviceFamily } from '../facts.ts';
import type { BackendOptions } from './backend.ts';
import { CopyingTransferBackend } from './copying.ts';
import type { TransferMode } from './native.ts';

/**
 * The backend for NVIDIA's and AMD's GPUs. The driver's copy engine copies from slots that are
 * pinned in the shared memory itself. If the driver cannot pin them, it copies from pageable
 * memory. `hostMemoryKind` and a warning then report this.
 */
export class CudaLikeReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    super(checkFamily('CudaLikeReplayTransferBackend', device, ['cuda', 'rocm']), options);
  }
}

/**
 * The backend for Intel's GPUs. It copies from slots that the driver imports in place if it can.
 * Otherwise `hostMemoryKind` and a warning report this, as for other GPUs.
 */
export class XpuReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    super(checkFamily('XpuReplayTransferBackend', device, ['xpu']), options);
  }
}

/**
 * The portable backend, which copies on the CPU device's copy stream. Mode `deferred` is for
 * devices to which only the consumer's thread can submit. In mode `direct`, pack writes the device
 * buffer itself, which only the CPU device allows.
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
