/**
 * The functions of device.node, as TypeScript sees them: for this folder, for what is built on
 * devices and for the actors. Handles are process-wide numbers.
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

/** How many arguments of each kind a kernel takes; `writes`: bit i for tensor i. */
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
 * Kernels that a program brings, as native/device/core/kernel_module.hpp has them; `codes`: their
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
  /** what the source may include */
  headers: readonly { name: string; text: string }[];
}

/** Devices: opening them, and what they say of themselves. */
export const nativeDevices = addonOf<{
  listDevices(): DeviceInfo[];
  openDevice(name: string): { handle: number; family: DeviceFamily; index: number; stream: number };
  /** What belongs to the device goes when no thread has it open any more. */
  closeDevice(device: number): void;
  deviceTraits(device: number): DeviceTraits;
  memoryInfo(device: number): MemoryInfo;
  /** Whether a copy between the two is one operation on either's streams. */
  reaches(device: number, other: number): boolean;
  /** Whether streams of one can wait for events of the other. */
  orders(device: number, other: number): boolean;
  /**
   * Declares that the calling thread runs this library's code alone until it ends: the driver is
   * not asked for its context and mode.
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
   * True when it was open. Sleeps for up to `ms` while other threads have it pinned, then throws
   * ERR_HOTSLOT_STATE_BUSY. With 0, the default, this returns at once: the handle is stale, and the
   * last thread that unpins it frees the object.
   */
  close(handle: number, ms?: number): boolean;
  handleCount(kind: number): { open: number; pinned: number };
  /** What drivers would not take back since the last call, in words. */
  releaseFailures(): string[];
}>('device', 'handles');

/** A device's memory and the host's, and values written and read. */
export const nativeMemory = addonOf<{
  allocate(device: number, bytes: number): number;
  /** As allocate, with whatever is in it; allowed in a capture. */
  scratch(device: number, bytes: number): number;
  address(memory: number): number;
  /**
   * Without `pin` the driver uses the memory as it is. Sleeps for up to `ms` while the driver still
   * has a closed registration of other bytes in the same pages.
   */
  registerHost(device: number, view: TypedArray, pin: boolean, ms: number): number;
  /** pinned memory of the driver's own */
  allocateHost(device: number, bytes: number): number;
  /** How the driver reaches a registered memory: an index into hostKinds. */
  hostKind(memory: number): number;
  write(stream: number, memory: number, offset: number, bytes: Uint8Array): void;
  read(stream: number, memory: number, offset: number, bytes: number): number;
  copyOut(staging: number, to: Uint8Array, from?: number): boolean;
}>('device', 'memory');

/** Managed memory, and the probe of it that a process runs once. */
export const nativeManaged = addonOf<{
  allocateManaged(device: number, bytes: number): number;
  /**
   * Throws unless `device` is the index of one of the family's devices, or −1, the CPU, where
   * `least` is that.
   */
  checkLocation(family: string, device: number, least: -1 | 0): void;
  prefetch(stream: number, memory: number, offset: number, bytes: number, device: number): void;
  /** advice: 0 preferred location, 1 accessed by */
  advise(memory: number, offset: number, bytes: number, advice: 0 | 1, device: number): void;
  residency(memory: number, offset: number, bytes: number): Residency;
  /**
   * 'mine': this thread has it from now on; 'here': it has it already; 'running': another has it;
   * else the outcome.
   */
  claimProbe(): string;
  /** By the thread that has claimed it; answers, see `answered`. */
  publishProbe(outcome: string): boolean;
  /** Empty while it is not known. */
  probeOutcome(): string;
}>('device', 'managed');

