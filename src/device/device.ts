/**
 * The device contract: the interfaces of every family, with the same names and order as
 * native/device/core/device.hpp. Streams, events and graphs are the device's own, never Node's.
 * Methods that enqueue work return at once, and no method blocks the main thread.
 */
import { checkCount, checkKeys, describeValue } from '../base/checks.ts';
import {
  type ArrayOf,
  arrayOf,
  checkDType,
  checkShape,
  type DType,
  dtypes,
  type TypedArray,
} from '../base/dtype.ts';
import { closedError, rangeError, typeError } from '../base/errors.ts';
import type {
  Advice,
  DeviceFamily,
  DeviceTraits,
  HostKind,
  MemoryInfo,
  Residency,
} from './facts.ts';
import type { ArgumentsOf, KernelName } from './kernels.ts';
import type { KernelsToLoad, LoadedKernel } from './own-kernels/declarations.ts';
import { gatherStrided, isDense, rowMajor } from './strides.ts';

/** Arguments of launch() after the kernel's name. */
export type LaunchArguments<K extends KernelName = KernelName> = ArgumentsOf<K, Tensor>;

/**
 * Arguments of launch() after a loaded kernel. `wholes` and `reals` may be omitted if the kernel
 * has none.
 */
export interface LoadedArguments {
  tensors: readonly Tensor[];
  wholes?: readonly number[];
  reals?: readonly number[];
}

/**
 * A point in a stream. An event that was never recorded counts as done. If an event is recorded
 * several times, only the latest record counts.
 */
export interface DeviceEvent extends Disposable {
  readonly handle: number;
  readonly timing: boolean;
  /**
   * Returns true if the latest record is done. Throws DeviceError if the stream that recorded the
   * event failed, or if the event belongs to a capture.
   */
  query(): boolean;
  /**
   * Returns the milliseconds from `start` to this event. Both need `timing: true` and must be done.
   */
  elapsedMs(start: DeviceEvent): number;
  /**
   * Resolves when the event is done. Rejects with DeviceError if the stream failed, or with the
   * signal's reason.
   */
  done(options?: { signal?: AbortSignal }): Promise<void>;
  close(): void;
}

/** Captured work. Call instantiate() before a replay. */
export interface Graph extends Disposable {
  readonly handle: number;
  readonly nodeCount: number;
  instantiate(): GraphExec;
  close(): void;
}

/** An instantiated graph, which any stream of its device can replay any number of times. */
export interface GraphExec extends Disposable {
  readonly handle: number;
  /**
   * Makes later replays run `graph`. Replays that are already enqueued run the previous graph.
   * Returns true if the driver changed the exec in place, which needs the same operations with
   * other arguments. Returns false if the exec had to be recreated, which costs more.
   */
  update(graph: Graph): boolean;
  close(): void;
}

/**
 * An ordered queue of device work. An error on a stream is sticky: the next record, query or launch
 * throws it.
 */
