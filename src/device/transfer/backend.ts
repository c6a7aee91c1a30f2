/**
 * The contract of a transfer backend. It defines how a slot's rows get from shared host memory to
 * the device, and how a caller learns that they have arrived. Names and meanings follow UniLab's
 * ReplayTransferBackend. The submit and poll actors use a backend as any caller does.
 */

import type { DType } from '../../base/dtype.ts';
import type { Device, Stream, Tensor } from '../device.ts';
import type { DeviceFamily, Products } from '../facts.ts';
import type { TransferMode } from './native.ts';

export type HostMemoryKind =
  | 'pageable_shared'
  | 'registered_pinned_shared'
  | 'imported_shared'
  | 'host_direct';
export type H2dSubmitter =
  | 'cuda_driver'
  | 'hip_runtime'
  | 'level_zero'
  | 'host_stream'
  | 'host_deferred'
  | 'host_direct';

export interface SubmitH2dOptions {
  slot: number;
  /** a tensor over the slot's device buffer, from its start */
  dst: Tensor;
  /** bytes of the slot's registered host buffer, from its start */
  src: Uint8Array;
  /** labels of the trace spans that `traceRecorder` gets, without any other effect */
  metadata?: Readonly<Record<string, unknown>>;
  /**
   * called at once with a trace span for the submission. With `traceDeviceEvents` it is called
   * again with the copy's device time ('gpu/replay_pipeline_batch_h2d'), if the device can measure.
   * The readyQuery or synchronizeReady that finds the copy done makes that call
   */
  traceRecorder?: (span: {
    name: string;
    seconds: number;
    args: Readonly<Record<string, unknown>>;
  }) => void;
  traceDeviceEvents?: boolean;
  h2dBytes?: number;
  packLayout?: string;
  packExecutor?: string;
}

export interface BackendOptions {
  ringDepth: number;
  /**
   * whether events measure each copy, by default if the device can. Untimed events cost less to
   * query
   */
  timed?: boolean;
}

/**
 * Handles and shared flags of a backend's slots, without any objects. A backend in another thread
 * operates the same slots with these values.
 */
export interface SharedTransferBackend {
  readonly device: string;
  readonly products: Products;
  readonly mode: TransferMode;
  readonly stream: number;
  readonly copied: readonly number[];
  /** events recorded before each copy, empty if nothing is timed */
  readonly begins: readonly number[];
  readonly hosts: readonly number[];
  readonly hostOffsets: readonly number[];
  readonly slots: readonly number[];
  readonly armed: ArmedSlots;
}

/** The submission of each slot, in memory that threads share. */
export interface ArmedSlots {
  /** 0 before a submission, 1 after it, and 2 after a deferred copy was made */
  readonly states: Int32Array;
  /** bytes submitted. They are not in `states`, because 2 GiB and more do not fit into 32 bits */
  readonly bytes: Float64Array;
}

export interface ReplayTransferBackend extends Disposable {
  readonly device: Device;
  readonly deviceFamily: DeviceFamily;
  readonly h2dSubmitter: H2dSubmitter;
  readonly hostMemoryKind: HostMemoryKind;
  /** true while the host slots are registered and pinned */
  readonly hostPinned: boolean;
  /** true while the host slots are pinned in the shared memory itself */
  readonly directPinnedShared: boolean;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly ringDepth: number;
  /**
   * texts about requests, such as pinning, that failed and that the backend fulfilled in another
   * way
   */
  readonly warnings: readonly string[];
  /** host seconds of the last deferred copy, 0 in other modes */
  readonly lastWaitCopyTimeS: number;
  /** Registers one view over shared memory per slot. If one fails, no view is registered. */
  registerHostSlots(slots: readonly Uint8Array[]): void;
  /** Allocates one tensor per slot. close() frees the tensors. */
  allocateDeviceSlots(options: { shape: readonly number[]; dtype: DType }): Tensor[];
  /** Submits a copy, and returns the host seconds spent submitting. */
  submitH2d(options: SubmitH2dOptions): number;
  /**
   * Submits a copy of `bytes` bytes from the start of the slot's host buffer, without checks, for
   * the submit actor. Returns the host seconds spent submitting.
   */
  submitSlot(slot: number, bytes: number): number;
  /**
   * Begins the slot's next tick: the slot counts as not submitted. If the slot has a deferred copy
   * for which no stream has waited, that copy is never made.
   */
  clearReady(slot: number): void;
  /**
   * Returns true if the slot was submitted and its copy is done. In modes other than `immediate`
   * the copy counts as done as soon as it was submitted.
   */
  readyQuery(slot: number): boolean;
  /** Resolves when the slot's copy is done, or at once if nothing was submitted. */
  synchronizeReady(slot: number): Promise<void>;
  /**
   * Makes `stream` (default: the current stream) wait for the slot's copy. The host does not wait.
   */
  waitCurrentStreamForReady(slot: number, stream?: Stream): void;
  /** Handles of the slots' `copied` events. */
  readonly readyEvents: readonly number[];
  /** Returns the handles and flags for an AttachedTransferBackend in another thread. */
  share(): SharedTransferBackend;
  /**
   * Waits for running copies, then unregisters the host slots and frees the device slots.
   * Idempotent.
   */
  close(): void;
}
