/** The functions of device.node, as TypeScript sees them. Only this folder calls them; handles are process-wide numbers. */
import { loadAddon } from '../addon.ts';
import type { TypedArray } from '../dtype.ts';
import type { DeviceFamily, DeviceInfo, MemoryInfo } from './device.ts';

/** What a device is and can do, beyond the contract. */
export interface DeviceTraits {
  readonly description: string;
  /** events can measure time */
  readonly timingEvents: boolean;
  /** graphs can record events for outsiders: record(event, { external: true }) */
  readonly graphEvents: boolean;
  /** completions ring the bell of whoever polls; otherwise it must look again soon */
  readonly rings: boolean;
  readonly submitter: 'host_stream' | 'cuda_driver' | 'hip_runtime' | 'level_zero';
  /** what the kernel `gemm` runs on; a vendor's library is opened by the first capture or product */
  readonly matrixProducts: string;
}

/** How a driver reaches host memory, as native/device/device.hpp numbers it. */
export const hostKinds = ['pageable', 'registered', 'imported'] as const;
export type HostKind = (typeof hostKinds)[number];

export interface NativeDevice {
  readonly gemmProvider: string;
  listDevices(): DeviceInfo[];
  openDevice(name: string): { handle: number; family: DeviceFamily; index: number; stream: number };
  deviceTraits(device: number): DeviceTraits;
  memoryInfo(device: number): MemoryInfo;
  createStream(device: number, priority: number): number;
  createEvent(device: number, timing: boolean): number;
  allocate(device: number, bytes: number): number;
  /** Without `pin` the driver uses the memory as it is. */
  registerHost(device: number, view: TypedArray, pin: boolean): number;
  /** How the driver reaches a registered memory: an index into hostKinds. */
  hostKind(memory: number): number;
  close(handle: number): boolean;
  record(stream: number, event: number, external?: boolean): void;
  wait(stream: number, event: number): void;
  copy(stream: number, to: number, toOffset: number, from: number, fromOffset: number, bytes: number): void;
  fill(stream: number, to: number, offset: number, bytes: number, pattern: TypedArray): void;
  launch(stream: number, kernel: string, spans: number[], wholes: readonly number[], reals: readonly number[]): void;
  replay(stream: number, exec: number): void;
  streamQuery(stream: number): boolean;
  eventQuery(event: number): boolean;
  elapsedMs(start: number, end: number): number;
  beginCapture(stream: number): void;
  endCapture(stream: number): number;
  capturing(stream: number): boolean;
  instantiate(graph: number): number;
  /** True: taken in place, false: made anew. */
  update(exec: number, graph: number): boolean;
  nodeCount(graph: number): number;
  waitEvent(device: number, event: number, ms: number): boolean;
  waitEventAsync(device: number, event: number): Promise<boolean>;
  write(stream: number, memory: number, offset: number, bytes: Uint8Array): void;
  read(stream: number, memory: number, offset: number, bytes: number): number;
  copyOut(staging: number, to: Uint8Array): void;
  kernels(): string[];
  /** What drivers would not take back since the last call, in words. */
  releaseFailures(): string[];
  handleCount(kind: number): { open: number; pinned: number };
  /** However this thread's environment ends, the word becomes `to` if it is `from` then. */
  watchThread(words: Int32Array, index: number, from: number, to: number): void;
  nowMs(): number;
}

/** Kinds of handles, as native/device/device.hpp numbers them. */
export const HandleKind = { device: 1, memory: 2, event: 3, stream: 4, graph: 5, exec: 6 } as const;

let addon: NativeDevice | undefined;

export function native(): NativeDevice {
  addon ??= loadAddon<NativeDevice>('device');
  return addon;
}
