/**
 * Tests the seeded generator: a seed always gives the same numbers, and streams of one seed differ.
 */
import { expect } from 'chai';
import { Random } from '../src/index.ts';

const words = (random: Random, count = 4) =>
  Array.from({ length: count }, () => random.next() * 2 ** 32);

describe('Random', () => {
  const known: [seed: number, words: number[]][] = [
    [0, [1427488602, 1980682239, 456575201, 3300212312]],
    [1, [573063952, 3268221502, 703077755, 2308299391]],
    [54, [1781459532, 2414375728, 3450180156, 2625868149]],
    [2 ** 32 + 7, [3323809990, 3060668360, 994740675, 552079981]],
    [2 ** 53 - 1, [4251970214, 283121339, 3233253927, 4087913446]],
  ];
  for (const [seed, expected] of known)
    it(`next() returns the recorded numbers for seed ${seed}`, () => {
      expect(words(new Random(seed))).to.deep.equal(expected);
    });

  it('next() differs in half of its bits between neighboring seeds and streams', () => {
    const bits = (a: number, b: number) => ((a ^ b) >>> 0).toString(2).replaceAll('0', '').length;
    let differing = 0;
    const pairs = 1000;
    for (let n = 0; n < pairs; n++) {
      const [here] = words(new Random(3, n), 1) as [number];
      const [there] = words(n % 2 === 0 ? new Random(3, n + 1) : new Random(4, n), 1) as [number];
      differing += bits(here, there);
    }
    expect(differing / pairs / 32).to.be.closeTo(0.5, 0.02);
  });

  it('below() returns every allowed integer, and between() covers its range', () => {
    const random = new Random(9);
    const seen = new Set<number>();
    let [least, most, sum] = [1, -1, 0];
    for (let n = 0; n < 10_000; n++) {
      seen.add(random.below(7));
      const value = random.between(-0.5, 0.25);
      [least, most, sum] = [Math.min(least, value), Math.max(most, value), sum + value];
    }
    expect([...seen].sort()).to.deep.equal([0, 1, 2, 3, 4, 5, 6]);
    expect(least).to.be.within(-0.5, -0.499);
    expect(most).to.be.within(0.249, 0.25);
    expect(sum / 10_000).to.be.closeTo(-0.125, 0.01);
  });

  it('constructor throws for seeds and streams that are not whole numbers in range', () => {
    for (const seed of [-1, 0.5, Number.NaN, 2 ** 53])
      expect(() => new Random(seed)).to.throw(
        RangeError,
        `seed must be a whole number of at least 0, got ${seed}`,
      );
    for (const stream of [-1, 0.5, 2 ** 32])
      expect(() => new Random(1, stream)).to.throw(
        RangeError,
        `stream must be a whole number of at least 0`,
      );
    expect(() => new Random('1' as unknown as number)).to.throw(TypeError, 'seed must be a number');
  });
});
