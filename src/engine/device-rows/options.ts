/** The side on which a pipeline's rows live: what may be asked, what 'auto' comes to, and why. */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { rowStride } from '../../store/rows/pack-layout.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';

/**
 * `'host'`: each batch is packed on the host and copied. `'device'`: every row is copied once, when
 * it is new, and batches are drawn and gathered there. `'auto'`: as 'device' on a GPU with memory
 * of its own that has room for them.
 */
export type RowsKept = 'host' | 'device' | 'auto';

export interface DeviceRingOptions {
  /** rows that the device keeps, the newest, at most and by default the buffer's capacity */
  capacity?: number;
  /**
   * rows that are not drawn, so that new ones can be copied while ticks are under way (default: a
   * sixteenth of the capacity)
   */
  guard?: number;
  /** bytes of one copy at most (default 4 MiB) */
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
const hooks = ['host', 'device', 'auto'] as const;

export function checkRows(rows: unknown = 'host'): RowsKept {
  if (!(hooks as readonly unknown[]).includes(rows))
    throw rangeError(`rows must be one of ${hooks.join(', ')}, got ${describeValue(rows)}`);
  return rows as RowsKept;
}

function checkShare({ headroom = 0.8 }: DeviceRingOptions): { headroom: number } {
  if (typeof headroom !== 'number')
    throw typeError(`deviceRing.headroom must be a number, got ${describeValue(headroom)}`);
  if (!(headroom > 0 && headroom <= 1))
    throw rangeError(`deviceRing.headroom must be above 0 and at most 1, got ${headroom}`);
  return { headroom };
}

/** Steps of a view that a device is to keep. */
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
  // Two spans fit the guard: one is copied while the next is ordered, and no tick waits for either.
  const rowsPerSpan = Math.max(1, Math.min(Math.floor(chunkBytes / stride), Math.floor(guard / 2)));
  const batchBytes = sampleCount * stride + 4 * sampleCount;
  return { places, guard, rowsPerSpan, stride, ringBytes: places * stride, batchBytes, headroom };
}

/**
 * Checks the options for a view's steps. All steps have their places there, and batches are as they
 * are with rows on the host.
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
/** Checks the options that apply to steps, and throws for the others. */
export function checkStepsOptions(options: DeviceRingOptions = {}): void {
  for (const name of ['capacity', 'guard', 'chunkBytes'] as const)
    if (options[name] !== undefined)
      throw rangeError(
        `deviceRing.${name} applies to a ReplayBuffer only: the device keeps every place of a TrajectoryBuffer`,
      );
  checkShare(options);
}

/** Says why the device cannot have them, with each term in bytes. Null if it can. */
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
 * Throws ERR_HOTSLOT_MEMORY, naming every term, if 'device' was asked for and there is not enough
 * room.
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
        `rows: 'device' cannot be: ${none}`,
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
