/** Tests chains of elementwise ops: what a plan joins, and that the bits stay. */
import { expect } from 'chai';
import type { Expression } from '../../src/entries/trace.ts';
import { grad } from '../../src/entries/trace.ts';
import { setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { changedByChain } from './elementwise.ts';
import { computed, type Inputs, type Program } from './rig.ts';

const COUNT = ON_HOST ? setting({ short: 30, all: 60, long: 60 }) : 15;
const numbers = (size: number) => Array.from({ length: size }, (_, i) => (i % 11) / 4 - 1);
const inputs: Inputs = {
  x: { shape: [4, 6], values: numbers(24) },
  row: { shape: [1, 6], values: numbers(6) },
};
const kernelsOf = (plan: string) =>
  plan
    .split('\n')
    .slice(3)
    .map((line) => line.split(/ {2,}/)[1]);

describe('chains of elementwise ops', () => {
  const planned = (program: Program) => computed(inputs, program);

  it(`${COUNT} random programs have the bits of separate launches`, async () => {
    for (let seed = 0; seed < COUNT; seed++) {
      const { changed, with: found, without } = await changedByChain(seed);
      expect(changed, `seed ${seed}\n${found.plan}\n${without.plan}`).to.equal(null);
      expect(found.launches).to.be.at.most(without.launches);
      expect(found.bytes).to.be.at.most(
        1.2 * without.bytes + 256 * (without.launches - found.launches),
      );
    }
  });

  it('a plan joins ops that follow each other, and shows them in its table', async () => {
    const { plan, launches } = await planned(({ x, row }) => ({
      y: x!
        .add(row! as never)
        .tanh()
        .mul(2)
        .relu(),
    }));
    expect(launches).to.equal(1);
    expect(plan).to.match(/chain +add\+tanh\+mul\+relu/);
  });

  it('one op keeps its own kernel', async () => {
    const { plan } = await planned(({ x }) => ({ y: x!.tanh() }));
    expect(kernelsOf(plan)).to.deep.equal(['unary']);
  });

  it('a chain has at most 16 steps', async () => {
    const { plan } = await planned(({ x }) => {
      let y = x as Expression;
      for (let i = 0; i < 20; i++) y = y.sin();
      return { y };
    });
    expect(kernelsOf(plan)).to.deep.equal(['chain', 'chain']);
  });

  /** Adds up this many inputs. */
  const summed = (count: number): Promise<{ plan: string; launches: number }> => {
    const names = Array.from({ length: count }, (_, i) => `x${i}`);
    return computed(
      Object.fromEntries(names.map((name) => [name, { shape: [5], values: numbers(5) }])),
      (given) => ({ sum: names.map((name) => given[name]!).reduce((a, b) => a.add(b as never)) }),
    );
  };

  it('a chain reads at most 6 inputs', async () => {
    expect((await summed(6)).launches).to.equal(1);
    const { plan } = await summed(7);
    expect(kernelsOf(plan)).to.deep.equal(['chain', 'binary']);
  });

  it('a chain writes at most 4 results', async () => {
    const kernels = async (count: number) => {
      const { plan } = await planned(({ x }) => {
        let y = x as Expression;
        return Object.fromEntries(
          Array.from({ length: count }, (_, i) => {
            y = y.sin();
            return [`y${i}`, y];
          }),
        );
      });
      return kernelsOf(plan);
    };
    expect(await kernels(4)).to.deep.equal(['chain']);
    expect(await kernels(5)).to.deep.equal(['chain', 'unary']);
  });

  it('values that a chain computes and other launches read become its outputs', async () => {
    const { plan, launches } = await planned(({ x }) => {
      const y = x!.tanh();
      const { gradients } = grad(y.square().mean(), [x!]);
      return { y, dx: gradients[0]! };
    });
    expect(kernelsOf(plan)).to.deep.equal(['chain']);
    expect(launches).to.equal(1);
  });
});
