/**
 * The transfer backend. It registers all host slots or none, copies on its own copy stream, and
 * records an event per slot. Its close() waits for running copies. The public names are in
 * families.ts.
 */

import { ThreadEnding } from '../../base/addon.ts';
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, checkShape, type DType, dtypes } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { Deadline } from '../../shm/wait.ts';
import type { Device, DeviceEvent, HostMemory, Stream, Tensor } from '../device.ts';
import type { HostKind } from '../facts.ts';
import { lendHost } from '../lend.ts';
import { blockOnEvent } from '../open.ts';
import { allOrNothing, checkOpen, guardConstruction, Owner, own } from '../owner.ts';
import { disarm, isArmed, submitArmed, unarmed, waitArmed } from './attached.ts';
import type {
  ArmedSlots,
  BackendOptions,
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SharedTransferBackend,
  SubmitH2dOptions,
} from './backend.ts';
import { checkCopy, checkHostSlots } from './checks.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

/** Largest ringDepth. Every slot of the ring costs events and memory. */
const MAX_DEPTH = 1024;
/** Milliseconds that close() waits for running copies before it throws. */
const DRAIN_MS = 5000;

export class CopyingTransferBackend extends Owner implements ReplayTransferBackend {
  readonly device: Device;
  readonly deviceFamily: Device['family'];
  readonly h2dSubmitter: H2dSubmitter;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly ringDepth: number;
  readonly mode: TransferMode;
  lastWaitCopyTimeS = 0;
  readonly warnings: string[] = [];
  readonly #stream: Stream;
  #copied: DeviceEvent[] = [];
  /** events recorded before each copy, empty if copies are not timed */
  #begins: DeviceEvent[] = [];
  /** by slot, functions that report a timed copy, called when the copy is done */
  readonly #spans = new Map<number, () => void>();
  /** state of the slots' submissions, shared with every attached thread (see submitArmed) */
  readonly #armed: ArmedSlots;
  #registered: HostMemory[] = [];
  #hostViews: Uint8Array[] = [];
  #hostOffsets: number[] = [];
  #slots: Tensor[] = [];
  #submitter: Submitter | null = null;

  constructor(
    device: Device,
    options: BackendOptions,
    mode: TransferMode = TransferMode.immediate,
  ) {
    super(`this transfer backend of ${device.name}`);
    checkKeys('the transfer backend', options, ['ringDepth', 'timed']);
    const { ringDepth, timed = device.traits.timingEvents } = options;
    checkFlag('timed', timed);
    if (!Object.hasOwn(TransferMode, mode))
      throw typeError(
        `mode must be one of ${Object.keys(TransferMode).join(', ')}, got ${describeValue(mode)}`,
      );
    this.device = device;
    this.deviceFamily = device.family;
    this.ringDepth = checkCount('ringDepth', ringDepth, 1, MAX_DEPTH);
    this.mode = mode;
    this.h2dSubmitter = mode === TransferMode.immediate ? device.traits.submitter : `host_${mode}`;
    this.supportsAsyncSubmit = mode === TransferMode.immediate;
    this.supportsTimingEvents = mode === TransferMode.immediate && device.traits.timingEvents;
    const timing = timed && this.supportsTimingEvents;
    const events = (count: number) =>
      Array.from({ length: count }, () => own(this, device.createEvent({ timing })));
    using construction = guardConstruction(this);
    this.#stream = own(this, device.createStream({ priority: -1 }));
    this.#copied = events(ringDepth);
    this.#begins = events(timing ? ringDepth : 0);
    construction.done();
    this.#armed = unarmed(ringDepth);
  }

