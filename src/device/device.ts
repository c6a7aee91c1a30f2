/**
 * The device contract: the interface of every family, with the same names and order as
 * native/device/core/device.hpp. Streams, events and graphs are the device's own, never Node's.
 * Enqueueing returns at once, and no call blocks the main thread.
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
import { gatherStrided, rowMajor } from './strides.ts';

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
 * A point in a stream. An event that was never recorded counts as done. If it is recorded several
 * times, only the latest record counts.
 */
export interface DeviceEvent extends Disposable {
  readonly handle: number;
  readonly timing: boolean;
  /**
   * Returns true if the latest record is done. Throws DeviceError if its stream failed or it
   * belongs to a capture.
   */
  query(): boolean;
  /** Returns milliseconds from `start` to this event. Both need `timing: true` and must be done. */
  elapsedMs(start: DeviceEvent): number;
  /**
   * Resolves when the event is done. Rejects with DeviceError if the stream failed, or with the
   * signal's reason.
   */
  done(options?: { signal?: AbortSignal }): Promise<void>;
  close(): void;
}

/** Captured work, not yet ready to replay. */
export interface Graph extends Disposable {
  readonly handle: number;
  readonly nodeCount: number;
  instantiate(): GraphExec;
  close(): void;
}

/** An instantiated graph: replay it on a stream any number of times. */
export interface GraphExec extends Disposable {
  readonly handle: number;
  /**
   * Makes later replays run `graph`, while replays enqueued before keep their own. Returns true if
   * the driver made the change in place (the same operations, other arguments), or false if the
   * exec had to be made anew, which costs more.
   */
  update(graph: Graph): boolean;
  close(): void;
}

/**
 * An ordered queue of device work. An error on it is sticky and surfaces at the next record, query
 * or launch.
 */
export interface Stream extends Disposable {
  readonly handle: number;
  readonly device: Device;
  readonly priority: number;
  readonly closed: boolean;
  /**
   * Records the event. In a capture a record only marks a place, at which other streams can join.
   * With `external` it becomes an operation of the graph: each replay records the event anew, and
   * code outside of the graph can query it and measure with it.
   */
  record(event: DeviceEvent, options?: { external?: boolean }): void;
  /**
   * Makes work enqueued from now on wait for the event's latest record. If the event's stream
   * failed, this stream fails with it, or with `orderOnly` only waits until that work is over.
   */
  wait(event: DeviceEvent, options?: { orderOnly?: boolean }): void;
  /**
   * Copies bytes between host and device, within a device, or between peers. Both tensors must be
   * contiguous and equal in bytes.
   */
  copy(to: Tensor, from: Tensor): void;
  /**
   * Sets every element to `value`, a number of the tensor's dtype: rounded for float16 and
   * bfloat16, 0 or 1 for bool.
   */
  fill(to: Tensor, value: number | bigint): void;
  /**
   * Launches a kernel by name. docs/reference/kernels.md lists the kernels. Counts, dtypes, sizes
   * and strides are checked before the launch.
   */
  launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  /** Launches a kernel of device.loadKernels(), on a stream of the device it was loaded on. */
  launch(kernel: LoadedKernel, args: LoadedArguments): void;
  /** Enqueues one replay of a graph. */
  replay(exec: GraphExec): void;
  /**
   * Moves the pages of a tensor in managed memory to a device of its family, or to the CPU (−1), in
   * stream order. Throws inside a capture: the address never changes, so a graph finds the pages
   * wherever they are.
   */
  prefetch(tensor: Tensor, device: number): void;
  /** Returns true if everything enqueued so far is done. */
  query(): boolean;
  /** Resolves when everything enqueued so far is done, or rejects with the signal's reason. */
  synchronize(options?: { signal?: AbortSignal }): Promise<void>;
  beginCapture(): void;
  endCapture(): Graph;
  readonly capturing: boolean;
  close(): void;
}

/** Host memory registered with a device in place, and pinned if the family pins. */
export interface HostMemory extends Disposable {
  readonly handle: number;
  readonly bytes: number;
  /**
   * how the driver reaches it: pinned in place, imported in place, or through the driver's own
   * copies
   */
  readonly kind: HostKind;
  /** Returns a tensor over a part of it, for copies. */
  tensor<D extends DType>(options: {
    shape: readonly number[];
    dtype: D;
    byteOffset?: number;
  }): Tensor<D>;
  close(): void;
}

