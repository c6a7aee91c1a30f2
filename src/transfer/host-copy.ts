/**
 * The portable backend: copies on the host device's copy stream. Deferred mode is for devices that must be submitted to
 * from the consumer's thread; direct mode has pack write the device half itself, which only the host device allows.
 */
import type { Device } from '../device/device.ts';
import type { BackendOptions, HostMemoryKind } from './backend.ts';
import { CopyingTransferBackend } from './copying.ts';
import { TransferMode } from './native.ts';

const submitters = { immediate: 'host_stream', deferred: 'host_deferred', direct: 'host_direct' } as const;

export class HostCopyReplayTransferBackend extends CopyingTransferBackend {
  constructor(device: Device, { mode = TransferMode.immediate, ...options }: BackendOptions & { mode?: TransferMode }) {
    super(device, options, { mode, submitter: submitters[mode] });
  }
  /** The host device pins nothing: its memory is the machine's. */
  override get hostMemoryKind(): HostMemoryKind {
    return this.mode === TransferMode.direct ? 'host_direct' : 'pageable_shared';
  }
}
