/**
 * The functions of device.node, as TypeScript types. This directory, modules built on devices, and
 * actors use them. A handle is a number that is valid in the whole process.
 */
import { addonOf } from '../base/addon.ts';
import type { TypedArray } from '../base/dtype.ts';
import type {
  CacheCounts,
  DeviceFamily,
  DeviceInfo,
  DeviceTraits,
  MemoryInfo,
  Products,
  Residency,
} from './facts.ts';

/** A kernel's name, and how many arguments of each kind it has. */
interface NativeKernel {
  name: string;
  tensors: number;
  wholes: number;
  reals: number;
  /** bit i is set if the kernel writes tensor i */
  writes: number;
  /** bit i is set if tensor i may be the same tensor as tensor 0 */
  inPlace: number;
}

/**
 * Kernels that a program supplies, in the form of native/device/core/kernel_module.hpp. `codes` are
 * the dtype codes of a kernel's tensors.
 */
interface NativeModule {
  name: string;
  kernels: readonly {
    name: string;
    codes: readonly number[];
    wholes: number;
    reals: number;
    outputsPerBlock: number;
  }[];
  /** each `image` is its bytes, or the path of a shared library */
  images: readonly { name: string; image: string | Uint8Array }[];
  file: string;
  source: string;
  /** headers that the source may include */
  headers: readonly { name: string; text: string }[];
}

/** Opens devices and reads facts about them. */
export const nativeDevices = addonOf<{
  listDevices(): DeviceInfo[];
  openDevice(
    name: string,
    products?: Products,
  ): { handle: number; family: DeviceFamily; index: number; stream: number };
  /**
   * Counts one closing of the device. When no thread has it open any more, the objects that belong
   * to it are freed.
   */
  closeDevice(device: number): void;
  deviceTraits(device: number): DeviceTraits;
  memoryInfo(device: number): MemoryInfo;
  /**
   * Returns whether a copy between the two devices is one operation, on a stream of either device.
   */
  reaches(device: number, other: number): boolean;
  /** Returns whether streams of either device can wait for events of the other one. */
  orders(device: number, other: number): boolean;
  /**
   * Declares that the calling thread runs only this library's code until it ends. Hotslot then does
   * not query the driver for the thread's context and mode.
   */
  ownThread(): void;
}>('device', 'devices');

/** Closes and counts handles of every kind. */
export const nativeHandles = addonOf<{
  /** the number of each kind of object */
  readonly kinds: Readonly<
    Record<'device' | 'memory' | 'event' | 'stream' | 'graph' | 'exec' | 'pool' | 'kernels', number>
  >;
  /**
   * Closes a handle, and returns true if it was open. If other threads have the object pinned, the
   * call sleeps for up to `ms`, then throws ERR_HOTSLOT_STATE_BUSY. If `ms` is 0, the default, the
   * call makes the handle stale and returns at once. The last thread that unpins the object then
   * frees it.
   */
  close(handle: number, ms?: number): boolean;
  handleCount(kind: number): { open: number; pinned: number };
  /** Returns a text for each object that a driver failed to free since the last call. */
  releaseFailures(): string[];
}>('device', 'handles');

/** Allocates memory of a device and of the host, and reads and writes its values. */
export const nativeMemory = addonOf<{
  allocate(device: number, bytes: number): number;
  /** Allocates memory without zeroing it, which is allowed in a capture. */
  scratch(device: number, bytes: number): number;
  address(memory: number): number;
  /**
   * Registers host memory. Without `pin` the driver uses the memory as it is. The call sleeps for
   * up to `ms` while the driver still has a closed registration of other bytes in the same pages.
   */
  registerHost(device: number, view: TypedArray, pin: boolean, ms: number): number;
  /** Allocates pinned host memory of the driver. */
  allocateHost(device: number, bytes: number): number;
  /** Returns how the driver reaches registered memory, as an index into hostKinds. */
  hostKind(memory: number): number;
  write(stream: number, memory: number, offset: number, bytes: Uint8Array): void;
  read(stream: number, memory: number, offset: number, bytes: number): number;
  copyOut(staging: number, to: Uint8Array, from?: number): boolean;
}>('device', 'memory');

