/** CRC-32C (Castagnoli, 1993): the checksum of TFRecord files. */

/** The polynomial, with its bits in reversed order. */
const POLYNOMIAL = 0x82f63b78;

/** For each value of a byte, what that byte contributes to the remainder. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
  return rest;
});

/** Returns the checksum of the bytes, a number from 0 to 2³² − 1. */
export function crc32c(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (let i = 0; i < bytes.length; i++)
    rest = (rest >>> 8) ^ (table[(rest ^ (bytes[i] as number)) & 255] as number);
  return (rest ^ 0xffffffff) >>> 0;
}

/**
 * Returns the checksum in the form that TFRecord stores: rotated by 15 bits, plus a constant. In
 * this form, a checksum of data that contains checksums stays meaningful.
 */
export function maskedCrc32c(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