export interface Stream extends Disposable {
  readonly handle: number;
  readonly device: Device;
  readonly priority: number;
  readonly closed: boolean;
  /**
   * Records the event. In a capture, a record only marks a point at which other streams can join
   * the capture. With `external` the record becomes an operation of the graph. Each replay then
   * records the event anew, and code outside of the graph can query it and measure time with it.
   */
  record(event: DeviceEvent, options?: { external?: boolean }): void;
  /**
   * Makes work that is enqueued after this call wait for the event's latest record. If the event's
   * stream failed, this stream fails too. With `orderOnly`, this stream also waits until the
   * event's stream has finished or failed, but does not fail.
   */
  wait(event: DeviceEvent, options?: { orderOnly?: boolean }): void;
  /**
   * Copies bytes between host and device, within a device, or between two devices of one family.
   * Both tensors must be contiguous and have the same number of bytes.
   */
  copy(to: Tensor, from: Tensor): void;
  /**
   * Sets every element to `value`, which is a bigint for int64 and uint64, and a number for other
   * dtypes. For float16 and bfloat16, `value` is rounded. For bool, `value` must be 0 or 1.
   */
  fill(to: Tensor, value: number | bigint): void;
  /**
   * Launches a kernel by name. docs/reference/kernels.md lists the kernels. Counts, dtypes, sizes
   * and strides are checked before the launch.
   */
  launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  /**
   * Launches a kernel that device.loadKernels() returned. This stream must be on the same device.
   */
  launch(kernel: LoadedKernel, args: LoadedArguments): void;
  /** Enqueues one replay of a graph. */
  replay(exec: GraphExec): void;
  /**
   * Moves the pages of a tensor in managed memory, in stream order. `device` is the index of a
   * device of the tensor's family, or −1 for the CPU. Throws inside a capture. A graph needs no
   * prefetch, because the address stays the same wherever the pages are.
   */
  prefetch(tensor: Tensor, device: number): void;
  /** Returns true if all work enqueued so far is done. */
  query(): boolean;
  /** Resolves when all work enqueued so far is done. Rejects with the signal's reason. */
  synchronize(options?: { signal?: AbortSignal }): Promise<void>;
  beginCapture(): void;
  endCapture(): Graph;
  readonly capturing: boolean;
  close(): void;
}

/** Host memory that is registered with a device in place, and pinned if the family pins memory. */
export interface HostMemory extends Disposable {
  readonly handle: number;
  readonly bytes: number;
  /**
   * how the driver reaches the memory: pinned in place, imported in place, or through copies that
   * the driver makes itself
   */
  readonly kind: HostKind;
  /** Returns a tensor over a range of the memory, for copies. */
  tensor<D extends DType>(options: {
    shape: readonly number[];
    dtype: D;
    byteOffset?: number;
  }): Tensor<D>;
  close(): void;
}

/**
 * One opened accelerator. A handle is valid in the whole process, so any thread can open the same
 * device and use its handles.
 */
export interface Device extends Disposable {
  readonly name: string;
  readonly family: DeviceFamily;
  readonly index: number;
  readonly handle: number;
  readonly traits: DeviceTraits;
  memoryInfo(): MemoryInfo;
  createStream(options?: { priority?: number }): Stream;
  createEvent(options?: { timing?: boolean }): DeviceEvent;
  /**
   * Allocates device memory of this shape, zeroed by default. With `zeroed: false` the content is
   * undefined, and a reused allocation costs next to nothing. Throws ERR_HOTSLOT_MEMORY if too
   * little memory is free. The text has the requested and the free bytes.
   */
  allocate<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
    zeroed?: boolean;
  }): Tensor<D>;
  /**
   * Allocates zeroed managed memory. The memory has one address for the CPU and every device of the
   * family, and the driver moves its pages between them. Sets this device as the preferred
   * location, and lets it access pages without moving them (see advise()). Throws
   * ERR_HOTSLOT_UNAVAILABLE if the device has no managed memory. `traits.noManaged` then has the
   * reason.
   */
  allocateManaged<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
  }): Tensor<D>;
  advise(tensor: Tensor, advice: Advice): void;
  residency(tensor: Tensor): Residency;
  /**
   * Registers the bytes of `view` with the device, and pins them in place. With `pin: false` the
   * bytes are not pinned, and copies take longer. The object keeps a reference to `view`, which
   * must be on a SharedArrayBuffer. Throws a TypeError for memory that is not shared, and
   * DeviceError if the driver cannot pin the bytes.
   *
   * After close(), the bytes stay registered until the device has finished with them. Until then, a
   * new call for the same bytes reuses that registration. If a new call is for other bytes in the
   * same pages, a worker thread waits for up to 2 s. The main thread throws the driver's error at
   * once.
   */
  registerHost(view: TypedArray, options?: { pin?: boolean }): HostMemory;
  /**
   * Loads kernels that you supply, by name (docs/how-to/custom-kernel.md). Compiling may take
   * seconds and happens once. Throws ERR_HOTSLOT_COMPILE with the compiler's output. Throws
   * ERR_HOTSLOT_UNAVAILABLE if this machine can neither compile nor load an image. Throws a
   * TypeError for an image of another family, or with other parameters than declared. The kernels
   * are freed with the device.
   */
  loadKernels<K extends string>(options: KernelsToLoad<K>): Promise<Record<K, LoadedKernel>>;
  /** The device's default compute stream. The process has one per device. */
  readonly defaultStream: Stream;
  /** This thread's current stream on this device, initially the default stream. */
  readonly currentStream: Stream;
  withStream<T>(stream: Stream, fn: () => T): T;
  readonly closed: boolean;
  close(): void;
}