/** Managed memory, and the probe that tests it once per process. */
export const nativeManaged = addonOf<{
  allocateManaged(device: number, bytes: number): number;
  /**
   * Throws unless `device` is the index of one of the family's devices. If `least` is −1, `device`
   * may also be −1 for the CPU.
   */
  checkLocation(family: string, device: number, least: -1 | 0): void;
  prefetch(stream: number, memory: number, offset: number, bytes: number, device: number): void;
  /** advice: 0 preferred location, 1 accessed by */
  advise(memory: number, offset: number, bytes: number, advice: 0 | 1, device: number): void;
  residency(memory: number, offset: number, bytes: number): Residency;
  /**
   * Claims the probe for this thread. Returns 'mine' if this call claimed it, 'here' if this thread
   * has claimed it already, or 'running' if another thread has. If the probe is over, returns its
   * outcome.
   */
  claimProbe(): string;
  /**
   * Publishes the probe's outcome, in the thread that has claimed the probe. Pass the result to
   * `answered`.
   */
  publishProbe(outcome: string): boolean;
  /** Returns the probe's outcome, or an empty string while it is unknown. */
  probeOutcome(): string;
}>('device', 'managed');

/** Streams, and work enqueued on them. */
export const nativeStreams = addonOf<{
  createStream(device: number, priority: number): number;
  /**
   * record() and copy() return true after they have enqueued the work. While the thread is being
   * terminated, they enqueue nothing and return undefined. An actor passes the result to `answered`
   * before it hands a slot on, so it never publishes work that was not enqueued.
   */
  record(stream: number, event: number, external?: boolean): true;
  wait(stream: number, event: number, orderOnly?: boolean): void;
  copy(
    stream: number,
    to: number,
    toOffset: number,
    from: number,
    fromOffset: number,
    bytes: number,
  ): true;
  fill(stream: number, to: number, offset: number, bytes: number, pattern: TypedArray): void;
  /**
   * Opens the guard of this thread on the stream, until closeGuard(). `offset` is the word's offset
   * in its memory, in bytes.
   */
  openGuard(stream: number, word: number, offset: number, every: number): void;
  /** Closes the guard of this thread if one is open. */
  closeGuard(): void;
  streamQuery(stream: number): boolean;
}>('device', 'streams');

/** Events, and functions that wait for them. */
export const nativeEvents = addonOf<{
  createEvent(device: number, timing: boolean): number;
  eventQuery(event: number): boolean;
  elapsedMs(start: number, end: number): number;
  waitEvent(device: number, event: number, ms: number): boolean;
  waitEventAsync(device: number, event: number): Promise<boolean>;
}>('device', 'events');

/** Captures and their graphs. */
export const nativeGraphs = addonOf<{
  /**
   * Returns the handle of the capture stream, or 0 if another thread still has it after `ms`. The
   * stream, together with the pool (0: no pool), then belongs to this thread until leaveCapture().
   */
  enterCapture(device: number, pool: number, ms: number): number;
  leaveCapture(device: number): void;
  beginCapture(stream: number): void;
  endCapture(stream: number): number;
  capturing(stream: number): boolean;
  /**
   * Returns whether the calling thread has a capture open, on any stream. A query of completed work
   * would break that capture.
   */
  threadCaptures(): boolean;
  instantiate(graph: number): number;
  /** Returns true if the exec was changed in place, and false if it was recreated. */
  update(exec: number, graph: number): boolean;
  nodeCount(graph: number): number;
  replay(stream: number, exec: number): void;
}>('device', 'graphs');

/** Memory that captures share. */
export const nativePools = addonOf<{
  createGraphPool(device: number): number;
  graphPoolBytes(pool: number): number;
  /**
   * Allocates memory from the pool. Returns the handle of a block, which the pool owns, and the
   * offset in the block.
   */
  poolAllocate(pool: number, bytes: number): [handle: number, offset: number];
}>('device', 'pools');

