/** The frozen facts about how a pipeline's transfer really happens. */
import type { DeviceFamily } from '../device/facts.ts';
import type { H2dSubmitter, HostMemoryKind, ReplayTransferBackend } from '../transfer/backend.ts';
import type { CheckedOptions } from './options.ts';

export interface TransferManifest {
  readonly backend: string;
  readonly device: string;
  readonly deviceFamily: DeviceFamily;
  readonly hostMemoryKind: HostMemoryKind;
  readonly hostPinned: boolean;
  readonly directPinnedShared: boolean;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly h2dSubmitter: H2dSubmitter;
  readonly ringDepth: number;
  /** roles per thread, e.g. '[pack] [submit poll replay]', or 'inline' */
  readonly placement: string;
  readonly placementReason: string;
  /** what 'auto' or 'cpu' came to mean, when the device was not named outright */
  readonly deviceReason: string;
}

export function manifestOf(backend: ReplayTransferBackend, { device, placement }: CheckedOptions): TransferManifest {
  const { name } = backend.device;
  return Object.freeze({
    backend: backend.constructor.name,
    device: name,
    deviceFamily: backend.deviceFamily,
    hostMemoryKind: backend.hostMemoryKind,
    hostPinned: backend.hostPinned,
    directPinnedShared: backend.directPinnedShared,
    supportsAsyncSubmit: backend.supportsAsyncSubmit,
    supportsTimingEvents: backend.supportsTimingEvents,
    h2dSubmitter: backend.h2dSubmitter,
    ringDepth: backend.ringDepth,
    placement: placement.name,
    placementReason: placement.reason,
    deviceReason: device === name ? 'as asked' : `'${device}' means ${name} here`,
  });
}
