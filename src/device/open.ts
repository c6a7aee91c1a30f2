/**
 * Opens devices and lists them. The objects of this file only wrap handles. The state is in the
 * native core, which exists once per process.
 */
import { answered } from '../base/addon.ts';
import { checkCount, checkFlag, checkKeys, describeValue } from '../base/checks.ts';
import { checkDType, checkShape, type DType, dtypes, type TypedArray } from '../base/dtype.ts';
import { closedError, stateError, typeError } from '../base/errors.ts';
import { Deadline, refuseMainThread } from '../shm/wait.ts';
import { checkFunction, checkProducts, checkTensor, openedDevices } from './checks.ts';
import { type Device, type DeviceEvent, type HostMemory, type Stream, Tensor } from './device.ts';
import type { Advice, DeviceInfo, DeviceTraits, Products, Residency } from './facts.ts';
import { Handle } from './handle.ts';
import {
  nativeDevices,
  nativeEvents,
  nativeManaged,
  nativeMemory,
  nativeStreams,
} from './native.ts';
import type { KernelsToLoad, LoadedKernel } from './own-kernels/declarations.ts';
import { loadKernels } from './own-kernels/load.ts';
import { MemoryStorage, RegisteredHost } from './storage.ts';
import { OpenedEvent, OpenedStream } from './stream.ts';

/**
 * Returns every family with its devices, or with the reason why it is unavailable.
 * @example
 * for (const { name, available, reason } of listDevices()) console.log(name, available || reason);
 */
export function listDevices(): DeviceInfo[] {
  return nativeDevices().listDevices();
}

/** Options of openDevice(). */
export interface OpenOptions {
  /**
   * precision of the matrix products of cuBLAS. It holds for the whole process while the device is
   * open. Default: the precision with which the device is open already, otherwise 'float32'
   */
  products?: Products | undefined;
}

/**
 * Opens a device.
 *
 * @param name 'auto' selects the best available device, and 'cpu' means 'host:0'. Default 'auto'
 * @param options `products`: 'float32' or 'tf32'
 * @throws {TypeError} for an unknown option or precision
 * @throws {RangeError} ERR_HOTSLOT_UNKNOWN_DEVICE for an unknown name
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if this machine cannot drive the device, or the device cannot
 *   multiply in 'tf32'
 * @throws {ERR_HOTSLOT_STATE_BUSY} if the device is open in this process with other `products`
 * @example
 * const device = openDevice('auto');
 * console.log(device.name, device.memoryInfo().free);
 * device.close();
 */
export function openDevice(
  name: 'auto' | (string & {}) = 'auto',
  options: OpenOptions = {},
): Device {
  if (typeof name !== 'string')
    throw typeError(
      `a device name must be a string such as 'auto' or 'host:0', got ${describeValue(name)}`,
    );
  checkKeys('openDevice', options, ['products']);
  const { products } = options;
  checkProducts(products);
  return new OpenedDevice(name, products);
}

/**
 * This thread's current stream of each device, by the device's handle. All Device objects of one
 * device have the same handle.
 */
const current = new Map<number, Stream>();

class OpenedDevice implements Device {
  readonly name: string;
  readonly family: Device['family'];
  readonly index: number;
  readonly handle: number;
  readonly #main: OpenedStream;
  #closed = false;

  constructor(name: string, products: Products | undefined) {
    const opened = answered(nativeDevices().openDevice(name, products));
    this.family = opened.family;
    this.index = opened.index;
    this.handle = opened.handle;
    this.name = `${opened.family}:${opened.index}`;
    this.#main = new OpenedStream(this, opened.stream, 0, 'device');
    openedDevices.add(this);
  }

  get traits(): DeviceTraits {
    return nativeDevices().deviceTraits(this.handle);
  }

  memoryInfo() {
    this.#check();
    return nativeDevices().memoryInfo(this.handle);
  }

  createStream(options: { priority?: number } = {}): Stream {
    this.#check();
    checkKeys('createStream', options, ['priority']);
    const { priority = 0 } = options;
    checkCount('priority', priority, -8, 8);
    return new OpenedStream(this, nativeStreams().createStream(this.handle, priority), priority);
  }

  createEvent(options: { timing?: boolean } = {}): DeviceEvent {
    this.#check();
    checkKeys('createEvent', options, ['timing']);
    const { timing = false } = options;
    checkFlag('timing', timing);
    return new OpenedEvent(this, nativeEvents().createEvent(this.handle, timing), timing);
  }

