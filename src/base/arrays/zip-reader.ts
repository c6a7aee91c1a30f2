/**
 * Reads the entries of a zip file, stored or deflated, with or without zip64. Checks the directory
 * at the file's end against the rest of the file and against the checksums. Throws for encrypted
 * entries and for split archives.
 */
import { pipeline, Readable } from 'node:stream';
import { createInflateRaw } from 'node:zlib';
import { describeValue } from '../checks.ts';
import { crc32 } from './crc32.ts';
import { PIECE, type Reading } from './files.ts';
import { freshArray, malformed } from './tensors.ts';

/** One entry of the directory. */
export interface ZipEntry {
  readonly name: string;
  readonly called: Uint8Array;
  readonly deflated: boolean;
  readonly sum: number;
  /** number of bytes of the entry in the file, compressed if `deflated` */
  readonly packed: number;
  /** number of uncompressed bytes */
  readonly size: number;
  /** offset in the file of the entry's own header */
  readonly place: number;
  /** offset in the file at which the next entry or the directory begins */
  readonly limit: number;
}

const LOCAL = 30;
const ENTRY = 46;
const END = 22;
const END_64 = 56;
const LOCATOR = 20;
/** Maximum bytes to which deflate can expand one byte: two bits can become 258 bytes. */
const MAX_PER_BYTE = 1032;

const view = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Returns a field of eight bytes. Throws if the field is missing or above MAX_SAFE_INTEGER. */
function wide(what: string, bytes: Buffer, at: number): number {
  const value = at + 8 <= bytes.length ? bytes.readBigUInt64LE(at) : undefined;
  if (value === undefined || value > Number.MAX_SAFE_INTEGER)
    throw malformed(what, `a field of zip64 is ${value === undefined ? 'missing' : value}`);
  return Number(value);
}

async function part(what: string, file: Reading, place: number, length: number): Promise<Buffer> {
  if (place < 0 || length < 0 || place + length > file.size)
    throw malformed(
      what,
      `it refers to bytes ${place} to ${place + length}, the file has ${file.size}`,
    );
  const bytes = freshArray(what, 'uint8', length);
  await file.read(bytes, place);
  return view(bytes);
}

/** Returns the directory's offset (`place`), its size in bytes, and its number of entries. */
async function findDirectory(
  what: string,
  file: Reading,
): Promise<{ count: number; size: number; place: number }> {
  const length = Math.min(file.size, END + 0xffff);
  const tail = await part(what, file, file.size - length, length);
  let at = length - END;
  // A comment may follow the end record, and may contain the record's signature by chance.
  // Therefore the comment's declared length must match the bytes to the end of the file.
  while (
    at >= 0 &&
    !(tail.readUInt32LE(at) === 0x06054b50 && tail.readUInt16LE(at + 20) === length - END - at)
  )
    at--;
  if (at < 0) throw malformed(what, 'it is not a zip file, or its end is missing');
  let [count, size, place] = [
    tail.readUInt16LE(at + 10),
    tail.readUInt32LE(at + 12),
    tail.readUInt32LE(at + 16),
  ];
  let disks = [
    tail.readUInt16LE(at + 4),
    tail.readUInt16LE(at + 6),
    tail.readUInt16LE(at + 8) - count,
  ];
  let end = file.size - length + at;
  if (count === 0xffff || size === 0xffffffff || place === 0xffffffff) {
    const locator = await part(what, file, end - LOCATOR, LOCATOR);
    if (locator.readUInt32LE(0) !== 0x07064b50)
      throw malformed(what, 'its end of zip64 is missing');
    end = wide(what, locator, 8);
    const record = await part(what, file, end, END_64);
    if (record.readUInt32LE(0) !== 0x06064b50) throw malformed(what, 'its end of zip64 is missing');
    [count, size, place] = [wide(what, record, 32), wide(what, record, 40), wide(what, record, 48)];
    disks = [record.readUInt32LE(16), record.readUInt32LE(20), wide(what, record, 24) - count];
  }
  if (disks.some((each) => each !== 0))
    throw malformed(what, 'it is one part of a split archive; join the parts first');
  if (place + size !== end)
    throw malformed(
      what,
      `its directory ends at byte ${place + size}, but the record after it begins at ${end}`,
    );
  return { count, size, place };
}

/**
 * Returns the entries in the order of the directory. Throws RangeError if the file is not a zip
 * file, or contradicts itself.
 */
export async function zipEntries(what: string, file: Reading): Promise<ZipEntry[]> {
  const { count, size, place } = await findDirectory(what, file);
  const bytes = await part(what, file, place, size);
  const entries: ZipEntry[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at + ENTRY > size || bytes.readUInt32LE(at) !== 0x02014b50)
      throw malformed(what, `its directory is truncated at entry ${i} of ${count}`);
    const [name, extra, comment] = [28, 30, 32].map((offset) =>
      bytes.readUInt16LE(at + offset),
    ) as [number, number, number];
    const next = at + ENTRY + name + extra + comment;
    if (next > size) throw malformed(what, `its directory is truncated at entry ${i} of ${count}`);
    const called = bytes.subarray(at + ENTRY, at + ENTRY + name);
    const more = bytes.subarray(at + ENTRY + name, at + ENTRY + name + extra);
    entries.push(entryOf(what, bytes.subarray(at, at + ENTRY), called, more, place));
    at = next;
  }
  if (at !== size)
    throw malformed(what, `its directory has ${size - at} bytes more than its ${count} entries`);
  return apart(what, entries);
}

