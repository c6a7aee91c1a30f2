/**
 * The contract of a transfer backend: how a slot's rows get from shared host memory to the device,
 * and when they are there. Names and meanings follow UniLab's ReplayTransferBackend; the submit and
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
   * told of the submission at once; with `traceDeviceEvents`, and where the device can measure,
   * told of the copy's own time ('gpu/replay_pipeline_batch_h2d') by the readyQuery or
   * synchronizeReady that finds it done
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
   * make events that measure each copy; true by default where the device can. Untimed events cost
   * less to ask for.
   */
  timed?: boolean;
}

/** How a backend in another thread finds the same slots: handles and shared flags, no objects. */
export interface SharedTransferBackend {
  readonly device: string;
  readonly mode: TransferMode;
  readonly stream: number;
  readonly copied: readonly number[];
  /** events recorded before each copy; empty when nothing is timed */
  readonly begins: readonly number[];
  readonly hosts: readonly number[];
  readonly hostOffsets: readonly number[];
  readonly slots: readonly number[];
  readonly armed: ArmedSlots;
}

/** What was submitted, per slot, in memory that threads share. */
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
  /** what did not go as wanted and was done otherwise, in words */
  readonly warnings: readonly string[];
  /** seconds that the last consumer-side copy took; 0 unless copies are deferred */
  readonly lastWaitCopyTimeS: number;
  /** One view per slot, over shared memory; all or nothing. */
  registerHostSlots(slots: readonly Uint8Array[]): void;
  /** One tensor per slot, freed by close(). */
  allocateDeviceSlots(options: { shape: readonly number[]; dtype: DType }): Tensor[];
  /** Host seconds spent submitting. */
  submitH2d(options: SubmitH2dOptions): number;
  /**
   * The same without checks, for the submit actor: `bytes` from the start of the slot's host
   * buffer.
   */
  submitSlot(slot: number, bytes: number): number;
  /**
   * The slot's next tick begins: not submitted, and a deferred copy that was not waited for is
   * dropped.
   */
  clearReady(slot: number): void;
  /**
   * True when the slot was submitted and its copy is done (deferred: as soon as it was submitted).
   */
  readyQuery(slot: number): boolean;
  /** Resolves when the slot's copy is done; at once when nothing was submitted. */
  synchronizeReady(slot: number): Promise<void>;
  /**
   * Orders `stream` (the current one by default) behind the slot's copy; never waits on the host.
   */
  waitCurrentStreamForReady(slot: number, stream?: Stream): void;
  /** The slots' `copied` events. */
  readonly readyEvents: readonly number[];
  /** For another thread; see AttachedTransferBackend. */
  share(): SharedTransferBackend;
  /** Waits for copies in flight, then unregisters and frees. Twice is fine. */
  close(): void;
}
