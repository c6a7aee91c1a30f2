/** Opens devices and lists them. The objects made here are thin: the truth is in the native core, once per process. */
import { isMainThread } from 'node:worker_threads';
import { checkDType, type DType, dtypes, type TypedArray } from '../dtype.ts';
import { checkCount, checkKeys, stateError, typeError } from '../errors.ts';
import type { Advice, Device, DeviceEvent, DeviceInfo, HostMemory, Residency, Stream } from './device.ts';
import { type DeviceTraits, native } from './native.ts';
import { checkShape, MemoryStorage, RegisteredHost } from './storage.ts';
import { OpenedEvent, OpenedStream } from './stream.ts';
import { Tensor } from './tensor.ts';

/** Every family with what it has or why it is unavailable. */
export function listDevices(): DeviceInfo[] {
  return native().listDevices();
}

/** Opens a device: 'auto' picks the best there is, 'cpu' means 'host:0'. Throws RangeError for an unknown name. */
export function openDevice(name: 'auto' | (string & {}) = 'auto'): Device {
  if (typeof name !== 'string')
    throw typeError(`a device is named by a string such as 'auto' or 'host:0', got ${String(name)}`);
  return new OpenedDevice(name);
}

/** This thread's current stream of each device, by the device's handle: however often the device was opened here. */
const current = new Map<number, Stream>();

class OpenedDevice implements Device {
  readonly name: string;
  readonly family: Device['family'];
  readonly index: number;
  readonly handle: number;
  readonly #main: OpenedStream;
  #closed = false;

  constructor(name: string) {
    const opened = native().openDevice(name);
    this.family = opened.family;
    this.index = opened.index;
    this.handle = opened.handle;
    this.name = `${opened.family}:${opened.index}`;
    this.#main = new OpenedStream(this, opened.stream, 0, true);
  }

  get traits(): DeviceTraits {
    return native().deviceTraits(this.handle);
  }

  memoryInfo() {
    this.#check();
    return native().memoryInfo(this.handle);
  }

  createStream(options: { priority?: number } = {}): Stream {
    this.#check();
    checkKeys('createStream', options, ['priority']);
    const { priority = 0 } = options;
    return new OpenedStream(
      this,
      native().createStream(this.handle, checkCount('priority', priority, -8, 8)),
      priority,
      false,
    );
  }

  createEvent(options: { timing?: boolean } = {}): DeviceEvent {
    this.#check();
    checkKeys('createEvent', options, ['timing']);
    const { timing = false } = options;
    if (typeof timing !== 'boolean') throw typeError(`timing must be a boolean, got ${String(timing)}`);
    return new OpenedEvent(this, native().createEvent(this.handle, timing), timing);
  }

  allocate(options: { shape: readonly number[]; dtype?: DType; zeroed?: boolean }): Tensor {
    this.#check();
    checkKeys('allocate', options, ['shape', 'dtype', 'zeroed']);
    const { zeroed = true } = options;
    if (typeof zeroed !== 'boolean') throw typeError(`zeroed must be a boolean, got ${String(zeroed)}`);
    const allocate = zeroed ? native().allocate : native().scratch;
    return this.#tensor('allocate', options, (bytes) => allocate(this.handle, bytes), false);
  }

  allocateManaged(options: { shape: readonly number[]; dtype?: DType }): Tensor {
    this.#check();
    checkKeys('allocateManaged', options, ['shape', 'dtype']);
    return this.#tensor('allocateManaged', options, (bytes) => native().allocateManaged(this.handle, bytes), true);
  }

  #tensor(
    what: string,
    { shape, dtype = 'float32' }: { shape: readonly number[]; dtype?: DType },
    allocate: (bytes: number) => number,
    managed: boolean,
  ): Tensor {
    const bytes = checkShape(shape) * dtypes[checkDType(what, dtype)].bytes;
    // Drivers refuse to give nothing: an empty tensor has a byte behind it.
    const storage = new MemoryStorage(this, allocate(Math.max(bytes, 1)), bytes, { host: false, managed });
    return new Tensor(storage, [...shape], dtype);
  }

  advise(tensor: Tensor, advice: Advice): void {
    this.#check();
    checkKeys('advise', advice, ['preferredLocation', 'accessedBy']);
    tensor.checkOpen();
    const { preferredLocation, accessedBy } = advice;
    const range = [tensor.handle, tensor.byteOffset, tensor.spanBytes] as const;
    if (preferredLocation !== undefined) native().advise(...range, 0, preferredLocation);
    if (accessedBy !== undefined) native().advise(...range, 1, accessedBy);
  }

  residency(tensor: Tensor): Residency {
    this.#check();
    tensor.checkOpen();
    return native().residency(tensor.handle, tensor.byteOffset, tensor.spanBytes);
  }

  registerHost(view: TypedArray, options: { pin?: boolean } = {}): HostMemory {
    this.#check();
    checkKeys('registerHost', options, ['pin']);
    const { pin = true } = options;
    if (typeof pin !== 'boolean') throw typeError(`pin must be a boolean, got ${String(pin)}`);
    return new RegisteredHost(this, view, pin);
  }

  get defaultStream(): Stream {
    this.#check();
    return this.#main;
  }

  get currentStream(): Stream {
    this.#check();
    return current.get(this.handle) ?? this.#main;
  }

  withStream<T>(stream: Stream, fn: () => T): T {
    this.#check();
    if (stream.device.name !== this.name)
      throw typeError(`a stream of ${stream.device.name} cannot be current on ${this.name}`);
    if (stream.closed) throw stateError('CLOSED', 'a closed stream cannot be current');
    const before = current.get(this.handle);
    current.set(this.handle, stream);
    try {
      return fn();
    } finally {
      // Not the default stream of this object, which another one would then meet after this is closed.
      if (before) current.set(this.handle, before);
      else current.delete(this.handle);
    }
  }

  get closed(): boolean {
    return this.#closed;
  }
  /**
   * Closes this object; what was made of it closes on its own. When no thread has the device open any more, what belongs to
   * the device itself goes: transfer streams, the shared capture stream and graph pool, memory kept for later.
   */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    native().closeDevice(this.handle);
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #check(): void {
    if (this.#closed) throw stateError('CLOSED', `device ${this.name} is closed; open it again`);
  }
}

/** Blocks this thread until the event is done, helping the device; false when `ms` are over. Never on the main thread. */
export function waitEventSync(device: Device, event: DeviceEvent, ms: number): boolean {
  if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await event.done() instead');
  return native().waitEvent(device.handle, event.handle, ms);
}