function entryOf(
  what: string,
  fixed: Buffer,
  called: Buffer,
  extra: Buffer,
  limit: number,
): ZipEntry {
  const flags = fixed.readUInt16LE(8);
  const name = nameOf(what, called, (flags & 0x800) !== 0);
  const whose = `${what}: ${describeValue(name)}`;
  if ((flags & 0x2041) !== 0) throw malformed(whose, 'it is encrypted: save it without a password');
  const method = fixed.readUInt16LE(10);
  if (method !== 0 && method !== 8)
    throw malformed(
      whose,
      `it is packed by method ${method}: save it stored or deflated, as numpy does`,
    );
  let [packed, size, place] = [20, 24, 42].map((offset) => fixed.readUInt32LE(offset)) as [
    number,
    number,
    number,
  ];
  if ([packed, size, place].includes(0xffffffff)) {
    const wider = zip64Of(whose, extra);
    let at = 0;
    const next = () => {
      at += 8;
      return wide(whose, wider, at - 8);
    };
    // zip64 has these fields in this order, and only those that do not fit into 32 bits.
    if (size === 0xffffffff) size = next();
    if (packed === 0xffffffff) packed = next();
    if (place === 0xffffffff) place = next();
  }
  const deflated = method === 8;
  if (deflated ? size > packed * MAX_PER_BYTE : size !== packed)
    throw malformed(
      whose,
      `it claims that ${packed} packed bytes become ${size}, which is impossible`,
    );
  return { name, called, deflated, sum: fixed.readUInt32LE(16), packed, size, place, limit };
}

function nameOf(what: string, called: Buffer, utf8: boolean): string {
  if (!utf8 && called.some((byte) => byte > 0x7f))
    throw malformed(
      what,
      `an entry's name is in an old code page: ${describeValue(called.toString('latin1'))}`,
    );
  const name = called.toString('utf8');
  if (!view(called).equals(Buffer.from(name)))
    throw malformed(what, `an entry's name is not UTF-8: ${describeValue(name)}`);
  return name;
}

/** Returns the zip64 field of an entry's extra fields. Throws if it is missing. */
function zip64Of(what: string, extra: Buffer): Buffer {
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, length] = [extra.readUInt16LE(at), extra.readUInt16LE(at + 2)];
    if (id === 1) return extra.subarray(at + 4, at + 4 + length);
    at += 4 + length;
  }
  throw malformed(what, 'its sizes of zip64 are missing');
}

/**
 * Returns the entries with their limits. Throws if two entries have the same name or overlap,
 * because a small file with overlapping entries can expand to a huge size.
 */
function apart(what: string, entries: readonly ZipEntry[]): ZipEntry[] {
  const names = new Set<string>();
  for (const { name } of entries) {
    if (names.has(name)) throw malformed(what, `it has two entries ${describeValue(name)}`);
    names.add(name);
  }
  const limits = new Map<ZipEntry, number>();
  let limit = entries[0]?.limit ?? 0;
  for (const entry of [...entries].sort((a, b) => b.place - a.place)) {
    if (entry.place + LOCAL + entry.called.length + entry.packed > limit)
      throw malformed(what, `${describeValue(entry.name)} overlaps the entry after it`);
    limits.set(entry, limit);
    limit = entry.place;
  }
  return entries.map((entry) => ({ ...entry, limit: limits.get(entry) as number }));
}

/**
 * Yields an entry's uncompressed bytes in pieces. A piece is valid until the next piece is yielded.
 * Throws if the size or the CRC-32 differs from the directory's.
 */
export async function* entryBytes(
  what: string,
  file: Reading,
  entry: ZipEntry,
): AsyncGenerator<Uint8Array, void> {
  const { called, packed, size, place, limit, deflated } = entry;
  const local = await part(what, file, place, LOCAL + called.length);
  const start = place + local.length + local.readUInt16LE(28);
  if (
    local.readUInt32LE(0) !== 0x04034b50 ||
    !local.subarray(LOCAL).equals(called) ||
    start + packed > limit
  )
    throw malformed(what, 'its own header differs from the directory');
  let [count, sum] = [0, 0];
  const stored = pieces(file, start, packed);
  for await (const piece of deflated ? inflated(what, stored, packed) : stored) {
    count += piece.length;
    if (count > size) break;
    sum = crc32(piece, sum);
    yield piece;
  }
  if (count !== size)
    throw malformed(
      what,
      `it has ${count > size ? 'more' : 'fewer'} bytes than the declared ${size}`,
    );
  if (sum !== entry.sum)
    throw malformed(what, 'its CRC-32 differs: the bytes were changed after they were written');
}

async function* pieces(
  file: Reading,
  place: number,
  size: number,
): AsyncGenerator<Uint8Array, void> {
  const room = new Uint8Array(Math.min(PIECE >> 4, size));
  for (let at = 0; at < size; at += room.length) {
    const piece = room.subarray(0, size - at);
    await file.read(piece, place + at);
    yield piece;
  }
}

async function* inflated(
  what: string,
  packed: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<Uint8Array, void> {
  const inflate = createInflateRaw();
  // Copies each piece, because pieces() reuses its memory and the stream may keep a chunk.
  const copies = (async function* () {
    for await (const piece of packed) yield piece.slice();
  })();
  // The callback ignores errors, because pipeline() destroys `inflate`, and the loop then throws.
  pipeline(Readable.from(copies), inflate, () => {});
  try {
    for await (const piece of inflate) yield piece as Uint8Array;
  } catch (error) {
    if (!`${(error as NodeJS.ErrnoException).code}`.startsWith('Z_')) throw error;
    throw malformed(what, `its deflated bytes are damaged: ${(error as Error).message}`);
  }
  if (inflate.bytesWritten !== size) throw malformed(what, 'its deflated bytes end too early');
}
