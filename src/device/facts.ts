/** Facts about devices: plain data that native code returns and any module may read. */

export type DeviceFamily = 'cuda' | 'rocm' | 'xpu' | 'host';

/**
 * Precision of matrix products. With 'tf32', cuBLAS rounds both operands to TF32, which has float32's
 * range and 10 bits of mantissa, and adds in float32.
 */
export const productsKinds = ['float32', 'tf32'] as const;
export type Products = (typeof productsKinds)[number];

export interface DeviceInfo {
  /** 'host:0', 'cuda:0', …, or only the family's name if its devices could not be counted */
  name: string;
  family: DeviceFamily;
  available: boolean;
  /** why the device is unavailable, and a remedy */
  reason?: string;
  /** the device's own description */
  description?: string;
}

export interface MemoryInfo {
  /** bytes */
  total: number;
  /** bytes that an allocation can count on now */
  free: number;
}

/**
 * Locations of managed pages. A location is a device's index, −1 for the CPU, or −2. It is −2 if
 * the pages of a tensor differ, or if the driver does not report it.
 */
export interface Residency {
  /** location to which the pages were moved last, −2 before the first prefetch */
  location: number;
  /** preferred location of the pages */
  preferred: number;
  /** indices of the devices that access the pages without moving them */
  accessedBy: number[];
}

/**
 * Hints to the driver about managed pages. `preferredLocation` is a device's index, or −1 for the
 * CPU. `accessedBy` is the index of a device that must access the pages without moving them.
 */
export interface Advice {
  preferredLocation?: number;
  accessedBy?: number;
}

/** Properties and abilities of a device, beyond the device contract (device.ts). */
export interface DeviceTraits {
  readonly description: string;
  /** true if events can measure time */
  readonly timingEvents: boolean;
  /**
   * true if graphs can record events for code outside of them: record(event, { external: true })
   */
  readonly graphEvents: boolean;
  /**
   * true if the system ends a kernel that runs for seconds, together with all other work on the
   * device. This is so if the device drives a display, or if the system is Windows
   */
  readonly watchdog: boolean;
  /**
   * true if completed work rings the bell of the polling thread. If false, that thread must query
   * the events again after a short sleep
   */
  readonly rings: boolean;
  readonly submitter: 'host_stream' | 'cuda_driver' | 'hip_runtime' | 'level_zero';
  /** reason why managed memory is unavailable, or an empty string */
  readonly noManaged: string;
  /**
   * true if managed pages also move to the CPU and to other devices, and their location is known
   */
  readonly movesPages: boolean;
  /**
   * name of the implementation of large products of the kernels `gemm` and `gemm_batched`, with
   * ', TF32' if `products` is 'tf32'. When a device is opened, Hotslot tries to load a vendor's library for them
   */
  readonly matrixProducts: string;
  /** precision of cuBLAS' matrix products, which are the large ones. All others are in float32 */
  readonly products: Products;
}

/**
 * How a driver reaches host memory. The index of a kind is its number in
 * native/device/core/device.hpp.
 */
export const hostKinds = ['pageable', 'registered', 'imported'] as const;
export type HostKind = (typeof hostKinds)[number];

/**
 * Counts of a cache: reused objects (`hits`), new objects (`misses`), and the bytes that it stores.
 */
export interface CacheCounts {
  hits: number;
  misses: number;
  bytes: number;
}