/** The owner of a tensor's bytes. Every view of the bytes shares it, and it is closed once. */
export interface Storage {
  readonly handle: number;
  readonly device: Device;
  readonly bytes: number;
  readonly host: boolean;
  /** whether the pages can move (see Stream.prefetch) */
  readonly managed: boolean;
  readonly closed: boolean;
  close(): void;
  /**
   * Copies bytes to the host (`read`) or to the device (`write`), in the stream's order. Never
   * blocks the main thread.
   */
  read(byteOffset: number, bytes: number, stream: Stream): Promise<Uint8Array>;
  write(byteOffset: number, bytes: Uint8Array, stream: Stream): void;
}

/**
 * A view of device memory, or of registered host memory: a shape, a dtype, strides and a byte
 * offset in a storage.
 * @example
 * const x = device.allocate({ shape: [2, 3] }).write(new Float32Array(6).fill(1));
 * console.log(await x.toArray());
 * x.close();
 */
export class Tensor<D extends DType = DType> implements Disposable {
  readonly storage: Storage;
  readonly shape: readonly number[];
  /** for each dimension, the distance in elements from one index to the next */
  readonly strides: readonly number[];
  readonly dtype: D;
  /** bytes from the start of the storage */
  readonly byteOffset: number;
  /** number of elements */
  readonly size: number;

  constructor(
    storage: Storage,
    shape: readonly number[],
    dtype: D,
    byteOffset = 0,
    strides?: readonly number[],
  ) {
    if (typeof storage?.bytes !== 'number' || typeof storage.device !== 'object')
      throw typeError(
        `a tensor is a view of a device's memory, got ${describeValue(storage)}; device.allocate() returns one`,
      );
    checkDType('tensor', dtype);
    this.size = checkShape(shape);
    this.storage = storage;
    this.shape = shape;
    this.strides = strides ?? rowMajor(shape);
    this.dtype = dtype;
    this.byteOffset = byteOffset;
    const element = dtypes[dtype].bytes;
    if (!Number.isSafeInteger(byteOffset) || byteOffset < 0 || byteOffset % element !== 0)
      throw rangeError(
        `a tensor of ${dtype} starts at a multiple of ${element} bytes, got ${describeValue(byteOffset)}`,
      );
    const steps = this.strides;
    if (!Array.isArray(steps))
      throw typeError(`strides are an array of whole numbers, got ${describeValue(steps)}`);
    if (
      steps.length !== shape.length ||
      steps.some((step) => !Number.isSafeInteger(step) || step < 0)
    ) {
      const got = `[${steps.map(describeValue).join()}] for [${shape}]`;
      throw rangeError(`strides are one whole number of at least 0 per dimension; got ${got}`);
    }
    const end = byteOffset + this.spanBytes;
    if (end > storage.bytes) {
      throw rangeError(
        `a tensor of ${shape.join('×')} ${dtype} at byte ${byteOffset} ends at ${end}, beyond ${storage.bytes} bytes`,
      );
    }
  }

