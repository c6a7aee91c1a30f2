/** Facts about devices: plain data from native code, which any module may read. */

export type DeviceFamily = 'cuda' | 'rocm' | 'xpu' | 'host';

export interface DeviceInfo {
  /** 'host:0', 'cuda:0', …, or the family's name alone if no device could be counted */
  name: string;
  family: DeviceFamily;
  available: boolean;
  /** why it is not available, and what would help */
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
 * Locations of managed pages: one answer for all pages of a tensor, or −2 if they differ or the
 * driver does not report it.
 */
export interface Residency {
  /**
   * where they were moved last: a device by its index, −1 the CPU, −2 also before the first
   * prefetch
   */
  location: number;
  /** preferred location, likewise */
  preferred: number;
  /** devices that reach them where they are, without moving them */
  accessedBy: number[];
}

/**
 * The preferred location of managed pages (−1: the CPU), and a device that must reach them without
 * moving them.
 */
export interface Advice {
  preferredLocation?: number;
  accessedBy?: number;
}

/** Properties and abilities of a device, beyond the contract. */
export interface DeviceTraits {
  readonly description: string;
  /** events can measure time */
  readonly timingEvents: boolean;
  /** graphs can record events for code outside of them: record(event, { external: true }) */
  readonly graphEvents: boolean;
  /**
   * a kernel that runs for seconds is ended, together with everything on the device, which drives a
   * display or runs under Windows
   */
  readonly watchdog: boolean;
  /** completions ring the bell of the polling thread, which otherwise must query again soon */
  readonly rings: boolean;
  readonly submitter: 'host_stream' | 'cuda_driver' | 'hip_runtime' | 'level_zero';
  /** reason why managed memory is missing, or empty */
  readonly noManaged: string;
  /** managed pages move to the CPU and to other devices too, and their location is known */
  readonly movesPages: boolean;
  /**
   * the implementation of the kernel `gemm`. A vendor's library is tried when the device is opened
   */
  readonly matrixProducts: string;
}

/** How a driver reaches host memory, as native/device/core/device.hpp numbers it. */
export const hostKinds = ['pageable', 'registered', 'imported'] as const;
export type HostKind = (typeof hostKinds)[number];

/** Counts of objects used again and of objects made, and the bytes that are kept. */
export interface CacheCounts {
  hits: number;
  misses: number;
  bytes: number;
}
