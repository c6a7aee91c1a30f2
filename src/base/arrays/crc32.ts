/** CRC-32, by which a zip file's reader checks that its bytes are the ones that were written. */
import zlib from 'node:zlib';

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});

/** Sums byte by byte. `before` is the sum of the bytes in front, or 0 without any. */
export function crc32ByTable(bytes: Uint8Array, before = 0): number {
  let sum = ~before;
  for (let i = 0; i < bytes.length; i++)
    sum = (sum >>> 8) ^ (table[(sum ^ (bytes[i] as number)) & 0xff] as number);
  return ~sum >>> 0;
}

/** zlib's own function is many times as fast, but Node 21 and other runtimes lack it. */
export const crc32: (bytes: Uint8Array, before?: number) => number = zlib.crc32 ?? crc32ByTable;
