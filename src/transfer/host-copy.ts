/**
 * The portable backend: copies on the device's own copy stream. Deferred mode is for devices that must be submitted to
 * from the consumer's thread; direct mode has pack write the device half itself, which only the host device allows.
 */
import { answered } from '../addon.ts';
import type { Device, DeviceEvent, HostMemory, Stream } from '../device/device.ts';
import { native } from '../device/native.ts';
import { openDevice } from '../device/open.ts';
import { Tensor } from '../device/tensor.ts';
import { checkDType, type DType, dtypes, elementCount } from '../dtype.ts';
import { checkCount, rangeError, stateError, typeError } from '../errors.ts';
import type {
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SharedTransferBackend,
  SubmitH2dOptions,
} from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

const submitters = ['host_stream', 'host_deferred', 'host_direct'] as const;

/** events and slots are made per place in the ring */
const MOST_DEPTH = 1024;
/** Closing gives copies in flight this long before it refuses and says so. */
const DRAIN_MS = 5000;
/** One native wait of it: a thread that is told to end gets out in between. */
const SLICE_MS = 40;

export class HostCopyReplayTransferBackend implements ReplayTransferBackend {
  readonly device: Device;
  readonly deviceFamily: Device['family'];
  readonly h2dSubmitter: H2dSubmitter;
  readonly hostMemoryKind: HostMemoryKind;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly ringDepth: number;
  readonly mode: TransferMode;
  lastWaitCopyTimeS = 0;
  readonly #stream: Stream;
  readonly #copied: DeviceEvent[];
  /** for the last drain: made now, because closing must not fail for want of it */
  readonly #last: DeviceEvent;
  /** see submitArmed; shared with every thread that attached */
  readonly #armed: Int32Array;
  #registered: HostMemory[] = [];
  #hostViews: Uint8Array[] = [];
  #hostOffsets: number[] = [];
  #slots: Tensor[] = [];
  #submitter: Submitter | null = null;
  #closed = false;

  constructor(
    device: Device,
    { ringDepth, mode = TransferMode.immediate }: { ringDepth: number; mode?: TransferMode },
  ) {
    this.device = device;
    this.deviceFamily = device.family;
    this.ringDepth = checkCount('ringDepth', ringDepth, 1, MOST_DEPTH);
    this.mode = mode;
    this.h2dSubmitter = submitters[mode];
    this.hostMemoryKind = mode === TransferMode.direct ? 'host_direct' : 'pageable_shared';
    this.supportsAsyncSubmit = mode === TransferMode.immediate;
    this.supportsTimingEvents = mode === TransferMode.immediate;
    this.#stream = device.createStream({ priority: -1 });
    this.#copied = Array.from({ length: ringDepth }, () => device.createEvent({ timing: true }));
    this.#last = device.createEvent();
    this.#armed = new Int32Array(new SharedArrayBuffer(4 * ringDepth));
  }

  /** The host device pins nothing: its memory is the machine's. */
  get hostPinned(): boolean {
    return false;
  }
  get directPinnedShared(): boolean {
    return false;
  }
  get readyEvents(): readonly number[] {
    return this.#copied.map((event) => event.handle);
  }

