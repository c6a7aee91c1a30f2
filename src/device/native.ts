/**
 * The functions of device.node, as TypeScript sees them: for this directory, for modules built on
 * devices, and for the actors. Handles are process-wide numbers.
 */
import { addonOf } from '../base/addon.ts';
import type { TypedArray } from '../base/dtype.ts';
import type {
  CacheCounts,
  DeviceFamily,
  DeviceInfo,
  DeviceTraits,
  MemoryInfo,
  Residency,
} from './facts.ts';

/** Counts of a kernel's arguments of each kind. */
interface NativeKernel {
  name: string;
  tensors: number;
  wholes: number;
  reals: number;
  /** bit i: tensor i is written */
  writes: number;
  /** bit i: tensor i may be tensor 0 */
  inPlace: number;
}

/**
 * Kernels that a program supplies, as native/device/core/kernel_module.hpp has them. `codes`: their
 * tensors' dtypes.
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
  /** bytes, or the path of a shared library */
  images: readonly { name: string; image: string | Uint8Array }[];
  file: string;
  source: string;
  /** headers that the source may include */
  headers: readonly { name: string; text: string }[];
}

/** Devices: opening them, and their facts. */
export const nativeDevices = addonOf<{
  listDevices(): DeviceInfo[];
  openDevice(name: string): { handle: number; family: DeviceFamily; index: number; stream: number };
  /** Frees the device's own objects when no thread has the device open any more. */
  closeDevice(device: number): void;
  deviceTraits(device: number): DeviceTraits;
  memoryInfo(device: number): MemoryInfo;
  /** Returns whether a copy between the two is one operation on either's streams. */
  reaches(device: number, other: number): boolean;
  /** Returns whether streams of one can wait for events of the other. */
  orders(device: number, other: number): boolean;
  /**
   * Declares that the calling thread runs only this library's code until it ends, so the driver is
   * not queried for its context and mode.
   */
  ownThread(): void;
}>('device', 'devices');

/** Handles of every kind. */
export const nativeHandles = addonOf<{
  /** by name */
  readonly kinds: Readonly<
    Record<'device' | 'memory' | 'event' | 'stream' | 'graph' | 'exec' | 'pool' | 'kernels', number>
  >;
  /**
   * Returns true if it was open. Sleeps for up to `ms` while other threads have it pinned, then
   * throws ERR_HOTSLOT_STATE_BUSY. With 0, the default, this returns at once: the handle is stale,
   * and the last thread that unpins it frees the object.
   */
  close(handle: number, ms?: number): boolean;
  handleCount(kind: number): { open: number; pinned: number };
  /** Returns texts of the objects that drivers failed to free since the last call. */
  releaseFailures(): string[];
}>('device', 'handles');

/** Memory of a device and of the host, and values written and read. */
export const nativeMemory = addonOf<{
  allocate(device: number, bytes: number): number;
  /** Allocates without zeroing, which is allowed in a capture. */
  scratch(device: number, bytes: number): number;
  address(memory: number): number;
  /**
   * Without `pin` the driver uses the memory as it is. Sleeps for up to `ms` while the driver still
   * has a closed registration of other bytes in the same pages.
   */
  registerHost(device: number, view: TypedArray, pin: boolean, ms: number): number;
  /** Allocates pinned memory of the driver. */
  allocateHost(device: number, bytes: number): number;
  /** Returns how the driver reaches a registered memory: an index into hostKinds. */
  hostKind(memory: number): number;
  write(stream: number, memory: number, offset: number, bytes: Uint8Array): void;
  read(stream: number, memory: number, offset: number, bytes: number): number;
  copyOut(staging: number, to: Uint8Array, from?: number): boolean;
}>('device', 'memory');

/** Managed memory, and the probe of it that a process runs once. */
export const nativeManaged = addonOf<{
  allocateManaged(device: number, bytes: number): number;
  /**
   * Throws unless `device` is the index of one of the family's devices, or −1, the CPU, if `least`
   * is −1.
   */
  checkLocation(family: string, device: number, least: -1 | 0): void;
  prefetch(stream: number, memory: number, offset: number, bytes: number, device: number): void;
  /** advice: 0 preferred location, 1 accessed by */
  advise(memory: number, offset: number, bytes: number, advice: 0 | 1, device: number): void;
  residency(memory: number, offset: number, bytes: number): Residency;
  /**
   * Returns 'mine' if this thread has the probe from now on, 'here' if it has it already, 'running'
   * if another thread has it, else the outcome.
   */
  claimProbe(): string;
  /**
   * Publishes the outcome, by the thread that has claimed the probe. Pass the result to `answered`.
   */
  publishProbe(outcome: string): boolean;
  /** Returns the outcome, or an empty text while it is unknown. */
  probeOutcome(): string;
}>('device', 'managed');

