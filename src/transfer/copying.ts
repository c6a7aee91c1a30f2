/**
 * What every transfer backend does alike: host slots registered all or nothing, copies on the device's own copy stream, an
 * event per slot, and an end that waits. The families' backends say what their driver is called and how it copies.
 */
import type { Device, DeviceEvent, HostMemory, Stream } from '../device/device.ts';
import { Made } from '../device/made.ts';
import { type HostKind, native } from '../device/native.ts';
import { Tensor } from '../device/tensor.ts';
import { checkDType, type DType, dtypes, elementCount, type TypedArray } from '../dtype.ts';
import { checkCount, DeviceError, rangeError, stateError, typeError } from '../errors.ts';
import { submitArmed, waitArmed } from './attached.ts';
import type {
  BackendOptions,
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SharedTransferBackend,
  SubmitH2dOptions,
} from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

/** events and slots are made per place in the ring */
const MOST_DEPTH = 1024;
/** Closing gives copies in flight this long before it refuses and says so. */
const DRAIN_MS = 5000;
/** One native wait of it: a thread that is told to end gets out in between. */
const SLICE_MS = 40;

export abstract class CopyingTransferBackend implements ReplayTransferBackend {
  readonly device: Device;
  readonly deviceFamily: Device['family'];
  readonly h2dSubmitter: H2dSubmitter;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly ringDepth: number;
  readonly mode: TransferMode;
  lastWaitCopyTimeS = 0;
  readonly warnings: string[] = [];
  readonly #made = new Made();
  readonly #stream: Stream;
  readonly #copied: DeviceEvent[];
  /** recorded before each copy; none when nothing is timed */
  readonly #begins: DeviceEvent[];
  /** what to tell of a timed copy once it is done, per slot */
  readonly #spans = new Map<number, () => void>();
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
    { ringDepth, timed = device.traits.timingEvents }: BackendOptions,
    { mode = TransferMode.immediate, submitter }: { mode?: TransferMode; submitter: H2dSubmitter },
  ) {
    this.device = device;
    this.deviceFamily = device.family;
    this.ringDepth = checkCount('ringDepth', ringDepth, 1, MOST_DEPTH);
    this.mode = mode;
    this.h2dSubmitter = submitter;
    this.supportsAsyncSubmit = mode === TransferMode.immediate;
    this.supportsTimingEvents = mode === TransferMode.immediate && device.traits.timingEvents;
    const timing = timed && this.supportsTimingEvents;
    const made = this.#made;
    const events = (count: number) => Array.from({ length: count }, () => made.keep(device.createEvent({ timing })));
    try {
      this.#stream = made.keep(device.createStream({ priority: -1 }));
      this.#copied = events(ringDepth);
      this.#begins = events(timing ? ringDepth : 0);
    } catch (error) {
      made.close();
      throw error;
    }
    this.#armed = new Int32Array(new SharedArrayBuffer(4 * ringDepth));
  }

  /** How the driver reaches the registered slots; null before registration and after close. */
  protected get hostKind(): HostKind | null {
    if (this.#registered.length === 0) return null;
    // One that is not pinned makes all of them count as that.
    return this.#registered.find(({ kind }) => kind === 'pageable')?.kind ?? (this.#registered[0] as HostMemory).kind;
  }
  get hostMemoryKind(): HostMemoryKind {
    const kind = this.hostKind;
    if (kind === 'registered') return 'registered_pinned_shared';
    return kind === 'imported' ? 'imported_shared' : 'pageable_shared';
  }
  get hostPinned(): boolean {
    return this.hostKind !== null && this.hostKind !== 'pageable';
  }
  /** Slots are registered in place: pinned always means the shared memory itself. */
  get directPinnedShared(): boolean {
    return this.hostPinned;
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
    this.#registered = lendHost(this.device, slots, (warning) => this.warnings.push(warning));
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
    this.#spans.delete(slot);
    if (!traceRecorder) return seconds;
    const bytes = h2dBytes ?? src.length;
    const facts = { slot, bytes, pinned: this.hostPinned, ...metadata };
    const more = { layout: packLayout, executor: packExecutor, submitter: this.h2dSubmitter, shared: true };
    traceRecorder({ name: 'replay_pipeline_batch_h2d', seconds, args: { ...more, ...facts } });
    const begin = this.#begins[slot];
    if (traceDeviceEvents && begin) {
      // The copy stream's own time is known once the copy is done: told by whoever finds it so.
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
    Atomics.store(this.#armed, slot, 0);
  }

  readyQuery(slot: number): boolean {
    this.#checkSlot(slot);
    if (Atomics.load(this.#armed, slot) === 0) return false;
    if (this.mode === TransferMode.deferred) return true;
    const done = (this.#copied[slot] as DeviceEvent).query();
    if (done) this.#tellSpan(slot);
    return done;
  }

  async synchronizeReady(slot: number): Promise<void> {
    this.#checkSlot(slot);
    if (Atomics.load(this.#armed, slot) === 0 || this.mode === TransferMode.deferred) return;
    await (this.#copied[slot] as DeviceEvent).done();
    this.#tellSpan(slot);
  }
  #tellSpan(slot: number): void {
    const tell = this.#spans.get(slot);
    this.#spans.delete(slot);
    tell?.();
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
      begins: this.#begins.map((event) => event.handle),
      hosts: this.#registered.map((memory) => memory.handle),
      hostOffsets: this.#hostOffsets,
      slots: this.#slots.map((slot) => slot.handle),
      armed: this.#armed,
    };
  }

  /** `part` closes with the backend. */
  keep(part: { close(): void }): this {
    this.#made.keep(part);
    return this;
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
    this.#made.close();
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
      const shared = this.share();
      if (shared.hosts.length === 0 || shared.slots.length === 0)
        throw stateError('BUSY', 'register host slots and allocate device slots before submitting');
      this.#submitter = newSubmitter(shared);
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

/**
 * Lends all of `views` to the device, pinned in place; when the driver refuses to pin one of them, all are lent as they are,
 * and `warn` hears why. All or nothing.
 */
export function lendHost(device: Device, views: readonly TypedArray[], warn: (message: string) => void): HostMemory[] {
  const lend = (pin: boolean) => {
    const lent: HostMemory[] = [];
    try {
      for (const view of views) lent.push(device.registerHost(view, { pin }));
    } catch (error) {
      for (const memory of lent) memory.close();
      throw error;
    }
    return lent;
  };
  try {
    return lend(true);
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    const lent = lend(false);
    warn(`host memory is not pinned, so copies to ${device.name} take longer: ${error.message}`);
    return lent;
  }
}
