/** Tests structures of tensors: copies to a device, and overwriting in place. */
import { expect } from 'chai';
import { cloneTensorsInStruct, copyTensorsInStruct } from '../../src/entries/graph.ts';
import { closeTensorsIn, tensorsIn } from '../../src/extras/full-iteration/struct.ts';
import { CpuTensor, type Device, openDevice, type Tensor } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { tensorOf, valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';

describe('graph/struct', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });
  after(() => device.close());

  it('copyTensorsInStruct() copies every nested tensor to a new one, and keeps all other values', async () => {
    using own = await tensorOf(device, [1, 2]);
    const callback = () => {};
    const date = new Date();
    const src = {
      image: { pixels: new Float32Array([1, 2, 3]), mask: [new Uint8Array([9]), own] },
      grid: new CpuTensor(new Int32Array([1, 2, 3, 4]), [2, 2]),
      step: 3,
      none: null,
      callback,
      date,
    };
    const copy = copyTensorsInStruct(src, device) as unknown as {
      image: { pixels: Tensor; mask: Tensor[] };
      grid: Tensor;
    } & Record<string, unknown>;
    expect([copy.grid.shape, copy.grid.dtype, copy.image.pixels.shape]).to.deep.equal([
      [2, 2],
      'int32',
      [3],
    ]);
    expect(await valuesOf(copy.image.pixels)).to.deep.equal([1, 2, 3]);
    expect(await valuesOf(copy.image.mask[0] as Tensor)).to.deep.equal([9]);
    expect(await valuesOf(copy.image.mask[1] as Tensor)).to.deep.equal([1, 2]);
    expect(copy.image.mask[1]).to.not.equal(own);
    expect([copy.step, copy.none, copy.callback, copy.date]).to.deep.equal([
      3,
      null,
      callback,
      date,
    ]);
    closeTensorsIn(copy);
  });

  it('cloneTensorsInStruct() overwrites tensors in place, and assigns all other values', async () => {
    const target = copyTensorsInStruct(
      { a: new Float32Array(2), list: [new Int32Array(1)], n: 1 },
      device,
    ) as unknown as {
      a: Tensor;
      list: Tensor[];
      n: number;
    };
    const [a, inner] = [target.a, target.list[0]];
    cloneTensorsInStruct(target, {
      a: new Float32Array([5, 6]),
      list: [new Int32Array([7])],
      n: 2,
    });
    expect([target.a === a, target.list[0] === inner, target.n]).to.deep.equal([true, true, 2]);
    expect([await valuesOf(target.a), await valuesOf(target.list[0] as Tensor)]).to.deep.equal([
      [5, 6],
      [7],
    ]);
    closeTensorsIn(target);
  });

  it('both functions preserve array holes, and accept keys with the names of inherited properties', async () => {
    const holes = [new Float32Array([1])];
    holes[2] = new Float32Array([3]);
    const odd = { toString: new Float32Array([4]), constructor: new Float32Array([5]) };
    const copy = copyTensorsInStruct({ holes, odd }, device) as unknown as {
      holes: Tensor[];
      odd: typeof odd;
    };
    expect([copy.holes.length, 1 in copy.holes]).to.deep.equal([3, false]);
    expect(await valuesOf(copy.holes[2] as Tensor)).to.deep.equal([3]);
    expect(
      refusal(() => cloneTensorsInStruct(copy.odd, { valueOf: odd.toString })).message,
    ).to.include('valueOf is a tensor of float32 1, which the target lacks');
    cloneTensorsInStruct(copy.odd, odd);
    expect(await valuesOf(copy.odd.constructor as unknown as Tensor)).to.deep.equal([5]);
    closeTensorsIn(copy);
  });

  it('tensorsIn() gives every tensor a unique path', () => {
    const f = new Float32Array(1);
    const paths = [...tensorsIn({ a: { b: f, 'c d': [f] }, 'a.b': f, 'a[0]': f, '': f })].map(
      ([path]) => path,
    );
    expect(paths).to.deep.equal(['a.b', 'a["c d"][0]', '["a.b"]', '["a[0]"]', '[""]']);
  });

  it('copyTensorsInStruct() copies in stream order, and its inputs can change or close at once', async () => {
    using stream = device.createStream();
    const values = new Float32Array([1, 2]);
    using latch = new Latch(device).hold(stream);
    const given = await tensorOf(device, [3]);
    const copy = copyTensorsInStruct({ values, given }, device, stream) as unknown as Record<
      string,
      Tensor
    >;
    values.fill(9);
    given.close();
    latch.open();
    expect(await valuesOf(copy.values as Tensor, stream)).to.deep.equal([1, 2]);
    expect(await valuesOf(copy.given as Tensor, stream)).to.deep.equal([3]);
    closeTensorsIn(copy);
  });

  it('both functions throw for invalid containers and mismatches, with the path, before any write', async () => {
    using own = device.allocate({ shape: [2] });
    for (const [bad, words] of [
      [own, /got a tensor of float32 2/],
      [new Float32Array(3), /got a tensor of float32 3/],
      [null, /got null/],
      [7, /got 7/],
      [new Map(), /got a Map$/],
      ['a string', /got 'a string'/],
    ] as const) {
      expect(refusal(() => copyTensorsInStruct(bad as never, device)).message).to.match(words);
      expect(refusal(() => cloneTensorsInStruct({}, bad as never)).message).to.match(words);
    }
    const target = copyTensorsInStruct(
      { a: new Float32Array([1]), deep: { b: new Float32Array(2) } },
      device,
    );
    const fits = { a: new Float32Array([9]) };
    for (const [src, words] of [
      [
        { ...fits, deep: { b: new Float32Array(3) } },
        "deep.b is float32 3, the target's is float32 2",
      ],
      [
        { ...fits, deep: { b: new Float64Array(2) } },
        "deep.b is float64 2, the target's is float32 2",
      ],
      [
        { ...fits, deep: { c: new Float32Array(2) } },
        'deep.c is a tensor of float32 2, which the target lacks',
      ],
      [{ ...fits, deep: [new Float32Array(2)] }, 'deep is an array'],
      [{ ...fits, other: {} }, 'other is an array or object, which the target lacks'],
    ] as const)
      expect(refusal(() => cloneTensorsInStruct(target, src)).message).to.include(words);
    const tuple = Object.freeze([new Float32Array(1)]);
    expect(refusal(() => cloneTensorsInStruct(tuple, [new Float32Array(1)])).message).to.include(
      'frozen',
    );
    expect(await valuesOf(target.a as unknown as Tensor), 'the target is unchanged').to.deep.equal([
      1,
    ]);
    closeTensorsIn(target);
    expect(refusal(() => copyTensorsInStruct({ a: target.a }, device)).code).to.equal(
      'ERR_HOTSLOT_STATE_CLOSED',
    );
  });
});
