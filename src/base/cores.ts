/**
 * The number of cores for large jobs: gathers of large batches, the host device's own products,
 * halos.
 */
import { answered } from './addon.ts';
import { systemCores } from './system-addon.ts';

export interface CoresNow {
  /**
   * cores that the process may use: those of its affinity, of its control group's limit, and
   * HOTSLOT_CORES, whichever are fewest
   */
  cores: number;
  /** threads of this process that run Hotslot's code, this one among them */
  threads: number;
  /** how many more threads take part in a job of at least 256 KiB for each of them */
  helpers: number;
}

export function coresNow(): CoresNow {
  const [cores, threads, helpers] = answered(systemCores().coresNow());
  return { cores, threads, helpers };
}
