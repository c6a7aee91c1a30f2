/** Tests the comparison that finds the first differing bits of two arrays. */
import { expect } from 'chai';
import { firstDifference } from '../rig/same-bits.ts';

const floats = (...bits: number[]) => new Float32Array(Uint32Array.from(bits).buffer);

describe('firstDifference()', () => {
  it('treats all NaN values as equal, and returns the first index at which other bits differ', () => {
    const want = floats(0x3f800000, 0xffc00000, 0x80000000);
    expect(firstDifference(floats(0x3f800000, 0x7fffffff, 0x80000000), want)).to.equal(-1);
    expect(
      firstDifference(floats(0x3f800000, 0x7f800000, 0x80000000), want),
      'infinity for NaN',
    ).to.equal(1);
    expect(
      firstDifference(floats(0x7fffffff, 0xffc00000, 0x80000000), want),
      'NaN for a number',
    ).to.equal(0);
    expect(firstDifference(floats(0x3f800000, 0xffc00000, 0), want), 'zeros of two signs').to.equal(
      2,
    );
    expect(
      firstDifference(floats(0x3f800001, 0x7fffffff, 0x80000000), want),
      'the last bit',
    ).to.equal(0);
    expect(firstDifference(floats(0x3f800000, 0xffc00000), want), 'one element less').to.equal(2);
    expect(
      firstDifference(BigInt64Array.of(1n, 2n), BigInt64Array.of(1n, 3n)),
      'whole numbers',
    ).to.equal(1);
  });
});
