/** Tests masks of legal actions in traces: the kernel of bits, and the fields { mask: n } of a batch. */
import { expect } from 'chai';
import type { DType } from '../../../src/base/dtype.ts';
import { maskWords, packMasks, unpackMasks } from '../../../src/base/mask-bits.ts';
import {
  adam,
  categoricalLoss,
  categoricalProject,
  checkGradients,
  constant,
  learner,
  parameter,
  trace,
} from '../../../src/entries/trace.ts';
import type { Tensor } from '../../../src/index.ts';
import { launchAnything } from '../../rig/launch.ts';
import { refusal } from '../../rig/refusal.ts';
import { numbers, Rig } from './rig.ts';

const sizes = [1, 31, 32, 33, 64, 65, 4096];
const legal = (count: number, seed: number) =>
  Uint8Array.from(numbers(count, seed), (x) => Number(x > 0));

describe('masks in traces', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  /** Returns rows of a tensor that lie `gap` elements apart, among elements that are all set. */
  function strided(
    values: Uint8Array | Uint32Array | Float32Array,
    dtype: DType,
    rows: number,
    gap: number,
  ): Tensor {
    const width = values.length / rows;
    const all = values.constructor as Uint32ArrayConstructor;
    const packed = new all(rows * (width + gap)).fill(dtype === 'uint32' ? 0xffffffff : 1);
    for (let row = 0; row < rows; row++)
      packed.set(
        values.subarray(row * width, (row + 1) * width) as never,
        row * (width + gap) + gap,
      );
    const memory = rig.keep(
      rig.device.allocate({ shape: [rows, width + gap], dtype }).write(packed as never),
    );
    return memory.view({ shape: [rows, width], offset: gap, strides: [width + gap, 1] });
  }

  for (const n of sizes)
    it(`unpack_bits writes ${n} numbers a row, and nothing between rows`, async () => {
      const rows = 5;
      const bytes = legal(rows * n, n);
      const words = packMasks(bytes, n);
      for (const [outGap, wordGap] of [
        [0, 0],
        [3, 2],
      ] as const) {
        const bits = strided(words, 'uint32', rows, wordGap);
        const memory = rig.tensor(
          [rows, n + outGap],
          new Float32Array(rows * (n + outGap)).fill(7),
        );
        const out = memory.view({ shape: [rows, n], offset: outGap, strides: [n + outGap, 1] });
        rig.stream.launch('unpack_bits', {
          tensors: [out, bits],
          wholes: [rows, n, n + outGap, maskWords(n) + wordGap],
        });
        const wanted = new Float32Array(rows * (n + outGap)).fill(7);
        bytes.forEach((byte, i) => {
          wanted[Math.floor(i / n) * (n + outGap) + outGap + (i % n)] = byte;
        });
        expect(await memory.toArray()).to.deep.equal(wanted);
      }
    });

  it('unpack_bits ignores the bits after the last action', async () => {
    const bits = rig.keep(
      rig.device
        .allocate({ shape: [2, 2], dtype: 'uint32' })
        .write(Uint32Array.of(0, 0xfffffffe, 0, 0xffffffff)),
    );
    const out = rig.zeros(2, 33);
    rig.stream.launch('unpack_bits', { tensors: [out, bits], wholes: [2, 33, 33, 2] });
    const got = await out.toArray();
    expect([got[32], got[65], got.reduce((a, b) => a + b)]).to.deep.equal([0, 1, 1]);
  });

  it('unpack_bits refuses words of another dtype, and rows that are too short', () => {
    const out = rig.zeros(2, 33);
    const words = (dtype: DType) => rig.keep(rig.device.allocate({ shape: [2, 2], dtype }));
    const says = (dtype: DType, wholes: number[]) =>
      refusal(() =>
        launchAnything(rig.stream, 'unpack_bits', { tensors: [out, words(dtype)], wholes }),
      ).message;
    expect(says('int32', [2, 33, 33, 2])).to.equal(
      "kernel 'unpack_bits': tensor 1 is int32, but this launch takes uint32",
    );
    expect(says('uint32', [2, 33, 33, 1])).to.include(
      "words_stride must be at least the row's 2 elements",
    );
    expect(says('uint32', [2, 65, 65, 3])).to.include('tensor 0');
  });

  /** Makes a learner whose priorities are the weighted sums of each row's mask. */
  const summing = (rows: number, n: number) =>
    rig.keep(
      learner(rig.device, {
        name: 'sums',
        rows,
        batch: { mask: { mask: n }, x: [] },
        parameters: { a: parameter({ initial: 1 }) },
        optimizers: { a: adam() },
        update(_, { mask, x }, { a }) {
          const weights = constant(Array.from({ length: n }, (_, j) => 1 + (j % 97)));
          const sum = mask.ne(0).mul(weights).sum({ axis: 1 });
          return { minimize: { a: x.mul(a).mean() }, priorities: sum };
        },
      }),
    );

  for (const n of sizes)
    it(`a field { mask: ${n} } takes bits, bool, uint8 and float32 in rows with gaps`, async () => {
      const rows = 3;
      const made = summing(rows, n);
      await made.ready;
      const bytes = legal(2 * rows * n, 7 * n);
      const wanted = Array.from({ length: 2 * rows }, (_, row) =>
        bytes
          .subarray(row * n, (row + 1) * n)
          .reduce((sum, byte, j) => sum + byte * (1 + (j % 97)), 0),
      );
      const forms: [DType, Uint8Array | Uint32Array | Float32Array][] = [
        ['uint32', packMasks(bytes, n)],
        ['bool', bytes],
        ['uint8', bytes.map((byte) => 200 * byte)],
        ['float32', Float32Array.from(bytes, (byte) => -0.25 * byte)],
      ];
      for (const [dtype, values] of forms)
        for (const gap of [0, 2]) {
          const priorities = rig.zeros(2 * rows);
          const mask = strided(values, dtype, 2 * rows, gap);
          // Two minibatches, so that the second one begins inside of the tensor.
          const batch = { mask, x: rig.zeros(2 * rows), priorities };
          made.update(rig.stream, batch, rig.zeros(1));
          expect([...(await priorities.toArray())], `${dtype}, gap ${gap}`).to.deep.equal(wanted);
        }
    });

  it('a captured update unpacks the bits of each replay', async () => {
    const made = summing(2, 40);
    await made.ready;
    const mask = rig.keep(rig.device.allocate({ shape: [2, 2], dtype: 'uint32' }));
    const priorities = rig.zeros(2);
    const batch = { mask, x: rig.zeros(2), priorities };
    const out = rig.zeros(1);
    await rig.stream.synchronize();
    const replay = rig.captured((stream) => made.update(stream, batch, out));
    for (const words of [
      [1, 0, 0, 1],
      [3, 128, 0x80000000, 0],
    ]) {
      mask.write(Uint32Array.from(words));
      replay();
      const bytes = unpackMasks(Uint32Array.from(words), 40);
      const sums = [0, 1].map((row) =>
        bytes.subarray(40 * row, 40 * row + 40).reduce((sum, byte, j) => sum + byte * (1 + j), 0),
      );
      expect([...(await priorities.toArray())]).to.deep.equal(sums);
    }
  });

  it('masks of more than 4,096 conditions, and of other shapes and dtypes, are refused', async () => {
    for (const [size, got] of [
      [4097, 'a whole number of at least 1 and at most 4096, got 4097 ('],
      [0, 'a whole number of at least 1 and at most 4096, got 0 ('],
      [1.5, 'a whole number of at least 1 and at most 4096, got 1.5 ('],
      ['six', 'a number, got string (six) ('],
    ] as const)
      expect(refusal(() => summing(2, size as number)).message).to.include(
        `learner: batch field 'mask': mask must be ${got}`,
      );
    const made = summing(2, 40);
    await made.ready;
    const run = (mask: unknown) =>
      refusal(() => made.update(rig.stream, { mask, x: rig.zeros(2) }, rig.zeros(1))).message;
    const tensor = (dtype: DType, ...shape: number[]) =>
      rig.keep(rig.device.allocate({ shape, dtype }));
    const kinds = 'uint32 \\[rows, 2\\] of bits, or bool, uint8 or float32 \\[rows, 40\\]';
    const says = (of: string) => new RegExp(`^sums: mask must be ${kinds}, got ${of}`);
    expect(run(tensor('uint32', 2, 40))).to.match(says('uint32 \\[2, 40\\] \\('));
    expect(run(tensor('bool', 2, 2))).to.match(says('bool \\[2, 2\\] \\('));
    expect(run(tensor('uint32', 4))).to.match(says('uint32 \\[4\\] \\('));
    expect(run(tensor('int32', 2, 2))).to.match(says('int32 \\('));
    expect(run(tensor('float64', 2, 40))).to.match(says('float64 \\('));
    expect(run(undefined)).to.match(
      /^sums: a batch needs a tensor 'mask'; this one has mask, x \(/,
    );
    const wide = tensor('uint32', 2, 4).view({ shape: [2, 2], strides: [4, 2] });
    expect(run(wide)).to.match(
      /^sums: mask must be rows of neighboring elements, got strides \[4, 2\]/,
    );
    expect(
      refusal(() =>
        made.update(rig.stream, { x: rig.zeros(2), mask: tensor('bool', 4, 40) }, rig.zeros(1)),
      ).message,
    ).to.match(/^sums: 'x' must be \[4\], got \[2\]/);
  });

  it('the interpreter ignores NaN in the probabilities of a final state, as the kernel does', async () => {
    const inputs = { probs: [2, 3], rewards: [2], discounts: [2], logits: [2, 3] } as const;
    const range = { min: -1, max: 1 };
    const traced = rig.keep(
      trace(rig.device, inputs, ({ probs, rewards, discounts, logits }) => {
        const { projected } = categoricalProject(probs, rewards, discounts, range);
        const { loss } = categoricalLoss(logits, projected, range);
        const nan = Number.NaN;
        const values = {
          probs: [nan, nan, nan, 0.2, 0.3, 0.5],
          rewards: [0.5, 0],
          discounts: [0, 0.5],
        };
        expect(checkGradients(loss.sum(), [logits], { values }).error).to.be.below(1e-6);
        return { projected };
      }),
    );
    traced.run(rig.stream, {
      probs: rig.tensor([2, 3], Float32Array.of(Number.NaN, Number.NaN, Number.NaN, 0.2, 0.3, 0.5)),
      rewards: rig.tensor([2], Float32Array.of(0.5, 0)),
      discounts: rig.tensor([2], Float32Array.of(0, 0.5)),
      logits: rig.zeros(2, 3),
    });
    const { projected } = traced.outputs;
    expect([...(await projected.toArray())].slice(0, 3)).to.deep.equal([0, 0.5, 0.5]);
  });
});
