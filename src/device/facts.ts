/** What is known of devices: plain data, that native code gives and everything may read. */

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

/**
 * What is known of managed pages: one answer for all of a tensor's, or −2 where they differ or the
 * driver does not tell.
 */
export interface Residency {
  /**
   * where they were brought last: a device by its index, −1 the CPU; −2 also before the first
   * prefetch
   */
  location: number;
  /** where they belong: likewise */
  preferred: number;
  /** devices that reach them where they are, without moving them */
  accessedBy: number[];
}

/**
 * Where managed pages belong (−1: the CPU), and a device that shall reach them without moving them.
 */
export interface Advice {
  preferredLocation?: number;
  accessedBy?: number;
}

/** What a device is and can do, beyond the contract. */
export interface DeviceTraits {
  readonly description: string;
  /** events can measure time */
  readonly timingEvents: boolean;
  /** graphs can record events for outsiders: record(event, { external: true }) */
  readonly graphEvents: boolean;
  /**
   * a kernel that runs for seconds is ended, and everything on the device with it: it drives a
   * display, or Windows is beneath
   */
  readonly watchdog: boolean;
  /** completions ring the bell of the thread that polls; otherwise it must look again soon */
  readonly rings: boolean;
  readonly submitter: 'host_stream' | 'cuda_driver' | 'hip_runtime' | 'level_zero';
  /** why there is no managed memory; empty where there is */
  readonly noManaged: string;
  /** managed pages go to the CPU and to other devices too, and it is known where they are */
  readonly movesPages: boolean;
  /** what the kernel `gemm` runs on; a vendor's library is tried when the device is opened */
  readonly matrixProducts: string;
}

/** How a driver reaches host memory, as native/device/core/device.hpp numbers it. */
export const hostKinds = ['pageable', 'registered', 'imported'] as const;
export type HostKind = (typeof hostKinds)[number];

/**
 * How often something was there already, how often it had to be made, and the bytes that are kept.
 */
export interface CacheCounts {
  hits: number;
  misses: number;
  bytes: number;
}