/**
 * One opened accelerator. Handles are process-wide: any thread can open the same device and use
 * them.
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
   * Allocates device memory of this shape. Throws (ERR_HOTSLOT_MEMORY) naming the requested and the
   * free bytes. The memory is zeroed unless `zeroed` is false: then it is memory that this device
   * had before, with any content, and costs next to nothing.
   */
  allocate<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
    zeroed?: boolean;
  }): Tensor<D>;
  /**
   * Allocates zeroed managed memory: one address for the CPU and every device of the family,
   * between which its pages move. Preferred location and accessed-by are this device. Throws
   * (ERR_HOTSLOT_UNAVAILABLE) if the device has none, and traits.noManaged has the reason.
   */
  allocateManaged<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
  }): Tensor<D>;
  advise(tensor: Tensor, advice: Advice): void;
  residency(tensor: Tensor): Residency;
  /**
   * Registers the bytes of `view`, on a SharedArrayBuffer, with the device, pinned in place. The
   * view stays referenced until the device is done with them after close(). Throws a TypeError for
   * memory that is not shared, and DeviceError if the driver cannot pin them. A closed registration
   * of the same bytes that is still in use is used again. A worker thread waits up to 2 s for a
   * closed registration of other bytes in the same pages, while the main thread throws the driver's
   * error at once. With `pin: false` the bytes are not pinned, and copies take longer.
   */
  registerHost(view: TypedArray, options?: { pin?: boolean }): HostMemory;
  /**
   * Loads your own kernels, by name: docs/how-to/custom-kernel.md. Compiling may take seconds, and
   * is done once. Throws ERR_HOTSLOT_COMPILE with the compiler's output, and
   * ERR_HOTSLOT_UNAVAILABLE if this machine can neither make nor load an image. Throws a TypeError
   * for an image of another family or with other parameters than declared. The kernels are freed
   * with the device.
   */
  loadKernels<K extends string>(options: KernelsToLoad<K>): Promise<Record<K, LoadedKernel>>;
  /** The device's default compute stream: one per process. */
  readonly defaultStream: Stream;
  /** This thread's current stream on this device, at first the default one. */
  readonly currentStream: Stream;
  withStream<T>(stream: Stream, fn: () => T): T;
  readonly closed: boolean;
  close(): void;
}

/** The owner of the bytes, closed once and shared by every view of them. */
export interface Storage {
  readonly handle: number;
  readonly device: Device;
  readonly bytes: number;
  readonly host: boolean;
  /** pages that move: see Stream.prefetch */
  readonly managed: boolean;
  readonly closed: boolean;
  close(): void;
  /** Copies bytes out and in, in the device's stream order, and never blocks the main thread. */
  read(byteOffset: number, bytes: number, stream: Stream): Promise<Uint8Array>;
  write(byteOffset: number, bytes: Uint8Array, stream: Stream): void;
}

/**
 * A strided view of device memory, or of registered host memory: shape, dtype and strides over one
 * handle.
 * @example
 * const x = device.allocate({ shape: [2, 3] }).write(new Float32Array(6).fill(1));
 * console.log(await x.toArray());
 * x.close();
 */
export class Tensor<D extends DType = DType> implements Disposable {
  readonly storage: Storage;
  readonly shape: readonly number[];
  /** elements from one index to the next of each dimension */
  readonly strides: readonly number[];
  readonly dtype: D;
  /** bytes from the start of the storage */
  readonly byteOffset: number;
  /** elements */
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
  /** Bytes of the elements themselves. */
  get bytes(): number {
    return this.size * dtypes[this.dtype].bytes;
  }
  /** Bytes from the first element to the end of the last: more than `bytes` when strided. */
  get spanBytes(): number {
    if (this.size === 0) return 0;
    const last = this.shape.reduce((n, d, i) => n + (d - 1) * (this.strides[i] as number), 0);
    return (last + 1) * dtypes[this.dtype].bytes;
  }
  get contiguous(): boolean {
    const dense = rowMajor(this.shape);
    return this.shape.every((d, i) => d === 1 || this.strides[i] === dense[i]);
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
    // An empty array may have no memory either, if its buffer was transferred.
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
