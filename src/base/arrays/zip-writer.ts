/**
 * Writes a zip file with uncompressed entries, as numpy does. If a size or offset exceeds 32 bits,
 * or if there are more than 65,534 entries, the file has the fields of zip64.
 */
import { setImmediate } from 'node:timers/promises';
import { crc32 } from './crc32.ts';
import { PIECE, type Put } from './files.ts';

const MAX_UINT16 = 0xffff;
const MAX_UINT32 = 0xffffffff;
/** General purpose flags of every entry: names are UTF-8. */
const FLAGS = 0x800;
/**
 * Date of every entry: 1 January 1980, the format's first date. Equal contents give equal bytes.
 */
const DATE = 0x21;
/** Version of the format that a reader needs: 4.5, the first version with zip64. */
const VERSION = 45;
/** The system that made an entry (3: Unix), and its version of the format. */
const MADE_BY = (3 << 8) | VERSION;
/** Unix mode of every entry: a regular file that everyone may read. */
const MODE = 0o100644 * 2 ** 16;

/** Returns the bytes of consecutive little-endian fields. A field is [number of bytes, value]. */
function fields(...each: readonly (readonly [2 | 4 | 8, number])[]): Uint8Array {
  const bytes = Buffer.alloc(each.reduce((sum, [width]) => sum + width, 0));
  let at = 0;
  for (const [width, value] of each) {
    if (width === 2) bytes.writeUInt16LE(value, at);
    else if (width === 4) bytes.writeUInt32LE(value, at);
    else bytes.writeBigUInt64LE(BigInt(value), at);
    at += width;
  }
  return bytes;
}

/** Writes a zip file through `put`. The file is complete after end(). */
export class ZipWriter {
  readonly #put: Put;
  readonly #directory: Uint8Array[] = [];
  #at = 0;
  #count = 0;

  constructor(put: Put) {
    this.#put = put;
  }

  /**
   * Adds an entry whose contents are `parts`, one after the other. Reads the parts twice, so they
   * must not change until the promise resolves.
   */
  async add(name: string, parts: readonly Uint8Array[]): Promise<void> {
    const called = Buffer.from(name);
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    const sum = await sumOf(parts);
    const place = this.#at;
    const large = size >= MAX_UINT32;
    const common: [2 | 4, number][] = [
      [2, VERSION],
      [2, FLAGS],
      [2, 0], // stored
      [2, 0],
      [2, DATE],
      [4, sum],
      [4, large ? MAX_UINT32 : size],
      [4, large ? MAX_UINT32 : size],
      [2, called.length],
    ];
    const local = large ? fields([2, 1], [2, 16], [8, size], [8, size]) : new Uint8Array();
    await this.#append(fields([4, 0x04034b50], ...common, [2, local.length]));
    for (const part of [called, local, ...parts]) await this.#append(part);

    const far = place >= MAX_UINT32;
    const wide: [8, number][] = [];
    if (large) wide.push([8, size], [8, size]);
    if (far) wide.push([8, place]);
    const extra =
      wide.length > 0 ? fields([2, 1], [2, 8 * wide.length], ...wide) : new Uint8Array();
    const rest: [2 | 4, number][] = [
      [2, extra.length],
      [2, 0], // comment
      [2, 0], // disk
      [2, 0],
      [4, MODE],
      [4, far ? MAX_UINT32 : place],
    ];
    this.#directory.push(fields([4, 0x02014b50], [2, MADE_BY], ...common, ...rest), called, extra);
    this.#count++;
  }

  /** Writes the directory of all entries, and the file's end. */
  async end(): Promise<void> {
    const place = this.#at;
    for (const part of this.#directory) await this.#append(part);
    const [count, size, end] = [this.#count, this.#at - place, this.#at];
    if (count >= MAX_UINT16 || size >= MAX_UINT32 || place >= MAX_UINT32) {
      const wide: [8, number][] = [
        [8, count],
        [8, count],
        [8, size],
        [8, place],
      ];
      await this.#append(
        fields([4, 0x06064b50], [8, 44], [2, MADE_BY], [2, VERSION], [4, 0], [4, 0], ...wide),
      );
      await this.#append(fields([4, 0x07064b50], [4, 0], [8, end], [4, 1]));
    }
    const short = Math.min(count, MAX_UINT16);
    const last: [2 | 4, number][] = [
      [2, short],
      [2, short],
      [4, Math.min(size, MAX_UINT32)],
      [4, Math.min(place, MAX_UINT32)],
    ];
    await this.#append(fields([4, 0x06054b50], [2, 0], [2, 0], ...last, [2, 0]));
  }

  async #append(bytes: Uint8Array): Promise<void> {
    this.#at += bytes.length;
    await this.#put(bytes);
  }
}

/** Returns the CRC-32 of all parts. Yields to the event loop after each piece of PIECE bytes. */
async function sumOf(parts: readonly Uint8Array[]): Promise<number> {
  let sum = 0;
  for (const part of parts)
    for (let at = 0; at < part.length; at += PIECE) {
      if (at > 0) await setImmediate();
      sum = crc32(part.subarray(at, at + PIECE), sum);
    }
  return sum;
}
