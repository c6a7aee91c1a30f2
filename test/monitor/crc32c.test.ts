/**
 * Tests CRC-32C and its masked form against the checksums that RFC 3720 and other documents print.
 */
import { expect } from 'chai';
import { crc32c, maskedCrc32c } from '../../src/net/monitor/crc32c.ts';

describe('crc32c()', () => {
  for (const [what, bytes, sum] of [
    ['no bytes', [], 0],
    ['one letter', [...Buffer.from('a')], 0xc1d04330],
    ['123456789', [...Buffer.from('123456789')], 0xe3069283],
    ['32 zeros', new Array<number>(32).fill(0), 0x8a9136aa],
    ['32 bytes of ones', new Array<number>(32).fill(255), 0x62a8ab43],
    ['0 to 31', Array.from({ length: 32 }, (_, i) => i), 0x46dd794e],
    ['31 to 0', Array.from({ length: 32 }, (_, i) => 31 - i), 0x113fdb5c],
  ] as const)
    it(`returns the published checksum of ${what}`, () =>
      expect(crc32c(Uint8Array.from(bytes))).to.equal(sum));

  it('stays within 32 bits when it is masked', () => {
    // 0xe3069283 rotated right by 15 bits is 0x2507c60d. Its sum with 0xa282ead8 is below 2³².
    expect(maskedCrc32c(Buffer.from('123456789'))).to.equal(0x2507c60d + 0xa282ead8);
    // 0x8a9136aa rotated is 0x6d551522. Its sum is above 2³².
    expect(maskedCrc32c(new Uint8Array(32))).to.equal(0x6d551522 + 0xa282ead8 - 2 ** 32);
  });
});