/** Streams, and what is enqueued on them. */
export const nativeStreams = addonOf<{
  createStream(device: number, priority: number): number;
  /** These two answer, see `answered`: actors hand on what they enqueued. */
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
   * The capture stream's handle: this thread alone has it, and the pool (0: none), until
   * leaveCapture. 0: another has it still.
   */
  enterCapture(device: number, pool: number, ms: number): number;
  leaveCapture(device: number): void;
  beginCapture(stream: number): void;
  endCapture(stream: number): number;
  capturing(stream: number): boolean;
  /**
   * Whether the calling thread has a capture open, on whatever stream: asking for what is done
   * would break it.
   */
  threadCaptures(): boolean;
  instantiate(graph: number): number;
  /** True: taken in place, false: made anew. */
  update(exec: number, graph: number): boolean;
  nodeCount(graph: number): number;
  replay(stream: number, exec: number): void;
}>('device', 'graphs');

/** Memory that captures share. */
export const nativePools = addonOf<{
  createGraphPool(device: number): number;
  graphPoolBytes(pool: number): number;
  /** A block's handle, which is the pool's, and the offset in it. */
  poolAllocate(pool: number, bytes: number): [handle: number, offset: number];
}>('device', 'pools');

/** What belongs to a device, and what its threads share of it. */
export const nativeShared = addonOf<{
  /** A stream's handle, the same in every thread: what belongs to the device. */
  sharedCaptureStream(device: number): number;
  sharedGraphPool(device: number): number;
  transferStream(source: number, target: number): number;
  /** One of these failed: the next call that asks for it gets another. */
  dropBelonging(device: number, stream: number): void;
  /** A stream of the device's pool: this thread's alone until it gives it back, or ends. */
  lendStream(device: number): number;
  takeBackStream(device: number, stream: number): void;
  /**
   * Device memory that holds these bytes for good, the same one for every call with equal bytes;
   * the handle is the caller's.
   */
  deviceTable(device: number, bytes: BigInt64Array): number;
  /**
   * Of memory that is used again, pooled streams and tables, since the process opened the device.
   */
  caches(device: number): Record<'buffers' | 'streams' | 'tables', CacheCounts>;
}>('device', 'shared');

/** Kernels, launches of them, and those that a program brings. */
export const nativeKernels = addonOf<{
  readonly gemmProvider: string;
  kernels(): NativeKernel[];
  /**
   * Per tensor: bytes that such a launch touches from its start, and bytes from row to row, 0 for
   * one run.
   */
  kernelReach(kernel: string, numbers: Float64Array, wholes: number, reals: number): number[];
  /** numbers: see launch.ts; then how many tensors, whole numbers and reals are in it */
  launch(
    stream: number,
    kernel: string,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
  ): void;
  /** Of a module that a program brought: `index` is the kernel in it. */
  launchBrought(
    stream: number,
    module: number,
    numbers: Float64Array,
    tensors: number,
    wholes: number,
    reals: number,
    index: number,
  ): void;
  /** The module that was loaded under this key, or 0. */
  loadedKernels(device: number, key: string): number;
  loadKernels(device: number, key: string, request: NativeModule): Promise<number>;
}>('device', 'kernels');

/** Strided copies between arrays and a buffer. */
export const nativeHalos = addonOf<{
  /**
   * words of 64 bits and dimensions that a move has at most, arrays of a launch, and a move's flags
   */
  readonly layout: Readonly<Record<'words' | 'maxRank' | 'arrays' | 'unpacks' | 'negates', number>>;
  /**
   * A halo kernel, after all that the stream `after` (0: none) was given; `spans` are handle,
   * offset and bytes of the buffer, the table and the arrays. For moves into arrays, the table and
   * what each move writes follow the whole numbers, see native/device/addon/halo.cpp; a move that
   * writes an element of an earlier one is a launch after it.
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
   * Whether moves `a` and `b` of a table write one element of an array; of one move: whether it
   * writes one twice.
   */
  haloMeets(table: BigInt64Array, a: number, b: number): boolean;
  /**
   * Strided copies in the calling thread, as native/kernels/halo.hpp has them; answers, see
   * `answered`.
   */
  moveHalo(
    table: BigInt64Array,
    itemsize: number,
    buffer: TypedArray,
    arrays: readonly TypedArray[],
  ): boolean;
}>('device', 'halos');
