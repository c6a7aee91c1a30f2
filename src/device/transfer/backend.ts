/**
 * The contract of a transfer backend: how a slot's rows get from shared host memory to the device,
 * and when they are there. Names and meanings follow UniLab's ReplayTransferBackend. The submit and
 * poll actors use it like any caller.
 */

import type { DType } from '../../base/dtype.ts';
import type { Device, Stream, Tensor } from '../device.ts';
import type { DeviceFamily } from '../facts.ts';
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
  /** labels of the span, nothing else */
  metadata?: Readonly<Record<string, unknown>>;
  /**
   * called with the submission at once. With `traceDeviceEvents`, and if the device can measure,
   * the readyQuery or synchronizeReady that finds the copy done calls it with the copy's own time
   * ('gpu/replay_pipeline_batch_h2d')
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
   * make events that measure each copy, by default if the device can. Untimed events cost less to
   * query
   */
  timed?: boolean;
}

/**
 * Handles and shared flags, but no objects, by which a backend in another thread finds the same
 * slots.
 */
export interface SharedTransferBackend {
  readonly device: string;
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

/** The submissions of each slot, in memory that threads share. */
export interface ArmedSlots {
  /** 0 until submitted, then 1, and 2 once a deferred copy was made */
  readonly states: Int32Array;
  /**
   * bytes submitted: apart from the states, because 2 GiB and more do not fit into a word of 32
   * bits
   */
  readonly bytes: Float64Array;
}

export interface ReplayTransferBackend extends Disposable {
  readonly device: Device;
  readonly deviceFamily: DeviceFamily;
  readonly h2dSubmitter: H2dSubmitter;
  readonly hostMemoryKind: HostMemoryKind;
  /** true while host slots are registered and pinned */
  readonly hostPinned: boolean;
  /** true while they are pinned in the shared memory itself */
  readonly directPinnedShared: boolean;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly ringDepth: number;
  /** texts about requests that failed and were fulfilled in another way */
  readonly warnings: readonly string[];
  /** seconds that the last consumer-side copy took, 0 unless copies are deferred */
  readonly lastWaitCopyTimeS: number;
  /** Registers one view per slot, over shared memory, all or none. */
  registerHostSlots(slots: readonly Uint8Array[]): void;
  /** Allocates one tensor per slot, which close() frees. */
  allocateDeviceSlots(options: { shape: readonly number[]; dtype: DType }): Tensor[];
  /** Submits a copy, and returns the host seconds spent submitting. */
  submitH2d(options: SubmitH2dOptions): number;
  /**
   * Does the same without checks, for the submit actor: `bytes` from the start of the slot's host
   * buffer.
   */
  submitSlot(slot: number, bytes: number): number;
  /**
   * Begins the slot's next tick: the slot counts as not submitted, and a deferred copy that was not
   * waited for is dropped.
   */
  clearReady(slot: number): void;
  /**
   * Returns true if the slot was submitted and its copy is done (deferred: as soon as it was
   * submitted).
   */
  readyQuery(slot: number): boolean;
  /** Resolves when the slot's copy is done, or at once if nothing was submitted. */
  synchronizeReady(slot: number): Promise<void>;
  /**
   * Orders `stream` (the current one by default) after the slot's copy, without a wait on the host.
   */
  waitCurrentStreamForReady(slot: number, stream?: Stream): void;
  /** The slots' `copied` events. */
  readonly readyEvents: readonly number[];
  /** Returns the handles and flags for an AttachedTransferBackend in another thread. */
  share(): SharedTransferBackend;
  /** Waits for copies in flight, then unregisters and frees. It is idempotent. */
  close(): void;
}