  get device(): Device {
    return this.storage.device;
  }
  get handle(): number {
    return this.storage.handle;
  }
  get closed(): boolean {
    return this.storage.closed;
  }
  /** Bytes of all elements, without gaps between them. */
  get bytes(): number {
    return this.size * dtypes[this.dtype].bytes;
  }
  /**
   * Bytes from the first element to the end of the last element. More than `bytes` if the strides
   * leave gaps.
   */
  get spanBytes(): number {
    if (this.size === 0) return 0;
    const last = this.shape.reduce((n, d, i) => n + (d - 1) * (this.strides[i] as number), 0);
    return (last + 1) * dtypes[this.dtype].bytes;
  }
  get contiguous(): boolean {
    return isDense(this.shape, this.strides);
  }

  /**
   * Returns another view of the same bytes.
   *
   * @param options shape, and dtype (default: this tensor's). `offset` and `strides` are in
   *   elements of that dtype, counted from this tensor's start
   * @throws {RangeError} if the view would leave the tensor's memory
   */
  view<V extends DType = D>(options: {
    shape: readonly number[];
    offset?: number;
    strides?: readonly number[];
    dtype?: V;
  }): Tensor<V> {
    checkKeys('view', options, ['shape', 'offset', 'strides', 'dtype']);
    const dtype = checkDType('view', options.dtype ?? (this.dtype as DType as V));
    checkShape(options.shape);
    const elements = checkCount('offset', options.offset ?? 0, Number.MIN_SAFE_INTEGER);
    const offset = this.byteOffset + elements * dtypes[dtype].bytes;
    return new Tensor(
      this.storage,
      options.shape,
      dtype,
      offset,
      options.strides ?? rowMajor(options.shape),
    );
  }

  /**
   * Copies values into the tensor, in stream order. `values` may change after the call.
   *
   * @param values row-major, with the tensor's element count and dtype
   * @param stream default: the device's current stream
   * @returns this tensor
   * @throws {TypeError} for another array type, another length, or a tensor that is not contiguous
   */
  write(values: ArrayOf<D>, stream: Stream = this.device.currentStream): this {
    this.checkOpen();
    if (!this.contiguous)
      throw typeError('write needs a contiguous tensor; write to the storage it is a view of');
    const { array } = dtypes[this.dtype];
    if (!(values instanceof array) || values.length !== this.size)
      throw typeError(
        `write takes a ${array.name} of ${this.size} elements (${this.dtype}), got ${describeValue(values)}`,
      );
    // The buffer of an empty array may be detached, and a Uint8Array over it would throw.
    const { buffer, byteOffset, byteLength } = values;
    const bytes =
      byteLength === 0 ? new Uint8Array() : new Uint8Array(buffer, byteOffset, byteLength);
    if (this.size > 0) this.storage.write(this.byteOffset, bytes, stream);
    return this;
  }

  /**
   * Copies the elements to the host after all work enqueued on `stream` so far.
   *
   * @param stream default: the device's current stream
   * @returns a row-major copy
   * @throws {DeviceError} if the stream has failed
   */
  async toArray(stream: Stream = this.device.currentStream): Promise<ArrayOf<D>> {
    this.checkOpen();
    const out = arrayOf(this.dtype, this.size);
    if (this.size === 0) return out;
    const bytes = await this.storage.read(this.byteOffset, this.spanBytes, stream);
    const source = new dtypes[this.dtype].array(
      bytes.buffer as ArrayBuffer,
      bytes.byteOffset,
      this.spanBytes / dtypes[this.dtype].bytes,
    ) as Float32Array;
    if (this.contiguous) (out as Float32Array).set(source);
    else gatherStrided(source, out as Float32Array, this.shape, this.strides);
    return out;
  }

  checkOpen(): void {
    if (this.storage.closed) throw closedError(`this ${this.shape.join('×')} tensor's memory`);
  }

  /** Closes the tensor. The memory is freed once no enqueued work uses it. Idempotent. */
  close(): void {
    this.storage.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
