/**
 * Options for the side on which a pipeline's rows live: their checks, and the choice of 'auto' with
 * its reason.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { rowStride } from '../../store/rows/pack-layout.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';

/**
 * The side on which rows live. `'host'`: each batch is packed on the host and copied. `'device'`:
 * every row is copied once, when it is new, and the device draws and gathers batches. `'auto'`: as
 * 'device' on a GPU that has enough memory of its own.
 */
export type RowsKept = 'host' | 'device' | 'auto';

export interface DeviceRingOptions {
  /**
   * number of the newest rows that the device keeps, at most and by default the buffer's capacity
   */
  capacity?: number;
  /**
   * number of the oldest rows that are not drawn (default: a sixteenth of the capacity). New rows
   * can replace these rows while ticks are under way.
   */
  guard?: number;
  /** maximum bytes of one copy (default 4 MiB) */
  chunkBytes?: number;
  /** share of the device's free memory that rows and batch may take, up to 1 (default 0.8) */
  headroom?: number;
}

export interface CheckedRing {
  readonly places: number;
  readonly guard: number;
  readonly rowsPerSpan: number;
  readonly stride: number;
  readonly ringBytes: number;
  readonly batchBytes: number;
  readonly headroom: number;
}

export const RING_OPTIONS = ['capacity', 'guard', 'chunkBytes', 'headroom'] as const;
const rowsValues = ['host', 'device', 'auto'] as const;

export function checkRows(rows: unknown = 'host'): RowsKept {
  if (!(rowsValues as readonly unknown[]).includes(rows))
    throw rangeError(`rows must be one of ${rowsValues.join(', ')}, got ${describeValue(rows)}`);
  return rows as RowsKept;
}

function checkShare({ headroom = 0.8 }: DeviceRingOptions): { headroom: number } {
  if (typeof headroom !== 'number')
    throw typeError(`deviceRing.headroom must be a number, got ${describeValue(headroom)}`);
  if (!(headroom > 0 && headroom <= 1))
    throw rangeError(`deviceRing.headroom must be above 0 and at most 1, got ${headroom}`);
  return { headroom };
}

/** Sizes of the steps of a view that a device keeps. */
interface StepsToKeep {
  readonly places: number;
  readonly placeBytes: number;
  readonly gatheredBytes: number;
}

export function checkRing(
  buffer: ReplayBuffer,
  sampleCount: number,
  options: DeviceRingOptions = {},
): CheckedRing {
  checkKeys('deviceRing', options, RING_OPTIONS);
  const stride = rowStride(buffer.rowBytes);
  const places = checkCount('deviceRing.capacity', options.capacity ?? buffer.capacity, 2);
  if (places > buffer.capacity)
    throw rangeError(
      `deviceRing.capacity must be at most the buffer's ${buffer.capacity} rows, got ${places}`,
    );
  const chunkBytes = checkCount(
    'deviceRing.chunkBytes',
    options.chunkBytes ?? Math.max(4 << 20, stride),
    stride,
  );
  const guard = checkCount('deviceRing.guard', options.guard ?? Math.ceil(places / 16), 1);
  if (guard >= places)
    throw rangeError(`deviceRing.guard must be below the capacity ${places}, got ${guard}`);
  const { headroom } = checkShare(options);
  // The guard has room for two spans: one is copied while the next is enqueued, and no tick waits
  // for either.
  const rowsPerSpan = Math.max(1, Math.min(Math.floor(chunkBytes / stride), Math.floor(guard / 2)));
  const batchBytes = sampleCount * stride + 4 * sampleCount;
  return { places, guard, rowsPerSpan, stride, ringBytes: places * stride, batchBytes, headroom };
}

/**
 * Checks the options for a view's steps, and returns their sizes. All steps have places on the
 * device, and batches are the same as with rows on the host.
 */
export function checkSteps(steps: StepsToKeep, options: DeviceRingOptions = {}): CheckedRing {
  const { places, placeBytes, gatheredBytes: batchBytes } = steps;
  const stride = rowStride(placeBytes);
  return {
    places,
    guard: 0,
    rowsPerSpan: 0,
    stride,
    ringBytes: places * stride,
    batchBytes,
    ...checkShare(options),
  };
}
/** Checks the options that apply to a view's steps, and throws for options that do not apply. */
export function checkStepsOptions(options: DeviceRingOptions = {}): void {
  for (const name of ['capacity', 'guard', 'chunkBytes'] as const)
    if (options[name] !== undefined)
      throw rangeError(
        `deviceRing.${name} applies to a ReplayBuffer only: the device keeps every place of a TrajectoryBuffer`,
      );
  checkShare(options);
}

/**
 * Returns why the rows do not fit into the device's memory, with each size in bytes, or null if
 * they fit.
 */
function tooLarge(
  device: Device,
  { ringBytes, batchBytes, headroom, places, stride }: CheckedRing,
): string | null {
  const { free } = device.memoryInfo();
  if (ringBytes + batchBytes <= headroom * free) return null;
  return `${places} rows of ${stride} bytes take ${ringBytes} and a batch ${batchBytes}; ${device.name} has ${free} free, and may give ${headroom * 100} % of it`;
}

export interface RowsChoice {
  readonly location: 'host' | 'device';
  readonly reason: string;
}

/**
 * Returns the side on which the rows live, and why.
 *
 * @throws {ERR_HOTSLOT_MEMORY} if 'device' was requested and the rows do not fit. The text has
 *   every size
 * @throws {RangeError} if 'device' was requested and `ring` is null. `otherwise` is the reason
 */
export function chooseRows(
  given: RowsKept,
  device: Device,
  ring: CheckedRing | null,
  otherwise: string,
): RowsChoice {
  if (given === 'host') return { location: 'host', reason: 'as asked' };
  const none = ring === null ? otherwise : tooLarge(device, ring);
  if (given === 'device') {
    if (none !== null)
      throw rangeError(
        `rows: 'device' is not possible: ${none}`,
        ring === null ? undefined : 'ERR_HOTSLOT_MEMORY',
      );
    return { location: 'device', reason: 'as asked' };
  }
  if (device.family === 'host')
    return { location: 'host', reason: 'the CPU device reads the rows in place' };
  if (device.family === 'xpu')
    return {
      location: 'host',
      reason: `${device.name} may share the CPU's memory; give rows: 'device' if it has its own`,
    };
  if (none !== null) return { location: 'host', reason: none };
  return {
    location: 'device',
    reason: 'each row is copied to the device once instead of at each sample',
  };
}
