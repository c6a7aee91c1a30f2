/** Plans whose targets, losses and sums take one launch, compared with plans of single launches. */
import { expect } from 'chai';
import { type Expression, normal } from '../../src/entries/trace.ts';
import {
  compared,
  kernelsOf,
  placed,
  projectionShapes,
  projections,
  projectionValues,
  tdCases,
  tdShapes,
  tdValues,
} from './head-cases.ts';

describe('a TD target and its loss', () => {
  for (const [what, rows, fn, joined] of tdCases)
    it(`${what}, with equal bits`, async () => {
      const { one, single } = await compared(tdShapes(rows), fn, tdValues);
      expect(one.includes('td_loss_target')).to.equal(joined);
      expect(one.includes('td_target_discounts')).to.equal(!joined);
      expect(single).to.include('td_target_discounts');
      expect(one.length).to.equal(single.length - (joined ? 1 : 0));
    });
});

describe('a softmax and its projection', () => {
  for (const [what, atoms, fn, saved] of projections)
    it(`${what}, with equal bits`, async () => {
      const { one, single } = await compared(projectionShapes(atoms), fn, projectionValues);
      expect(one.includes('categorical_target')).to.equal(saved > 0);
      expect(one.includes('softmax_rows')).to.equal(saved === 0);
      expect(single).to.include('categorical_project');
      expect(one.length).to.be.at.most(single.length - Math.min(saved, 1));
      if (saved === 2) expect(one).to.not.include('binary');
    });
});

describe('a target with a launch between it and its reader', () => {
  for (const [what, launches, kernels] of placed)
    it(what, () => {
      expect(kernelsOf(launches)).to.deep.equal(kernels);
    });
});

describe('sums', () => {
  it('of two to four members are elementwise ops of a chain', async () => {
    for (const members of [2, 3, 4, 5]) {
      const { one, single } = await compared({ x: [members, 5, 3] }, ({ x }) => {
        const mean = x!.exp().mean({ axis: 0 }) as Expression;
        return { sum: x!.sum({ axis: 0 }).tanh() as Expression, mean: mean.mul(mean) };
      });
      const sums = (kernels: readonly string[]) => kernels.filter((each) => each === 'column_sums');
      expect(sums(single)).to.have.length(2);
      expect(sums(one)).to.have.length(members > 4 ? 2 : 0);
      expect(one.length).to.be.at.most(single.length);
    }
  });

  it('of up to 16,384 elements are one launch', async () => {
    for (const [n, kernel, count] of [
      [1024, 'reduce_rows', 1],
      [1025, 'sum_long', 1],
      [2048, 'sum_long', 1],
      [16_384, 'sum_long', 1],
      [16_416, 'reduce_rows', 2],
      [1031, 'reduce_rows', 1],
    ] as const) {
      const { one } = await compared({ x: [n] }, ({ x }) => ({
        mean: x!.add(1).mean() as Expression,
      }));
      expect(one.slice(1), String(n)).to.deep.equal(new Array(count).fill(kernel));
    }
  });

  it('of a strided or repeated value have equal bits', async () => {
    await compared({ x: [64, 64] }, ({ x }) => ({
      transposed: x!.transpose().sum() as Expression,
      max: x!.max() as Expression,
      column: x!.slice(1, 3, 40).mean() as Expression,
    }));
  });

  it('draws of a trace keep their numbers', async () => {
    const { one, single } = await compared({ x: [3] }, ({ x }) => ({
      a: (normal([3]) as Expression).add(x!),
      b: (normal([3]) as Expression).mul(x!),
    }));
    const draws = (kernels: readonly string[]) => kernels.filter((each) => /random/.test(each));
    expect([draws(one).length, draws(single).length]).to.deep.equal([1, 2]);
  });
});