  /** How the driver reaches the registered slots, null before registration and after close. */
  get #hostKind(): HostKind | null {
    if (this.#registered.length === 0) return null;
    // If the memory of one slot is not pinned, reports all slots as not pinned.
    return (
      this.#registered.find(({ kind }) => kind === 'pageable')?.kind ??
      (this.#registered[0] as HostMemory).kind
    );
  }
  get hostMemoryKind(): HostMemoryKind {
    if (this.mode === TransferMode.direct) return 'host_direct';
    const kind = this.#hostKind;
    if (kind === 'registered') return 'registered_pinned_shared';
    return kind === 'imported' ? 'imported_shared' : 'pageable_shared';
  }
  get hostPinned(): boolean {
    return this.#hostKind !== null && this.#hostKind !== 'pageable';
  }
  /**
   * Always equals hostPinned, because slots are registered in place: the shared memory itself is
   * pinned.
   */
  get directPinnedShared(): boolean {
    return this.hostPinned;
  }
  get readyEvents(): readonly number[] {
    return this.#copied.map((event) => event.handle);
  }

  registerHostSlots(slots: readonly Uint8Array[]): void {
    checkOpen(this);
    if (this.#registered.length > 0)
      throw stateError('BUSY', 'host slots are registered already; close the backend first');
    checkHostSlots(slots, this.ringDepth);
    const lent = lendHost(this.device, 'host memory is', slots, (warning) =>
      this.warnings.push(warning),
    );
    this.#registered = lent.map((memory) => own(this, memory));
    this.#hostViews = [...slots];
    this.#hostOffsets = slots.map(() => 0);
  }

  allocateDeviceSlots(options: { shape: readonly number[]; dtype: DType }): Tensor[] {
    checkOpen(this);
    checkKeys('allocateDeviceSlots', options, ['shape', 'dtype']);
    const { shape, dtype } = options;
    if (this.#slots.length > 0)
      throw stateError('BUSY', 'device slots are allocated already; close the backend first');
    const element = dtypes[checkDType('allocateDeviceSlots', dtype)].bytes;
    const bytes =
      this.mode === TransferMode.direct ? 0 : checkShape(shape) * element * this.ringDepth;
    const { free } = this.device.memoryInfo();
    if (bytes > free) {
      throw rangeError(
        `${this.ringDepth} device slots ask for ${bytes} bytes, ${free} are free on ${this.device.name}`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
    if (this.mode === TransferMode.direct) {
      // In direct mode, pack writes the memory that the device reads. So the slots are tensors over
      // the registered host memory, and nothing is copied.
      if (this.#registered.length === 0)
        throw stateError('BUSY', 'direct mode: register host slots before allocating device slots');
      this.#slots = this.#registered.map((memory) => memory.tensor({ shape, dtype }));
      return this.#slots;
    }
    const slots = allOrNothing((own) =>
      this.#copied.map(() => own(this.device.allocate({ shape, dtype }))),
    );
    this.#slots = slots.map((slot) => own(this, slot));
    return this.#slots;
  }

  submitH2d(options: SubmitH2dOptions): number {
    checkKeys('submitH2d', options, [
      'slot',
      'dst',
      'src',
      'metadata',
      'traceRecorder',
      'traceDeviceEvents',
      'h2dBytes',
      'packLayout',
      'packExecutor',
    ]);
    const {
      slot,
      dst,
      src,
      metadata = {},
      traceRecorder,
      traceDeviceEvents = false,
      h2dBytes,
      packLayout,
      packExecutor,
    } = options;
    this.#checkSlot(slot);
    const host = this.#hostViews[slot];
    const device = this.#slots[slot];
    if (!host || !device)
      throw stateError('BUSY', 'register host slots and allocate device slots before submitting');
    checkCopy({ slot, src, dst }, host, device);
    const seconds = this.submitSlot(slot, src.length);
    this.#spans.delete(slot);
    if (!traceRecorder) return seconds;
    const bytes = h2dBytes ?? src.length;
    const facts = { slot, bytes, pinned: this.hostPinned, ...metadata };
    const more = {
      layout: packLayout,
      executor: packExecutor,
      submitter: this.h2dSubmitter,
      shared: true,
    };
    traceRecorder({ name: 'replay_pipeline_batch_h2d', seconds, args: { ...more, ...facts } });
    const begin = this.#begins[slot];
    if (traceDeviceEvents && begin) {
      // The copy stream's own time is known only after the copy. The call that finds the copy done
      // reports it.
      this.#spans.set(slot, () => {
        const ms = (this.#copied[slot] as DeviceEvent).elapsedMs(begin);
        traceRecorder({ name: 'gpu/replay_pipeline_batch_h2d', seconds: ms / 1000, args: facts });
      });
    }
    return seconds;
  }

  submitSlot(slot: number, bytes: number): number {
    return submitArmed(this.#native(), this.#armed, slot, bytes);
  }

  clearReady(slot: number): void {
    this.#checkSlot(slot);
    this.#spans.delete(slot);
    disarm(this.#armed, slot);
  }

  readyQuery(slot: number): boolean {
    this.#checkSlot(slot);
    if (!isArmed(this.#armed, slot)) return false;
    // In other modes this backend makes no copy on its own stream.
    if (this.mode !== TransferMode.immediate) return true;
    const done = (this.#copied[slot] as DeviceEvent).query();
    if (done) this.#recordSpan(slot);
    return done;
  }

  async synchronizeReady(slot: number): Promise<void> {
    this.#checkSlot(slot);
    if (!isArmed(this.#armed, slot) || this.mode !== TransferMode.immediate) return;
    await (this.#copied[slot] as DeviceEvent).done();
    this.#recordSpan(slot);
  }
  #recordSpan(slot: number): void {
    const report = this.#spans.get(slot);
    this.#spans.delete(slot);
    report?.();
  }

  waitCurrentStreamForReady(slot: number, stream: Stream = this.device.currentStream): void {
    this.#checkSlot(slot);
    if (!isArmed(this.#armed, slot)) return;
    const seconds = waitArmed(this.#native(), this.#armed, slot, stream.handle, this.mode);
    if (seconds > 0) this.lastWaitCopyTimeS = seconds;
  }

  share(): SharedTransferBackend {
    checkOpen(this);
    return {
      device: this.device.name,
      products: this.device.traits.products,
      mode: this.mode,
      stream: this.#stream.handle,
      copied: this.readyEvents,
      begins: this.#begins.map((event) => event.handle),
      hosts: this.#registered.map((memory) => memory.handle),
      hostOffsets: this.#hostOffsets,
      slots: this.#slots.map((slot) => slot.handle),
      armed: this.#armed,
    };
  }

  override close(): void {
    if (this.closed) return;
    // Waits for running copies first, because a running copy uses memory that close() frees or
    // unregisters.
    if (!this.#drained()) {
      throw stateError(
        'BUSY',
        `copies on ${this.device.name} are still running after ${DRAIN_MS} ms; close again later`,
      );
    }
    super.close();
    this.#registered = [];
    this.#hostViews = [];
  }

  /**
   * Waits for each slot's event, which is recorded after its copy. Returns false if a copy is still
   * running after DRAIN_MS. A stream with a sticky error counts as drained, because it runs no more
   * work.
   */
  #drained(): boolean {
    const deadline = new Deadline(DRAIN_MS);
    return this.#copied.every((event) => {
      try {
        return blockOnEvent(this.device, event, deadline.left);
      } catch (error) {
        if (error instanceof ThreadEnding) throw error;
        // The stream failed, the event was captured, or an earlier close() closed it. No copy is
        // running in these cases.
        return true;
      }
    });
  }

  #native(): Submitter {
    checkOpen(this);
    if (this.#submitter === null) {
      const shared = this.share();
      if (shared.hosts.length === 0 || shared.slots.length === 0)
        throw stateError('BUSY', 'register host slots and allocate device slots before submitting');
      this.#submitter = own(this, newSubmitter(shared));
    }
    return this.#submitter;
  }
  #checkSlot(slot: number): void {
    checkOpen(this);
    checkCount('slot', slot, 0, this.ringDepth - 1);
  }
}