/** Streams, and work enqueued on them. */
export const nativeStreams = addonOf<{
  createStream(device: number, priority: number): number;
  /**
   * record() and copy() return an answer for `answered`, because actors hand on the work that they
   * enqueued.
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
  streamQuery(stream: number): boolean;
}>('device', 'streams');

/** Events, and waiting for them. */
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
   * Returns the capture stream's handle, which only this thread has, with the pool (0: none), until
   * leaveCapture. Returns 0 while another thread has it.
   */
  enterCapture(device: number, pool: number, ms: number): number;
  leaveCapture(device: number): void;
  beginCapture(stream: number): void;
  endCapture(stream: number): number;
  capturing(stream: number): boolean;
  /**
   * Returns whether the calling thread has a capture open, on any stream: a query of completed work
   * would break it.
   */
  threadCaptures(): boolean;
  instantiate(graph: number): number;
  /** Returns true if the exec was changed in place, false if it was made anew. */
  update(exec: number, graph: number): boolean;
  nodeCount(graph: number): number;
  replay(stream: number, exec: number): void;
}>('device', 'graphs');

/** Memory that captures share. */
export const nativePools = addonOf<{
  createGraphPool(device: number): number;
  graphPoolBytes(pool: number): number;
  /** Returns the handle of a block, which the pool owns, and the offset in it. */
  poolAllocate(pool: number, bytes: number): [handle: number, offset: number];
}>('device', 'pools');

/** Objects that belong to a device, and that its threads share. */
export const nativeShared = addonOf<{
  /** Returns a stream's handle, the same in every thread, because the device owns it. */
  sharedCaptureStream(device: number): number;
  sharedGraphPool(device: number): number;
  transferStream(source: number, target: number): number;
  /** Drops one of these that failed, so that the next call for it returns another. */
  dropBelonging(device: number, stream: number): void;
  /**
   * Returns a stream of the device's pool, which only this thread has until it gives the stream
   * back, or ends.
   */
  lendStream(device: number): number;
  takeBackStream(device: number, stream: number): void;
  /**
   * Returns device memory that holds these bytes permanently, the same for every call with equal
   * bytes. The caller owns the handle.
   */
  deviceTable(device: number, bytes: BigInt64Array): number;
  /**
   * Returns counts of reused memory, pooled streams and tables, since the process opened the
   * device.
   */
  caches(device: number): Record<'buffers' | 'streams' | 'tables', CacheCounts>;
}>('device', 'shared');

/** Kernels, their launches, and kernels that a program supplies. */
export const nativeKernels = addonOf<{
  readonly gemmProvider: string;
  kernels(): NativeKernel[];
  /**
   * Returns per tensor the bytes that such a launch touches from its start, and the bytes from row
   * to row, 0 for one run.
   */
  kernelReach(kernel: string, numbers: Float64Array, wholes: number, reals: number): number[];
  /**
   * Launches a kernel. `numbers`: see launch.ts, followed by the counts of its tensors, whole
   * numbers and reals.
   */
  launch(
    stream: number,
    kernel: string,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
  ): void;
  /** Launches a kernel of a module that a program supplied: `index` is the kernel in it. */
  launchBrought(
    stream: number,
    module: number,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
    index: number,
  ): void;
  /** Returns the module that was loaded under this key, or 0. */
  loadedKernels(device: number, key: string): number;
  loadKernels(device: number, key: string, request: NativeModule): Promise<number>;
}>('device', 'kernels');

/** Strided copies between arrays and a buffer. */
export const nativeHalos = addonOf<{
  /** most words of 64 bits and dimensions of a move, most arrays of a launch, and a move's flags */
  readonly layout: Readonly<Record<'words' | 'maxRank' | 'arrays' | 'unpacks' | 'negates', number>>;
  /**
   * Launches a halo kernel after all work enqueued on the stream `after` (0: none). `spans` are
   * handle, offset and bytes of the buffer, the table and the arrays. For moves into arrays, the
   * table and what each move writes follow the whole numbers, see native/device/addon/halo.cpp. A
   * move that writes an element of an earlier one is a launch after it.
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
   * Returns whether moves `a` and `b` of a table write the same element of an array. For one move
   * it returns whether that writes an element twice.
   */
  haloMeets(table: BigInt64Array, a: number, b: number): boolean;
  /**
   * Makes strided copies in the calling thread, as native/kernels/halo.hpp has them. Pass the
   * result to `answered`.
   */
  moveHalo(
    table: BigInt64Array,
    itemsize: number,
    buffer: TypedArray,
    arrays: readonly TypedArray[],
  ): boolean;
}>('device', 'halos');
