/** Tests chains of operators: transfers, joined operators, and rejected chains. */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { Chain, Identity, NamedLinop, ToDevice } from '../../src/entries/linop.ts';
import type { CpuTensor, Tensor } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import {
  allDtypes,
  close,
  closeDevices,
  first,
  operand,
  paired,
  places,
  randomBytes,
  Scale,
  second,
  valuesIn,
} from './places.ts';

const random = new Random(20240607);
const pick = <T>(from: readonly T[]): T => from[random.below(from.length)] as T;

describe('linop/chain', () => {
  after(closeDevices);
  it('a chain moves values over any devices without changing a bit, and its adjoint moves them back', async () => {
    for (let i = 0; i < 20; i++) {
      const path = Array.from({ length: 2 + random.below(4) }, () => pick(places));
      const moves = path.slice(1).map((to, at) => new ToDevice(path[at] as string, to, ['N']));
      const chain = new Chain(...moves);
      const values = randomBytes(pick(allDtypes), 33, random);
      const x = operand(path[0] as string, values, [33]);
      const before = openHandles().memory as number;
      const y = await chain.forward(x);
      expect(new Uint8Array((await valuesIn(y)).buffer), path.join()).to.deep.equal(
        new Uint8Array(values.buffer),
      );
      const back = (await chain.adjoint().forward(y)) as Tensor | CpuTensor;
      expect([chain.adjoint().idevice, chain.adjoint().odevice]).to.deep.equal([
        path.at(-1),
        path[0],
      ]);
      expect(new Uint8Array((await back.toArray()).buffer)).to.deep.equal(
        new Uint8Array(values.buffer),
      );
      for (const each of [y, back]) if (each !== x) close(each);
      // The chain closed the tensors between its operators, and not its input.
      expect(openHandles().memory, path.join()).to.equal(before);
      expect(await valuesIn(x)).to.deep.equal(values);
      close(x);
      for (const move of moves) move.close();
    }
  });

  it('normal(inner) applies the inner operator between the chain and its adjoint', async function () {
    if (!paired) this.skip();
    using op = new ToDevice(first, second, ['N']);
    const chain = new Chain(op, new Scale(second, 2, ['N']), op.adjoint());
    using x = operand(first, Float32Array.of(1, 2), [2]) as Tensor;
    const before = openHandles().memory as number;
    using y = chain.normal(new Scale(first, 5, ['N'])).forward(x) as Tensor;
    expect(await valuesIn(y)).to.deep.equal(Float32Array.of(20, 40));
    using z = chain.normal().forward(x) as Tensor;
    expect(await valuesIn(z)).to.deep.equal(Float32Array.of(4, 8));
    using nested = new Chain(chain, new Chain(chain), new Identity(['N'])).forward(x) as Tensor;
    expect(await valuesIn(nested)).to.deep.equal(Float32Array.of(4, 8));
    expect(openHandles().memory).to.equal(before + 3);
  });

  it('a chain closes intermediate tensors but not its input if an operator throws or rejects', async () => {
    class Failing extends NamedLinop {
      readonly late: boolean;
      constructor(late: boolean) {
        super(null, null);
        this.late = late;
      }
      forward(): Promise<never> {
        if (this.late) return Promise.reject(new Error('too late'));
        throw new Error('no');
      }
      adjoint(): this {
        return this;
      }
    }
    using op = new ToDevice('cpu', first);
    const before = openHandles().memory;
    expect(
      refusal(() => new Chain(op, new Failing(false)).forward(new Float32Array(2))).message,
    ).to.equal('no');
    const late = new Chain(op, new Failing(true)).forward(new Float32Array(2)) as Promise<unknown>;
    expect((await rejection(late)).message).to.equal('too late');
    expect(openHandles().memory).to.equal(before);
    using x = op.forward(new Float32Array(2)) as Tensor;
    refusal(() => new Chain(op.adjoint().normal(), op.normal(), new Failing(false)).forward(x));
    refusal(() => new Chain(new Identity(), new Failing(false)).forward(x));
    expect(x.closed).to.equal(false);
  });

  it('new Chain() throws for adjacent operators that do not fit', () => {
    using op = new ToDevice('cpu', first, ['N']);
    const wrong: [call: () => unknown, text: RegExp][] = [
      [
        () => new Chain(op, new Identity(['M'])),
        /its output is \["N"\], and the next input is \["M"\]/,
      ],
      [
        () => new Chain(op, op),
        new RegExp(`output is on ${first}; put a ToDevice to cpu between them`),
      ],
      [() => new Chain(), /at least one operator/],
      [() => new Chain(op, 3 as never), /made of NamedLinops, got 3/],
      [
        () => new Chain(op).forward(new Float32Array(1), { stream: 1 } as never),
        /unknown option 'stream'/,
      ],
    ];
    for (const [call, text] of wrong) expect(refusal(call).message).to.match(text);
    expect(new Chain(op, new Identity(), op.adjoint()).oshape).to.deep.equal(['N']);
  });
});