  allocate<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
    zeroed?: boolean;
  }): Tensor<D> {
    this.#check();
    checkKeys('allocate', options, ['shape', 'dtype', 'zeroed']);
    const { zeroed = true } = options;
    checkFlag('zeroed', zeroed);
    const allocate = zeroed ? nativeMemory().allocate : nativeMemory().scratch;
    return this.#tensor('allocate', options, (bytes) => allocate(this.handle, bytes), false);
  }

  allocateManaged<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
  }): Tensor<D> {
    this.#check();
    checkKeys('allocateManaged', options, ['shape', 'dtype']);
    return this.#tensor(
      'allocateManaged',
      options,
      (bytes) => nativeManaged().allocateManaged(this.handle, bytes),
      true,
    );
  }

  #tensor<D extends DType>(
    what: string,
    { shape, dtype = 'float32' as D }: { shape: readonly number[]; dtype?: D },
    allocate: (bytes: number) => number,
    managed: boolean,
  ): Tensor<D> {
    const bytes = checkShape(shape) * dtypes[checkDType(what, dtype)].bytes;
    // Drivers reject an allocation of 0 bytes, so an empty tensor gets one byte of memory.
    const storage = new MemoryStorage(this, allocate(Math.max(bytes, 1)), bytes, { managed });
    return new Tensor(storage, [...shape], dtype);
  }

  advise(tensor: Tensor, advice: Advice): void {
    this.#check();
    checkKeys('advise', advice, ['preferredLocation', 'accessedBy']);
    checkTensor('advise', tensor).checkOpen();
    const { preferredLocation, accessedBy } = advice;
    const range = [tensor.handle, tensor.byteOffset, tensor.spanBytes] as const;
    if (preferredLocation !== undefined) nativeManaged().advise(...range, 0, preferredLocation);
    if (accessedBy !== undefined) nativeManaged().advise(...range, 1, accessedBy);
  }

  residency(tensor: Tensor): Residency {
    this.#check();
    checkTensor('residency', tensor).checkOpen();
    return nativeManaged().residency(tensor.handle, tensor.byteOffset, tensor.spanBytes);
  }

  registerHost(view: TypedArray, options: { pin?: boolean } = {}): HostMemory {
    this.#check();
    checkKeys('registerHost', options, ['pin']);
    const { pin = true } = options;
    checkFlag('pin', pin);
    return new RegisteredHost(this, view, pin);
  }

  async loadKernels<K extends string>(options: KernelsToLoad<K>): Promise<Record<K, LoadedKernel>> {
    this.#check();
    return loadKernels(this, options);
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
    const is = typeof stream?.device?.name === 'string' && typeof stream.prefetch === 'function';
    if (!is || (stream instanceof Handle && !Handle.is(stream)))
      throw typeError(`withStream takes a stream, got ${describeValue(stream)}`);
    checkFunction('withStream', fn);
    if (stream.device.name !== this.name)
      throw typeError(`a stream of ${stream.device.name} cannot be current on ${this.name}`);
    if (stream.closed) throw stateError('CLOSED', 'a closed stream cannot be current');
    const before = current.get(this.handle);
    current.set(this.handle, stream);
    try {
      return fn();
    } finally {
      // Deletes the entry instead of storing this object's default stream. Otherwise another object
      // of the same device would use that stream after this object is closed.
      if (before) current.set(this.handle, before);
      else current.delete(this.handle);
    }
  }

  get closed(): boolean {
    return this.#closed;
  }
  /**
   * Closes this object. Objects that were created with it stay open until they are closed
   * themselves. When no thread has the device open any more, the objects that belong to the device
   * are freed. These are transfer streams, the shared capture stream and graph pool, and memory
   * kept for later.
   */
  close(): void {
    if (this.#closed) return;
    // Set before the call, because the core counts the closing even if the call then throws.
    this.#closed = true;
    nativeDevices().closeDevice(this.handle);
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #check(): void {
    if (this.#closed) throw closedError(`device ${this.name}`, 'open it again');
  }
}

/**
 * Maximum milliseconds of one native wait. A longer wait is split into several native calls,
 * because a worker that is being terminated can end only between two calls.
 */
const SLICE_MS = 40;

/** Returns the length of the next native wait for this deadline, in milliseconds. */
export const sliceOf = (deadline: Deadline): number =>
  Math.max(0, Math.min(deadline.left, SLICE_MS));

/**
 * Blocks this thread until the event is done, and meanwhile helps to run the device's work. Returns
 * true when the event is done, or false after `ms`. Throws on the main thread.
 */
export function waitEventSync(device: Device, event: DeviceEvent, ms?: number): boolean {
  refuseMainThread('event.done()');
  return blockOnEvent(device, event, ms);
}

/**
 * Blocks any thread, including the main thread, until the event is done. Objects that are being
 * closed call it. Returns true when the event is done, or false after `ms`. Throws ThreadEnding if
 * the thread is terminated meanwhile.
 */
export function blockOnEvent(device: Device, event: DeviceEvent, ms?: number): boolean {
  const deadline = new Deadline(ms);
  for (;;) {
    if (answered(nativeEvents().waitEvent(device.handle, event.handle, sliceOf(deadline))))
      return true;
    if (deadline.left <= 0) return false;
  }
}
