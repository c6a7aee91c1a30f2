/**
 * The device contract: what every family offers, with the same names and order as native/device/device.hpp. Streams,
 * events and graphs are the device's own, never Node's. Enqueueing returns at once; nothing here blocks the main thread.
 */
import type { DType, TypedArray } from '../dtype.ts';
import type { DeviceTraits, HostKind } from './native.ts';
import type { Tensor } from './tensor.ts';

export type DeviceFamily = 'cuda' | 'rocm' | 'xpu' | 'host';

export interface DeviceInfo {
  /** 'host:0', 'cuda:0', …; the family's name alone where no device could be counted */
  name: string;
  family: DeviceFamily;
  available: boolean;
  /** why it is not available, and what would help */
  reason?: string;
  /** what the device calls itself */
  description?: string;
}

export interface MemoryInfo {
  /** bytes */
  total: number;
  /** bytes that an allocation can count on now */
  free: number;
}

/** What is known of managed pages: one answer for all of a tensor's, or −2 where they differ or nobody tells. */
export interface Residency {
  /** where they were brought last: a device by its index, −1 the CPU; −2 also before the first prefetch */
  location: number;
  /** where they belong: likewise */
  preferred: number;
  /** devices that reach them where they are, without moving them */
  accessedBy: number[];
}

/** Where managed pages belong (−1: the CPU), and a device that shall reach them without moving them. */
export interface Advice {
  preferredLocation?: number;
  accessedBy?: number;
}

/** Pointers, whole numbers and floats of a kernel launch, in the order the kernel declares them. */
export interface LaunchArguments {
  tensors?: readonly Tensor[];
  wholes?: readonly number[];
  reals?: readonly number[];
}

/** A point in a stream. Never recorded counts as done; recorded again, only the latest record counts. */
export interface DeviceEvent extends Disposable {
  readonly handle: number;
  readonly timing: boolean;
  /** True when the latest record is done. Throws DeviceError when its stream failed or it belongs to a capture. */
  query(): boolean;
  /** Milliseconds from `start` to this event; both need `timing: true` and must be done. */
  elapsedMs(start: DeviceEvent): number;
  /** Resolves when done; rejects with DeviceError when the stream failed. */
  done(): Promise<void>;
  close(): void;
}

/** Captured work, not yet ready to replay. */
export interface Graph extends Disposable {
  readonly handle: number;
  readonly nodeCount: number;
  instantiate(): GraphExec;
  close(): void;
}

/** A graph made ready: replay it on a stream as often as wanted. */
export interface GraphExec extends Disposable {
  readonly handle: number;
  /**
   * Later replays run `graph`; those enqueued before run what they were enqueued with. True when the driver took the change
   * in place (the same operations, other arguments), false when the exec had to be made anew, which costs more.
   */
  update(graph: Graph): boolean;
  close(): void;
}

/** An ordered queue of device work. An error on it is sticky and surfaces at the next record, query or launch. */
export interface Stream extends Disposable {
  readonly handle: number;
  readonly device: Device;
  readonly priority: number;
  readonly closed: boolean;
  /**
   * In a capture a record only marks a place, for other streams to join there. With `external` it becomes an operation of
   * the graph: each replay records the event anew, and outsiders can ask for it and measure with it.
   */
  record(event: DeviceEvent, options?: { external?: boolean }): void;
  /**
   * What is enqueued from now on waits for the event's latest record. If that stream failed, this one fails with it; with
   * `orderOnly` it only waits until it is over.
   */
  wait(event: DeviceEvent, options?: { orderOnly?: boolean }): void;
  /** Copies bytes; both contiguous and equal in bytes. Host ↔ device, within a device, or between peers. */
  copy(to: Tensor, from: Tensor): void;
  /** Sets every element to `value`. */
  fill(to: Tensor, value: number | bigint): void;
  /** Launches a kernel by name; counts and sizes are checked at the door. */
  launch(kernel: string, args?: LaunchArguments): void;
  /** Enqueues one replay of a graph. */
  replay(exec: GraphExec): void;
  /**
   * Brings the pages of a tensor in managed memory to a device of its family, or to the CPU (−1), in stream order. Refused
   * inside a capture: the address never changes, so a graph finds the pages wherever they are.
   */
  prefetch(tensor: Tensor, device: number): void;
  /** True when everything enqueued so far is done. */
  query(): boolean;
  /** Resolves when everything enqueued so far is done. */
  synchronize(): Promise<void>;
  beginCapture(): void;
  endCapture(): Graph;
  readonly capturing: boolean;
  close(): void;
}

/** Host memory registered with a device in place: pinned where the family pins. */
export interface HostMemory extends Disposable {
  readonly handle: number;
  readonly bytes: number;
  /** how the driver reaches it: pinned in place, imported in place, or through copies of its own */
  readonly kind: HostKind;
  /** A tensor over a part of it, for copies. */
  tensor(options: { shape: readonly number[]; dtype: DType; byteOffset?: number }): Tensor;
  close(): void;
}

/** One opened accelerator. Handles are process-wide: any thread can open the same device and use them. */
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
   * Device memory of this shape. Throws (ERR_HOTSLOT_MEMORY) naming the bytes asked and free. Zeroed, unless `zeroed` is
   * false: then it is memory that this device had before, with whatever is in it, and costs next to nothing.
   */
  allocate(options: { shape: readonly number[]; dtype?: DType; zeroed?: boolean }): Tensor;
  /**
   * Zeroed managed memory: one address for the CPU and every device of the family, between which its pages move. Preferred
   * location and accessed-by are this device. Throws (ERR_HOTSLOT_UNAVAILABLE) where there is none: traits.noManaged says why.
   */
  allocateManaged(options: { shape: readonly number[]; dtype?: DType }): Tensor;
  advise(tensor: Tensor, advice: Advice): void;
  residency(tensor: Tensor): Residency;
  /**
   * Lends `view`'s bytes to the device, pinned in place; the view stays referenced until close(). Throws DeviceError when
   * the driver refuses to pin them; with `pin: false` they are lent as they are, and copies take longer.
   */
  registerHost(view: TypedArray, options?: { pin?: boolean }): HostMemory;
  /** The device's default compute stream: one per process. */
  readonly defaultStream: Stream;
  /** This thread's current stream on this device; at first the default one. */
  readonly currentStream: Stream;
  withStream<T>(stream: Stream, fn: () => T): T;
  readonly closed: boolean;
  close(): void;
}
