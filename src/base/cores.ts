/**
 * Reports the number of cores for large jobs. These are gathers of large batches, matrix products
 * of the CPU device, and halos.
 */
import { answered } from './addon.ts';
import { systemCores } from './system-addon.ts';

export interface CoresNow {
  /**
   * number of cores that the process may use: the minimum of its CPU affinity, its cgroup's limit
   * and HOTSLOT_CORES
   */
  cores: number;
  /** number of threads of this process that run Hotslot's code, including this thread */
  threads: number;
  /**
   * maximum number of pool threads that could help with a large job now, of at least 256 KiB per
   * thread
   */
  helpers: number;
}

export function coresNow(): CoresNow {
  const [cores, threads, helpers] = answered(systemCores().coresNow());
  return { cores, threads, helpers };
}
