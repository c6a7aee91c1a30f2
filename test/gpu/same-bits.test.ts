/**
 * Tests the comparison that finds the first differing bits of two arrays, and the reference of
 * products.
 */
import { expect } from 'chai';
import { fused, sumOfProducts } from '../rig/fused.ts';
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

describe('fused()', () => {
  it('rounds once', () => {
    const [a, b] = [(1 + 2 ** -23) * 2 ** -12, (1 - 2 ** -23) * 2 ** -12];
    // The sum is just below the middle of two numbers, which a sum in float64 does not show.
    const [below, above] = [1 + 2 ** -23, 1 + 2 ** -22];
    expect(Math.fround(a * b + below)).to.equal(above);
    expect(fused(a, b, below)).to.equal(below);
    expect(fused(-a, b, -below)).to.equal(-below);
    // It is just above the middle here.
    expect(Math.fround(-a * b + above)).to.equal(above);
    expect(fused(-a, b, above)).to.equal(above);
    expect(fused(a, -b, 1 + 3 * 2 ** -23)).to.equal(1 + 3 * 2 ** -23);
    const [c, d] = [Math.fround(1 / 3), Math.fround(1 / 7)];
    expect(fused(c, d, -Math.fround(c * d))).to.equal(c * d - Math.fround(c * d));
  });

  it('keeps the sign of zero, subnormal numbers, infinities and NaN', () => {
    expect(Object.is(fused(1e-30, -1e-30, 0), -0)).to.equal(true);
    expect(Object.is(fused(0, -1, 0), 0)).to.equal(true);
    expect(fused(2 ** -75, 2 ** -74, 2 ** -149)).to.equal(2 ** -148);
    expect(fused(3e38, 2, 0)).to.equal(Number.POSITIVE_INFINITY);
    expect(fused(3e38, 2, -3e38)).to.equal(Math.fround(3e38));
    expect(fused(Number.POSITIVE_INFINITY, 0, 1)).to.be.NaN;
  });

  it('adds products in pieces of 64', () => {
    const large = 2 ** 24;
    // A single chain would lose each 1 after the large term.
    const terms = [large, ...new Array<number>(127).fill(1)];
    const sum = sumOfProducts(
      128,
      (k) => terms[k]!,
      () => 1,
    );
    expect(sum).to.equal(large + 64);
  });
});
