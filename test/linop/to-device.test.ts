/**
 * Tests ToDevice as a linear operator: its properties for everything that it moves, and its errors.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { nativeDevices } from '../../src/device/native.ts';
import { Identity, ToDevice } from '../../src/entries/linop.ts';
import { CpuTensor, type Device, type Tensor } from '../../src/index.ts';
import { Thread } from '../device/thread.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import {
  allDtypes,
  close,
  closeDevices,
  deviceOf,
  dot,
  first,
  operand,
  paired,
  places,
  randomBytes,
  randomShape,
  randomValues,
  Scale,
  second,
  valuesIn,
} from './places.ts';

const random = new Random(20240607);
const pairs = places.flatMap((from) => places.map((to) => [from, to] as const));

describe('linop/to-device', () => {
  after(closeDevices);
  for (const [from, to] of pairs) {
    describe(`${from} -> ${to}`, () => {
      let there: ToDevice;
      before(() => {
        there = new ToDevice(from, to);
      });
      after(() => there.close());

      it('forward() and its adjoint keep shape, dtype and every bit', async () => {
        for (const dtype of allDtypes) {
          const shape = randomShape(random);
          const values = randomBytes(
            dtype,
            shape.reduce((n, d) => n * d, 1),
            random,
          );
          const x = operand(from, values, shape, dtype);
          const y = (await there.forward(x)) as Tensor | CpuTensor;
          const back = (await there.adjoint().forward(y)) as Tensor | CpuTensor;
          for (const each of [y, back]) {
            expect([each.dtype, each.shape]).to.deep.equal([dtype, shape]);
            expect(new Uint8Array((await each.toArray()).buffer)).to.deep.equal(
              new Uint8Array(values.buffer),
            );
          }
          close(x, y, back);
        }
      });

      it('satisfies the adjoint identity ⟨Ax, y⟩ = ⟨x, Aᴴy⟩', async () => {
        for (const dtype of allDtypes) {
          const shape = randomShape(random);
          const [xs, ys] = [randomValues(dtype, shape, random), randomValues(dtype, shape, random)];
          const [x, y] = [operand(from, xs, shape, dtype), operand(to, ys, shape, dtype)];
          const ax = await there.forward(x);
          const ahy = await there.adjoint().forward(y);
          expect(dot(await valuesIn(ax), ys)).to.equal(dot(xs, await valuesIn(ahy)));
          close(x, y, ax, ahy);
        }
      });

      it('adjoint() swaps the specs, and the adjoint of the adjoint has the original specs', () => {
        const adjoint = there.adjoint();
        expect([adjoint.ispec, adjoint.ospec]).to.deep.equal([there.ospec, there.ispec]);
        const again = adjoint.adjoint();
        expect(again.ispec).to.equal(there.ispec);
        expect(again.ospec).to.equal(there.ospec);
        expect(String(again)).to.equal(String(there));
      });

      it('has the names of its devices, isGpu2gpu and a text form', () => {
        expect([there.ispec.name, there.ospec.name, there.idevice, there.odevice]).to.deep.equal([
          from,
          to,
          from,
          to,
        ]);
        expect(there.isGpu2gpu).to.equal(from !== 'cpu' && to !== 'cpu');
        expect(String(there)).to.match(
          new RegExp(`^ToDevice\\(${from} -> ${to}, any, compute=\\S+->\\S+, transfer=\\S+\\)$`),
        );
      });

      if (from === to) {
        it('forward() returns the input itself', () => {
          const x = operand(from, Float32Array.of(1, 2), [2]);
          expect(there.forward(x)).to.equal(x);
          close(x);
        });
      } else if (to !== 'cpu') {
        it('the input can be closed or overwritten right after forward()', async () => {
          const values = Float32Array.from({ length: 50_000 }, (_, i) => i);
          const x = operand(from, values.slice(), [50_000]);
          const answer = there.forward(x);
          if (x instanceof CpuTensor) (x.data as Float32Array).fill(-1);
          else x.close();
          const y = (await answer) as Tensor;
          expect(await valuesIn(y)).to.deep.equal(values);
          y.close();
        });
      }
    });
  }

  it('forward() returns dense tensors for fields of packed rows', async () => {
    for (const to of places.filter((place) => place !== first)) {
      using op = new ToDevice(first, to);
      for (const dtype of ['float32', 'int32', 'uint8', 'float64', 'int16'] as const) {
        using packed = operand(first, randomValues(dtype, [6, 16], random), [6, 16]) as Tensor;
        for (const shape of [
          [6, 8],
          [6, 2, 4],
          [1, 6, 8],
        ]) {
          const strides = shape.length === 2 ? [16, 1] : shape[0] === 1 ? [500, 16, 1] : [16, 4, 1];
          const x = packed.view({ shape, offset: 4, strides });
          const y = (await op.forward(x)) as Tensor | CpuTensor;
          expect(y.shape).to.deep.equal(shape);
          expect(await y.toArray()).to.deep.equal(await x.toArray());
          close(y);
        }
      }
    }
  });

  it('forward() to a device of the same family throws for other strides, with the values', function () {
    if (!paired) this.skip();
    using op = new ToDevice(first, second);
    using x = operand(first, new Float32Array(12), [3, 4]) as Tensor;
    const before = openHandles();
    for (const view of [
      { shape: [4, 3], strides: [1, 4] },
      { shape: [5], strides: [0] },
    ]) {
      const error = refusal(() => op.forward(x.view(view)));
      expect(error).to.be.instanceOf(TypeError);
      expect(error.message)
        .to.include(`float32 [${view.shape}] with strides [${view.strides}]`)
        .and.include('dense');
    }
    expect(openHandles()).to.deep.equal(before);
  });

  it('forward() copies through pinned memory if devices cannot reach each other, without blocking', async function () {
    if (!paired) this.skip();
    const core = nativeDevices();
    const { reaches } = core;
    core.reaches = () => false;
    try {
      using op = new ToDevice(first, second);
      const before = openHandles();
      const x = operand(first, Float32Array.of(1, 2, 3, 4), [2, 2]) as Tensor;
      const y = op.forward(x) as Tensor;
      x.close();
      expect(Array.from((await y.toArray()) as Float32Array)).to.deep.equal([1, 2, 3, 4]);
      y.close();
      expect(openHandles()).to.deep.equal(before);
    } finally {
      core.reaches = reaches;
    }
  });

  it('forward() treats a typed array as a tensor of one dimension', async () => {
    using op = new ToDevice('cpu', first, ['N']);
    using x = op.forward(Int16Array.of(4, 5)) as Tensor;
    expect([x.dtype, x.shape]).to.deep.equal(['int16', [2]]);
    const back = (await op.adjoint().forward(x)) as CpuTensor;
    expect(back).to.be.instanceOf(CpuTensor);
    expect(back.data).to.deep.equal(Int16Array.of(4, 5));
  });

  it('forwardSync() waits for a readback in a worker, and throws in the main thread', async () => {
    const thread = new Thread('moveSync', { device: first });
    expect(await thread.result()).to.deep.equal([1, 2, 3, 10, 11, 20, 21]);
    using op = new ToDevice(first, 'cpu');
    using x = operand(first, new Float32Array(1), [1]) as Tensor;
    expect(refusal(() => op.forwardSync(x)).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
  });

  it('normal() returns the identity, and normal(inner) applies inner on the target device', async function () {
    if (!paired) this.skip();
    using op = new ToDevice(first, second, ['N']);
    const identity = op.normal();
    expect(identity).to.be.instanceOf(Identity);
    using x = operand(first, Float32Array.of(1, 2, 3), [3]) as Tensor;
    expect(identity.forward(x)).to.equal(x);
    expect(refusal(() => identity.forward(new Float32Array(3))).message).to.match(
      /input on \w+:0, got one on cpu/,
    );
    const inner = new Scale(second, 3, ['N']);
    using y = op.normal(inner).forward(x) as Tensor;
    expect(y.device.name).to.equal(first);
    expect(await valuesIn(y)).to.deep.equal(Float32Array.of(3, 6, 9));
  });

  it('split() keeps specs and shape, and throws for invalid dimensions and ranges', () => {
    using op = new ToDevice('cpu', first, ['N', 'C']);
    const part = op.split({ N: { start: 0, stop: 8 } });
    expect([part.ispec, part.ospec]).to.deep.equal([op.ispec, op.ospec]);
    expect(part.ishape).to.deep.equal(['N', 'C']);
    expect(refusal(() => op.split({ M: { start: 0, stop: 8 } })).message).to.equal(
      `split: dimension 'M' is missing in ["N","C"]`,
    );
    expect(refusal(() => op.split({ N: { start: 4, stop: 2 } })).message).to.include(
      'at least 4, got 2',
    );
    expect(refusal(() => op.split(3 as never))).to.be.instanceOf(TypeError);
  });

  it('calls throw for invalid inputs and options, and leave no handle open', async () => {
    using op = new ToDevice(first, 'cpu', ['N']);
    const elsewhere = places.find((place) => place !== 'cpu' && place !== first) as string;
    using far = operand(elsewhere, new Float32Array(2), [2]) as Tensor;
    using flat = operand(first, new Float32Array(4), [2, 2]) as Tensor;
    const closed = operand(first, new Float32Array(2), [2]) as Tensor;
    closed.close();
    using event = deviceOf(first).createEvent();
    const before = openHandles();
    const refused: [call: () => unknown, text: RegExp][] = [
      [() => op.forward(far), new RegExp(`input on ${first}, got one on ${elsewhere}`)],
      [() => op.forward(new Float32Array(2)), new RegExp(`input on ${first}, got one on cpu`)],
      [() => op.adjoint().forward(flat), new RegExp(`input on cpu, got one on ${first}`)],
      [() => op.forward(flat), /takes 1 dimensions \["N"\], got 2 of \[2,2\]/],
      [() => op.forward(5 as never), /typed array, got 5/],
      [() => op.forward(flat, { start: event } as never), /unknown option 'start'/],
      [() => op.forward(flat, { startEvent: 7 as never }), /startEvent must be an event, got 7/],
      [() => op.adjoint().forward(new Float32Array(1), { startEvent: event }), /input is on cpu/],
      [() => new ToDevice(7 as never), /a name or null, takes an opened device, got 7/],
      [() => new ToDevice('cpu', first, 'N' as never), /array of dimension names.*got 'N'/],
      [
        () => new ToDevice('cpu', first, [1] as never),
        /array of dimension names.*got an array of 1/,
      ],
      [
        () =>
          new (ToDevice as unknown as new (...all: unknown[]) => unknown)(
            'cpu',
            first,
            null,
            'async',
          ),
        /1 more: 'async'/,
      ],
    ];
    for (const [call, text] of refused) {
      const error = refusal(call);
      expect(error, String(text)).to.be.instanceOf(TypeError);
      expect(error.message).to.match(text);
    }
    expect(refusal(() => op.forward(closed)).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    expect(refusal(() => new ToDevice(first, 'abacus:0')).code).to.equal(
      'ERR_HOTSLOT_UNKNOWN_DEVICE',
    );
    expect(openHandles()).to.deep.equal(before);
  });

  it('close() closes devices opened by name, and leaves given devices open', () => {
    const op = new ToDevice(first, deviceOf('host:0'));
    const [mine, given] = [op.ispec.device as Device, op.ospec.device as Device];
    op.close();
    op.close();
    expect([mine.closed, given.closed]).to.deep.equal([true, false]);
  });
});
