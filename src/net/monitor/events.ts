/** TensorBoard's events as bytes: Event messages of Protocol Buffers in the frames of TFRecord. */
import { Message } from '../../base/protobuf.ts';
import { maskedCrc32c } from './crc32c.ts';

/** One value of a curve. */
export interface Scalar {
  readonly tag: string;
  /** stored as float32, including NaN and infinities */
  readonly value: number;
  readonly step: number;
  /** seconds since 1970 */
  readonly wallTime: number;
}

/** Adds the next value of a curve. Never throws. */
export type Put = (tag: string, value: number, step: number) => void;

/**
 * Returns a frame of TFRecord: the length of the data as uint64, a checksum of the length, the
 * data, and a checksum of the data. All numbers are little-endian.
 */
function record(data: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(12 + data.length + 4);
  bytes.writeUInt32LE(data.length, 0);
  bytes.writeUInt32LE(0, 4);
  bytes.writeUInt32LE(maskedCrc32c(bytes.subarray(0, 8)), 8);
  bytes.set(data, 12);
  bytes.writeUInt32LE(maskedCrc32c(data), 12 + data.length);
  return bytes;
}

/**
 * Returns the first record of an event file. The field numbers of Event are wall_time = 1 and
 * file_version = 3. restartRecord() explains when the version is 1.
 */
export function versionRecord(wallTime: number, version: 1 | 2): Uint8Array {
  return record(new Message().double(1, wallTime).text(3, `brain.Event:${version}`).bytes);
}

/**
 * Returns the record that precedes a scalar whose curve goes back to an earlier step. The record is
 * a summary without values, at the largest step.
 *
 * TensorBoard's default loader drops a curve's points from the step of the curve's next scalar on.
 * EventAccumulator, TensorBoard's loader in Python, does so only in files below version 2, and only
 * if the previous summary has a later step. This record is that summary. In files from version 2
 * on, EventAccumulator waits for a second SessionLog.START instead, and then drops the points of
 * all curves. That is wrong here, because some curves count ticks and some count environment steps.
 */
export function restartRecord(wallTime: number): Uint8Array {
  return record(
    new Message().double(1, wallTime).int(2, Number.MAX_SAFE_INTEGER).message(5, new Message())
      .bytes,
  );
}

/**
 * Returns the record of a scalar. The field numbers of Event are wall_time = 1, step = 2 and
 * summary = 5. Those of Summary are value = 1, and those of its Value are tag = 1 and simple_value
 * = 2.
 */
export function scalarRecord({ tag, value, step, wallTime }: Scalar): Uint8Array {
  const summary = new Message().message(1, new Message().text(1, tag).float(2, value));
  return record(new Message().double(1, wallTime).int(2, step).message(5, summary).bytes);
}
