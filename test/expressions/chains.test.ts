/** Tests chains of elementwise ops: what a plan joins, and that the bits stay. */
import { expect } from 'chai';
import type { Expression } from '../../src/entries/trace.ts';
import { constant, grad, huber } from '../../src/entries/trace.ts';
import { chained } from '../../src/learn/trace/plan/chains.ts';
import type { Buffer } from '../../src/learn/trace/plan/launches.ts';
import type { Lowering } from '../../src/learn/trace/plan/lowering.ts';
import { setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { changedByChain } from './elementwise.ts';
import { all, arena, launch } from './hand-made.ts';
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

  it('chains of large ops have one result if more results need too much memory', async () => {
    const large: Inputs = {
      q: { shape: [8, 4, 5], values: numbers(160) },
      goal: { shape: [8, 1, 6], values: numbers(48) },
    };
    // Each pair has an error, as in a quantile loss, and the gradient reads several of its terms.
    const program: Program = ({ q, goal }) => {
      const scaled = goal!.add(1).mul(0.5);
      const error = scaled.reshape([8, 1, 1, 6]).sub(q!.reshape([8, 4, 5, 1]) as never);
      const loss = constant([0.1, 0.3, 0.5, 0.7, 0.9], [5, 1])
        .sub(error.lt(0) as never)
        .abs()
        .mul(huber(error) as never)
        .mean({ axis: [1, 2, 3] });
      const dq = grad(loss.square().mean(), [q!]).gradients[0]!;
      return { loss, dq, most: error.exp().max({ axis: [1, 2, 3] }) };
    };
    const [found, without] = [
      await computed(large, program),
      await computed(large, program, { chains: false }),
    ];
    expect(found.bits).to.deep.equal(without.bits);
    expect(found.bytes).to.be.at.most(1.2 * without.bytes);
    const joined = found.plan.match(/chain +\S+/g)!.map((row) => row.split(/ +/)[1]);
    expect(joined).to.include.members(['add+mul', 'lt+sub+abs', 'huber+mul']);
  });

  it('ops move back to the first chain that reads their result', async () => {
    const matrices: Inputs = {
      x: { shape: [4, 4], values: numbers(16) },
      y: { shape: [4, 4], values: numbers(16) },
    };
    const kernels = async (program: Program) => {
      const found = await computed(matrices, program, { poison: true });
      const without = await computed(matrices, program, { chains: false });
      expect(found.bits).to.deep.equal(without.bits);
      return kernelsOf(found.plan);
    };
    const scaled = (x: Expression) => x.mul(0.5).tanh();
    const product = (a: Expression, b: Expression) => a.matmul(b as never) as Expression;
    const back: Program = ({ x, y }) => {
      const first = scaled(x!);
      return { z: product(y!, y!).add(first).relu() };
    };
    expect(await kernels(back)).to.deep.equal(['gemm', 'chain']);
    const read: Program = ({ x, y }) => {
      const first = scaled(x!);
      return { z: product(first, y!).add(first).relu() };
    };
    expect(await kernels(read)).to.deep.equal(['chain', 'gemm', 'chain']);
    const sum: Program = ({ x, y }) => {
      const first = x!.slice(0, 0, 1).slice(1, 0, 1).reshape([]).add(1).exp();
      return { z: product(y!, y!).sum().mul(first).neg() };
    };
    expect(await kernels(sum)).to.deep.equal(['gemm', 'sum_chain']);
  });

  it('an op does not move past a write of memory that it reads through another buffer', () => {
    const outside = (at: number, more: object) =>
      arena(4, { ...more, tensor: { size: 4, handle: 7, byteOffset: 16 * at } });
    const unary = (to: Buffer, from: Buffer) =>
      launch('unary', [all(to), all(from)], { wholes: [1, 4, 4, 4, 9] });
    const constants: number[] = [];
    const lowering = {
      constants,
      constant: (words: Float32Array) => {
        const offset = constants.push(...words) - words.length;
        return { buffer: arena(0, { kind: 'constants' }), offset, strides: [1] };
      },
    } as unknown as Lowering;
    const [first, second, result] = [arena(4), arena(4), arena(4)];
    for (const [at, moves] of [
      [0, false],
      [1, true],
    ] as const) {
      const launches = [
        unary(first, outside(0, { kind: 'memory', name: 'alpha' })),
        launch('gemm', [all(second), all(result)]),
        launch('fill', [all(outside(at, { output: true }))]),
        unary(result, first),
      ];
      const kernels = chained(lowering, launches).map(({ kernel }) => kernel);
      const apart = ['unary', 'gemm', 'fill', 'unary'];
      expect(kernels).to.deep.equal(moves ? ['gemm', 'fill', 'chain'] : apart);
    }
  });

  describe('a sum of all elements', () => {
    const scalars = Object.fromEntries(
      ['a', 'b', 'c', 'd', 'e'].map((name, i) => [name, { shape: [], values: [i / 4 - 0.3] }]),
    );
    const summed = async (shape: readonly number[], program: Program) => {
      const values = numbers(shape.reduce((a, b) => a * b, 1));
      const given: Inputs = { x: { shape: [...shape], values }, ...scalars };
      // A sum of an input keeps its kernel, so the program sums memory of the plan.
      const copied: Program = ({ x, ...rest }) => program({ x: x!.softmax(), ...rest });
      const found = await computed(given, copied, { poison: true });
      const without = await computed(given, copied, { chains: false });
      expect(found.bits).to.deep.equal(without.bits);
      return kernelsOf(found.plan).filter((kernel) => !/^(copy2d|softmax_rows)$/.test(kernel!));
    };
    const loss: Program = ({ x, a }) => ({
      y: x!.mean().add(a!).exp().mul(a!.tanh()).neg(),
    });
    const kinds: readonly (readonly [string, readonly number[], readonly string[]])[] = [
      ['of a row', [700], ['sum_chain']],
      ['of a long row', [4096], ['sum_chain']],
      ['of rows', [8, 200], ['sum_chain']],
      ['of many pieces', [40, 1000], ['reduce_rows', 'sum_chain']],
    ];
    for (const [what, shape, kernels] of kinds)
      it(`${what} and the ops on it are one launch`, async () => {
        expect(await summed(shape, loss)).to.deep.equal(kernels);
      });

    it('keeps its kernel if no op reads it', async () => {
      const kernels = await summed([300], ({ x, a }) => ({ y: x!.sum(), z: a!.exp() }));
      expect(kernels).to.have.members(['reduce_rows', 'unary']);
    });

    it('is a result too', async () => {
      const kernels = await summed([300], ({ x }) => {
        const sum = x!.mul(x!).sum();
        return { sum, exp: sum.exp(), square: sum.square() };
      });
      expect(kernels).to.deep.equal(['binary', 'sum_chain']);
    });

    it('takes up to five other inputs', async () => {
      const adding =
        (names: string): Program =>
        (given) => ({
          y: [...names].reduce((sum, name) => sum.add(given[name]!), given.x!.sum() as Expression),
        });
      expect(await summed([300], adding('abcde'))).to.deep.equal(['sum_chain']);
      const six: Program = (given) => {
        const { y } = adding('abcde')(given) as { y: Expression };
        return { y: y.add(given.x!.slice(0, 0, 1).reshape([])) };
      };
      expect(await summed([300], six)).to.deep.equal(['sum_chain', 'binary']);
    });
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
