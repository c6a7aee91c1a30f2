/** The facts about how a pipeline's batches reach the device, as a frozen object. */
import type { DeviceFamily } from '../../device/facts.ts';
import type { H2dSubmitter, HostMemoryKind } from '../../device/transfer/backend.ts';
import type { CheckedOptions } from './options.ts';
import type { Slots } from './slots.ts';

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
  /** where the rows live, and why */
  readonly rowsKept: 'host' | 'device';
  readonly rowsReason: string;
  /**
   * only for rows on the device. In order: rows and bytes that the device keeps, rows that a tick
   * draws from, rows of the guard, bytes between two rows
   */
  readonly ringRows?: number;
  readonly ringBytes?: number;
  readonly drawableRows?: number;
  readonly guardRows?: number;
  readonly rowStride?: number;
  /** the device that 'auto' or 'cpu' stands for, or 'as asked' if the option named the device */
  readonly deviceReason: string;
}

export function manifestOf(
  { backend, rowsKept, deviceStore }: Slots,
  { device, placement }: CheckedOptions,
): TransferManifest {
  const { name } = backend.device;
  const ring = deviceStore?.checked;
  const facts = ring && {
    ringRows: ring.places,
    ringBytes: ring.ringBytes,
    guardRows: ring.guard,
    rowStride: ring.stride,
    drawableRows: ring.places - ring.guard,
  };
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
    rowsKept: rowsKept.location,
    rowsReason: rowsKept.reason,
    ...facts,
    deviceReason: device === name ? 'as asked' : `'${device}' means ${name} here`,
  });
}
