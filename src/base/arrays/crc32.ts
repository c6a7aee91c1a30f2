/** Computes CRC-32, with which a reader of a zip file checks that its bytes are unchanged. */
import zlib from 'node:zlib';

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});

/**
 * Returns the CRC-32 of `bytes`. To continue a checksum, `before` is the CRC-32 of all earlier
 * bytes.
 */
export function crc32ByTable(bytes: Uint8Array, before = 0): number {
  let sum = ~before;
  for (let i = 0; i < bytes.length; i++)
    sum = (sum >>> 8) ^ (table[(sum ^ (bytes[i] as number)) & 0xff] as number);
  return ~sum >>> 0;
}

/**
 * Returns the CRC-32 like crc32ByTable(). Uses zlib's function, which is many times faster, if the
 * runtime has it. Node 21 does not.
 */
export const crc32: (bytes: Uint8Array, before?: number) => number = zlib.crc32 ?? crc32ByTable;
