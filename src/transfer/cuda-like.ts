/**
 * Copies for NVIDIA's and AMD's GPUs: by the driver's copy engine, out of slots pinned in the shared memory itself. A driver
 * that will not pin them copies from pageable memory instead; `hostMemoryKind` and a warning say so.
 */
import type { Device } from '../device/device.ts';
import { typeError } from '../errors.ts';
import type { BackendOptions } from './backend.ts';
import { CopyingTransferBackend } from './copying.ts';

const submitters = { cuda: 'cuda_driver', rocm: 'hip_runtime' } as const;

export class CudaLikeReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, options: BackendOptions) {
    const { family } = device;
    if (family !== 'cuda' && family !== 'rocm') {
      throw typeError(`CudaLikeReplayTransferBackend is for cuda and rocm devices, got ${device.name}`);
    }
    super(device, options, { submitter: submitters[family] });
  }
}