  registerHostSlots(slots: readonly Uint8Array[]): void {
    this.#check();
    if (this.#registered.length > 0)
      throw stateError('BUSY', 'host slots are registered already; close the backend first');
    if (!Array.isArray(slots)) throw typeError(`registerHostSlots takes an array of Uint8Array, got ${String(slots)}`);
    if (slots.length !== this.ringDepth)
      throw rangeError(`registerHostSlots needs ${this.ringDepth} slots, got ${slots.length}`);
    for (const [i, view] of slots.entries()) {
      if (!(view instanceof Uint8Array)) throw typeError(`host slot ${i} must be a Uint8Array, got ${typeof view}`);
      if (!(view.buffer instanceof SharedArrayBuffer))
        throw typeError(`host slot ${i} must lie in a SharedArrayBuffer`);
      if (view.length === 0) throw rangeError(`host slot ${i} is empty`);
    }
    const registered: HostMemory[] = [];
    try {
      for (const view of slots) registered.push(this.device.registerHost(view));
    } catch (error) {
      for (const memory of registered) memory.close();
      throw error;
    }
    this.#registered = registered;
    this.#hostViews = [...slots];
    this.#hostOffsets = slots.map(() => 0);
  }

  allocateDeviceSlots({ shape, dtype }: { shape: readonly number[]; dtype: DType }): Tensor[] {
    this.#check();
    if (this.#slots.length > 0) throw stateError('BUSY', 'device slots are allocated already; close the backend first');
    const element = dtypes[checkDType('allocateDeviceSlots', dtype)].bytes;
    const bytes = this.mode === TransferMode.direct ? 0 : elementCount(shape) * element * this.ringDepth;
    const { free } = this.device.memoryInfo();
    if (bytes > free) {
      throw rangeError(
        `${this.ringDepth} device slots ask for ${bytes} bytes, ${free} are free on ${this.device.name}`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
    const slots: Tensor[] = [];
    if (this.mode === TransferMode.direct) {
      // The registered host half is the device half: on the host device one address serves both.
      if (this.#registered.length === 0)
        throw stateError('BUSY', 'direct mode: register host slots before allocating device slots');
      this.#slots = this.#registered.map((memory) => memory.tensor({ shape, dtype }));
      return this.#slots;
    }
    try {
      for (let i = 0; i < this.ringDepth; i++) slots.push(this.device.allocate({ shape, dtype }));
    } catch (error) {
      for (const slot of slots) slot.close();
      throw error;
    }
    this.#slots = slots;
    return slots;
  }

  submitH2d({
    slot,
    dst,
    src,
    metadata = {},
    traceRecorder,
    traceDeviceEvents = false,
    h2dBytes,
    packLayout,
    packExecutor,
  }: SubmitH2dOptions): number {
    this.#checkSlot(slot);
    const host = this.#hostViews[slot];
    const device = this.#slots[slot];
    if (!host || !device) throw stateError('BUSY', 'register host slots and allocate device slots before submitting');
    if (
      !(src instanceof Uint8Array) ||
      src.buffer !== host.buffer ||
      src.byteOffset !== host.byteOffset ||
      src.length > host.length
    ) {
      throw typeError(
        `source must be slot ${slot}'s registered host memory from its start (${host.length} bytes), got ${describe(src)}`,
      );
    }
    if (!(dst instanceof Tensor)) throw typeError(`destination must be a tensor, got ${typeof dst}`);
    if (dst.handle !== device.handle || dst.byteOffset !== 0) {
      throw typeError(
        `destination must be slot ${slot}'s tensor on ${this.device.name}, got one on ${dst.device.name}`,
      );
    }
    if (!dst.contiguous) throw typeError(`destination must be contiguous, got strides [${dst.strides}]`);
    if (dst.bytes !== src.length)
      throw rangeError(`source has ${src.length} bytes, destination ${dst.bytes}: they must be equal`);
    const seconds = this.submitSlot(slot, src.length);
    traceRecorder?.({
      name: 'replay_pipeline_batch_h2d',
      seconds,
      args: {
        slot,
        bytes: h2dBytes ?? src.length,
        layout: packLayout,
        executor: packExecutor,
        submitter: this.h2dSubmitter,
        pinned: this.hostPinned,
        shared: true,
        deviceEvents: traceDeviceEvents && this.supportsTimingEvents,
        ...metadata,
      },
    });
    return seconds;
  }

  submitSlot(slot: number, bytes: number): number {
    return submitArmed(this.#native(), this.#armed, slot, bytes);
  }

  clearReady(slot: number): void {
    this.#checkSlot(slot);
    Atomics.store(this.#armed, slot, 0);
  }

  readyQuery(slot: number): boolean {
    this.#checkSlot(slot);
    if (Atomics.load(this.#armed, slot) === 0) return false;
    return this.mode === TransferMode.deferred || (this.#copied[slot] as DeviceEvent).query();
  }

  async synchronizeReady(slot: number): Promise<void> {
    this.#checkSlot(slot);
    if (Atomics.load(this.#armed, slot) === 0 || this.mode === TransferMode.deferred) return;
    await (this.#copied[slot] as DeviceEvent).done();
  }

  waitCurrentStreamForReady(slot: number, stream: Stream = this.device.currentStream): void {
    this.#checkSlot(slot);
    if (Atomics.load(this.#armed, slot) === 0) return;
    const seconds = waitArmed(this.#native(), this.#armed, slot, stream.handle, this.mode);
    if (seconds > 0) this.lastWaitCopyTimeS = seconds;
  }

  share(): SharedTransferBackend {
    this.#check();
    return {
      device: this.device.name,
      mode: this.mode,
      stream: this.#stream.handle,
      copied: this.readyEvents,
      hosts: this.#registered.map((memory) => memory.handle),
      hostOffsets: this.#hostOffsets,
      slots: this.#slots.map((slot) => slot.handle),
      armed: this.#armed,
    };
  }

  close(): void {
    if (this.#closed) return;
    // Copies in flight first: never free or unregister under a running copy.
    if (!this.#drained()) {
      throw stateError(
        'BUSY',
        `copies on ${this.device.name} are still running after ${DRAIN_MS} ms; close again later`,
      );
    }
    this.#submitter?.close();
    for (const memory of this.#registered) memory.close();
    for (const slot of this.#slots) slot.close();
    for (const event of [...this.#copied, this.#last]) event.close();
    this.#stream.close();
    this.#registered = [];
    this.#hostViews = [];
    // Last: whatever another thread still holds refuses above, and this can be called again.
    this.#closed = true;
  }
  [Symbol.dispose](): void {
    this.close();
  }

  /** Every copy is followed by its slot's event. A sticky error counts as drained: nothing of that stream runs any more. */
  #drained(): boolean {
    const deadline = native().nowMs() + DRAIN_MS;
    for (const event of this.#copied) {
      try {
        while (!native().waitEvent(this.device.handle, event.handle, SLICE_MS))
          if (native().nowMs() > deadline) return false;
      } catch {
        // failed, captured or closed by an earlier attempt: no copy that runs
      }
    }
    return true;
  }

  #native(): Submitter {
    this.#check();
    if (this.#submitter === null) {
      const { stream, copied, hosts, hostOffsets, slots, mode } = this.share();
      if (hosts.length === 0 || slots.length === 0)
        throw stateError('BUSY', 'register host slots and allocate device slots before submitting');
      this.#submitter = newSubmitter({ stream, copied, hosts, hostOffsets, slots, mode });
    }
    return this.#submitter;
  }
  #check(): void {
    if (this.#closed) throw stateError('CLOSED', `this transfer backend of ${this.device.name} is closed`);
  }
  #checkSlot(slot: number): void {
    this.#check();
    checkCount('slot', slot, 0, this.ringDepth - 1);
  }
}

function describe(value: unknown): string {
  return value instanceof Uint8Array ? `${value.length} bytes at ${value.byteOffset} of another memory` : typeof value;
}

// Arming, one Int32 per slot: 0 until submitted, then the bytes submitted, negated once a deferred copy was made. A slot's
// arming has one writer at a time, its owner (I1).

function submitArmed(submitter: Submitter, armed: Int32Array, slot: number, bytes: number): number {
  const seconds = answered(submitter.submit(slot, bytes));
  Atomics.store(armed, slot, bytes);
  return seconds;
}

/** Host seconds spent on a deferred copy; 0 when none was made: the first wait makes it, later ones only order behind it. */
function waitArmed(submitter: Submitter, armed: Int32Array, slot: number, stream: number, mode: TransferMode): number {
  const bytes = Atomics.load(armed, slot);
  if (bytes === 0) return 0;
  if (mode !== TransferMode.deferred || bytes < 0) {
    answered(submitter.waitReady(stream, slot, 0));
    return 0;
  }
  const seconds = answered(submitter.waitReady(stream, slot, bytes));
  Atomics.store(armed, slot, -bytes);
  return seconds;
}

/** A backend's slots seen from an actor's thread: the same native operations over the same handles, nothing owned. */
export class AttachedTransferBackend {
  readonly device: Device;
  readonly readyEvents: readonly number[];
  readonly #submitter: Submitter;
  readonly #armed: Int32Array;
  readonly #mode: TransferMode;
  constructor(shared: SharedTransferBackend) {
    this.device = openDevice(shared.device);
    this.readyEvents = shared.copied;
    this.#armed = shared.armed;
    this.#mode = shared.mode;
    this.#submitter = newSubmitter(shared);
  }
  submitSlot(slot: number, bytes: number): number {
    return submitArmed(this.#submitter, this.#armed, slot, bytes);
  }
  waitStreamForReady(slot: number, stream: number): void {
    waitArmed(this.#submitter, this.#armed, slot, stream, this.#mode);
  }
  close(): void {
    this.#submitter.close();
  }
}