/** Objects that belong to a device, and that all threads share. */
export const nativeShared = addonOf<{
  /**
   * Returns the handle of a stream. It is the same in every thread, because the device owns the
   * stream.
   */
  sharedCaptureStream(device: number): number;
  sharedGraphPool(device: number): number;
  transferStream(source: number, target: number): number;
  /** Drops a stream of the device that failed. The next thread that requests it gets a new one. */
  dropBelonging(device: number, stream: number): void;
  /**
   * Returns a stream of the device's pool. It belongs to this thread until takeBackStream() or the
   * thread's end.
   */
  lendStream(device: number): number;
  takeBackStream(device: number, stream: number): void;
  /**
   * Returns a handle of read-only device memory that contains these bytes. Calls with equal bytes
   * share the memory. The caller owns the handle.
   */
  deviceTable(device: number, bytes: BigInt64Array): number;
  /**
   * Returns the counts of reused memory, pooled streams and tables since the process opened the
   * device.
   */
  caches(device: number): Record<'buffers' | 'streams' | 'tables', CacheCounts>;
}>('device', 'shared');

/**
 * The products that a device computes with its own kernel although it has a vendor's library.
 * native/device/core/product_limits.hpp has the numbers.
 */
export interface ProductLimits {
  /** largest number of multiply-adds of one product */
  readonly multiplyAdds: number;
  /** largest number of terms of a sum */
  readonly terms: number;
}

/** Kernels, their launches, and kernels that a program supplies. */
export const nativeKernels = addonOf<{
  readonly gemmProvider: string;
  /** limits of the products that a device computes with its own kernel, by family */
  readonly productLimits: Readonly<Record<string, ProductLimits>>;
  kernels(): NativeKernel[];
  /**
   * Returns two numbers per tensor for a launch with these whole numbers and reals. The first is
   * the bytes that the launch touches from the tensor's start. The second is the bytes from row to
   * row, or 0 if all bytes are one run.
   */
  kernelReach(kernel: string, numbers: Float64Array, wholes: number, reals: number): number[];
  /**
   * Launches a kernel. `numbers` is the array of launch.ts. The last three parameters are the
   * counts of its tensors, whole numbers and reals.
   */
  launch(
    stream: number,
    kernel: string,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
  ): void;
  /**
   * Launches a kernel of a module that a program supplied. `index` is the kernel's index in the
   * module.
   */
  launchBrought(
    stream: number,
    module: number,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
    index: number,
  ): void;
  /** Returns the handle of the module that was loaded under this key, or 0 if it is missing. */
  loadedKernels(device: number, key: string): number;
  loadKernels(device: number, key: string, request: NativeModule): Promise<number>;
}>('device', 'kernels');

/** Strided copies between arrays and a buffer. */
export const nativeHalos = addonOf<{
  /**
   * words and maxRank: number of 64-bit words and maximum number of dimensions of a move. arrays:
   * maximum number of arrays of a launch. unpacks and negates: flags of a move
   */
  readonly layout: Readonly<Record<'words' | 'maxRank' | 'arrays' | 'unpacks' | 'negates', number>>;
  /**
   * Launches a halo kernel after all work enqueued on the stream `after` (0: none). `spans` has the
   * handle, offset and bytes of the buffer, the table and the arrays. For moves into arrays,
   * `wholes` also has the table and the elements that each move writes (see
   * native/device/addon/halo.cpp). A move that writes the same element as an earlier move in the
   * table runs in a later launch, so that the later move wins.
   */
  launchHalo(
    stream: number,
    after: number,
    event: number,
    itemsize: number,
    spans: Float64Array,
    wholes: Float64Array,
  ): void;
  /**
   * Returns whether moves `a` and `b` of a table write the same element of an array. If `a` equals
   * `b`, returns whether that move writes an element twice.
   */
  haloMeets(table: BigInt64Array, a: number, b: number): boolean;
  /**
   * Makes strided copies in the calling thread, as native/kernels/halo.hpp defines them. Pass the
   * result to `answered`.
   */
  moveHalo(
    table: BigInt64Array,
    itemsize: number,
    buffer: TypedArray,
    arrays: readonly TypedArray[],
  ): boolean;
}>('device', 'halos');
