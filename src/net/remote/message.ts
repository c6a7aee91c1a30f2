/**
 * The only message that hosts send to the learner: a header of 64 bytes, little endian, then rows
 * in the format of the buffer's batches.
 *
 * | byte | fields |
 * | ---: | --- |
 * | 0 | u32 'HSR1' · u16 version · u16 flags |
 * | 8 | u64 session: random for each host that is opened, below 2⁵³ |
 * | 16 | u64 first: number of the first row |
 * | 24 | u64 base: the oldest row that this host still keeps |
 * | 32 | u32 rows · u32 bytes of a row · u32 crc32 of the layout |
 * | 44 | u32 oldest version of the weights that chose the rows' actions |
 * | 48 | f64 time sent, ms since 1970 · u32 crc32 of all the other bytes |
 * | 60 | u32 lanes of the host, 0 for rows without an order |
 */
import { endianness } from 'node:os';
import { crc32 } from '../../base/arrays/crc32.ts';
import { unavailableError } from '../../base/errors.ts';
import { PROTOCOL } from './keys.ts';

export const HEADER_BYTES = 64;
/**
 * Maximum bytes of a message. Only a message with one or two rows may be larger: a step that ends
 * its episode needs its final observation in the same message.
 */
export const MAX_BYTES = 8 * 2 ** 20;
const MAGIC = 0x31525348;

/**
 * Flag of a session's first message, with or without rows. With this flag, the host asks for its
 * window.
 */
export const HELLO = 1;
/** Flag of a session's last message, which has no rows. */
export const BYE = 2;

export interface MessageHeader {
  flags: number;
  session: number;
  /**
   * the message has rows [first, first + rows) of the session, and the host keeps its rows from
   * base on
   */
  first: number;
  base: number;
  rows: number;
  rowBytes: number;
  /** crc32 of the layout */
  layout: number;
  /** oldest version of the weights that chose the rows' actions, 0 before the first version */
  version: number;
  /** ms since 1970, by the host's clock */
  sent: number;
  lanes: number;
}

export const emptyHeader = (): MessageHeader => ({
  flags: 0,
  session: 0,
  first: 0,
  base: 0,
  rows: 0,
  rowBytes: 0,
  layout: 0,
  version: 0,
  sent: 0,
  lanes: 0,
});

/** Throws on a big-endian machine, because rows are sent as they are in memory. */
export function checkEndian(): void {
  if (endianness() !== 'LE')
    throw unavailableError(
      'collector hosts must be little-endian: rows are sent as they are in memory',
    );
}

const whole = (view: DataView, at: number) =>
  view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
function setWhole(view: DataView, at: number, value: number): void {
  view.setUint32(at, value >>> 0, true);
  view.setUint32(at + 4, Math.floor(value / 2 ** 32), true);
}
/** Offset of the checksum, which covers the bytes before and after it. */
const SUM = 56;
const sumOf = (bytes: Uint8Array) => crc32(bytes.subarray(SUM + 4), crc32(bytes.subarray(0, SUM)));

const viewOf = (bytes: Uint8Array) =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Writes the header in front of the rows, which are already in `bytes` from HEADER_BYTES on. */
export function sealMessage(bytes: Uint8Array, header: Readonly<MessageHeader>): void {
  const view = viewOf(bytes);
  view.setUint32(0, MAGIC, true);
  view.setUint16(4, PROTOCOL, true);
  view.setUint16(6, header.flags, true);
  setWhole(view, 8, header.session);
  setWhole(view, 16, header.first);
  setWhole(view, 24, header.base);
  view.setUint32(32, header.rows, true);
  view.setUint32(36, header.rowBytes, true);
  view.setUint32(40, header.layout, true);
  view.setUint32(44, header.version, true);
  view.setFloat64(48, header.sent, true);
  view.setUint32(60, header.lanes, true);
  view.setUint32(SUM, sumOf(bytes), true);
}

/**
 * Updates the header of a message that is sent again: `base`, the time and the checksum. `foreign`
 * is true if another learner's weights chose the rows' actions. The version then becomes 0, which
 * is older than any version of the new learner.
 */
export function resealMessage(
  bytes: Uint8Array,
  { base, sent, foreign }: { base: number; sent: number; foreign: boolean },
): void {
  const view = viewOf(bytes);
  setWhole(view, 24, base);
  if (foreign) view.setUint32(44, 0, true);
  view.setFloat64(48, sent, true);
  view.setUint32(SUM, sumOf(bytes), true);
}

/**
 * Memory for the header that is read, and views of this memory. Both are reused, so that a message
 * creates no garbage.
 */
const head = new Uint8Array(HEADER_BYTES);
const view = viewOf(head);
const [beforeSum, behindSum] = [head.subarray(0, SUM), head.subarray(SUM + 4)];

/**
 * Reads a header into `into`. Returns null, or the reason why this is not a message of this
 * protocol, and sets `session` to 0 in that case. Checks lengths before it uses them, and the
 * checksum last. `rows` are the bytes after the header.
 */
export function readMessage(
  bytes: Uint8Array,
  into: MessageHeader,
  rows: Uint8Array = bytes.subarray(HEADER_BYTES),
): string | null {
  into.session = 0;
  if (bytes.length < HEADER_BYTES) return `${bytes.length} bytes are not a message`;
  for (let i = 0; i < HEADER_BYTES; i++) head[i] = bytes[i] as number;
  if (view.getUint32(0, true) !== MAGIC) return 'these bytes are not a message';
  const version = view.getUint16(4, true);
  if (version !== PROTOCOL) return `protocol ${version}, this is ${PROTOCOL}`;
  into.flags = view.getUint16(6, true);
  const session = whole(view, 8);
  into.first = whole(view, 16);
  into.base = whole(view, 24);
  into.rows = view.getUint32(32, true);
  into.rowBytes = view.getUint32(36, true);
  into.layout = view.getUint32(40, true);
  into.version = view.getUint32(44, true);
  into.sent = view.getFloat64(48, true);
  into.lanes = view.getUint32(60, true);
  const { rows: count, rowBytes, first, base } = into;
  if (rows.length !== count * rowBytes)
    return `${count} rows of ${rowBytes} bytes in ${rows.length}`;
  if (rows.length > MAX_BYTES && count > 2)
    return `${bytes.length} bytes are more than a message has`;
  if (session === 0 || !Number.isSafeInteger(session)) return 'a session of no number';
  if (into.flags & BYE && count > 0) return `a goodbye with ${count} rows`;
  if (!Number.isFinite(into.sent)) return 'an invalid time';
  if (!Number.isSafeInteger(first + count) || base > first)
    return `rows from ${first} on of a host that keeps ${base}`;
  const sum = crc32(rows, crc32(behindSum, crc32(beforeSum)));
  if (view.getUint32(SUM, true) !== sum) return 'the sum of its bytes is another one';
  into.session = session;
  return null;
}
