/** Tests that uniform draws equal torch's, value by value, and so do the rows packed from them. */
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { uniformIndices } from '../../src/store/rows/sampler.ts';
import { checkSample, type SampleCase, sampleName } from '../golden/sample.ts';

const fixture = new URL('../../../test/fixtures/sample_torch.json', import.meta.url);
const { cases } = JSON.parse(readFileSync(fixture, 'utf8')) as { cases: SampleCase[] };

describe('seeded sampling of rows', () => {
  for (const golden of cases) {
    it(`draws and packs the same rows as torch: ${sampleName(golden)}`, () => checkSample(golden));
  }

  it('uniformIndices() uses the low 32 bits of a seed that is a number or bigint', () => {
    const want = uniformIndices({ seed: 7, size: 1000, count: 50 });
    expect(uniformIndices({ seed: 7n, size: 1000, count: 50 })).to.deep.equal(want);
    expect(uniformIndices({ seed: 7 + 2 ** 32 * 5, size: 1000, count: 50 })).to.deep.equal(want);
    expect(
      uniformIndices({ seed: 2n ** 64n - 2n ** 32n + 7n, size: 1000, count: 50 }),
    ).to.deep.equal(want);
  });

  it('uniformIndices() draws from the largest size, and returns an empty array for count 0', () => {
    const drawn = uniformIndices({ seed: 1, size: 2 ** 32 - 1, count: 1000 });
    expect(Math.max(...drawn)).to.be.greaterThan(2 ** 31);
    expect(uniformIndices({ seed: 1, size: 5, count: 0 })).to.have.length(0);
    expect(uniformIndices({ seed: 3, size: 1, count: 9 })).to.deep.equal(new Uint32Array(9));
  });

  it('uniformIndices() throws for invalid seeds, sizes and counts', () => {
    const draw = (seed: unknown, size: unknown, count: unknown) => () =>
      uniformIndices({ seed: seed as number, size: size as number, count: count as number });
    for (const seed of [-1, 1.5, Number.NaN, 2 ** 53, -1n, 2n ** 64n]) {
      expect(draw(seed, 1, 1))
        .to.throw(RangeError, `got ${seed}`)
        .with.property('code', 'ERR_HOTSLOT_RANGE');
    }
    expect(draw('1', 1, 1))
      .to.throw(TypeError, 'seed must be a number or a bigint')
      .with.property('code', 'ERR_HOTSLOT_ARGUMENT');
    for (const size of [0, -1, 1.5, Number.NaN, 2 ** 32])
      expect(draw(1, size, 1)).to.throw(RangeError, `got ${size}`);
    for (const count of [-1, 0.5, Number.NaN])
      expect(draw(1, 1, count)).to.throw(RangeError, `got ${count}`);
    expect(draw(1, '4', 1)).to.throw(TypeError, 'size');
  });
});
