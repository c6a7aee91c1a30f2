/** TensorBoard's events as bytes: Event messages of Protocol Buffers in the frames of TFRecord. */
import { Message } from '../../base/protobuf.ts';
import { maskedCrc32c } from './crc32c.ts';

/** One number of a curve. */
export interface Scalar {
  readonly tag: string;
  /** stored as float32, including NaN and infinities */
  readonly value: number;
  readonly step: number;
  /** seconds since 1970 */
  readonly wallTime: number;
}

/** Adds the next number of a curve. Never throws. */
export type Put = (tag: string, value: number, step: number) => void;

/**
 * Frames data: its length as uint64, a checksum of the length, the data, a checksum of the data.
 * All numbers are little-endian.
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
 * Returns the first record of an event file. Event: wall_time = 1, file_version = 3.
 * restartRecord() explains when the version is 1.
 */
export function versionRecord(wallTime: number, version: 1 | 2): Uint8Array {
  return record(new Message().double(1, wallTime).text(3, `brain.Event:${version}`).bytes);
}

/**
 * Returns the record before a scalar whose curve goes back to an earlier step: a summary without
 * values, at the largest step.
 *
 * TensorBoard's default loader drops a curve's points from the step of its next scalar on.
 * EventAccumulator, its loader in Python, does so in files below version 2, and only if the
 * previous summary has a later step. This record is that summary. From version 2 on it waits for a
 * second SessionLog.START instead, which drops the points of all curves at once. That is wrong
 * here: some curves count ticks and some count environment steps.
 */
export function restartRecord(wallTime: number): Uint8Array {
  return record(
    new Message().double(1, wallTime).int(2, Number.MAX_SAFE_INTEGER).message(5, new Message())
      .bytes,
  );
}

/**
 * Returns the record of a scalar. Event: wall_time = 1, step = 2, summary = 5. Summary: value = 1.
 * Its Value: tag = 1, simple_value = 2.
 */
export function scalarRecord({ tag, value, step, wallTime }: Scalar): Uint8Array {
  const summary = new Message().message(1, new Message().text(1, tag).float(2, value));
  return record(new Message().double(1, wallTime).int(2, step).message(5, summary).bytes);
}
