/**
 * Tests that the kernels of a linear layer give the bits of `gemm`, `bias_act`, `unary`,
 * `act_backward`, `unary_backward` and `column_sums`, one after the other, on the CPU device.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { firstDifference } from '../rig/same-bits.ts';

const NONE = -1;
const TANH = 9;
const RELU = 12;
const SILU = 13;
const OPS = [NONE, RELU, TANH, SILU];
/** The activations of `bias_act` and `act_backward`, by the number of their op. */
const ACTIVATIONS: Readonly<Record<number, number>> = { [NONE]: 0, [RELU]: 1, [TANH]: 2 };

type Shape = readonly [rows: number, inputs: number, outputs: number];

// Layers of learners, and shapes around the tiles and blocks of the built-in product.
const shapes: Shape[] = [
  [128, 4, 120],
  [128, 120, 84],
  [128, 84, 2],
  [256, 256, 256],
  [256, 256, 1],
  [1, 1, 1],
  [13, 257, 33],
  [121, 513, 65],
  [600, 3, 5],
];
const drawn = new Random(47);
for (let i = 0; i < 40; i++)
  shapes.push([1 + drawn.below(140), 1 + drawn.below(300), 1 + drawn.below(140)]);

describe('the kernels of a linear layer on the CPU device', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice('host:0');
    stream = device.createStream();
  });
  after(() => stream.close());

  const numbers = new Random(3);
  let made: Tensor[] = [];
  afterEach(() => {
    for (const tensor of made) tensor.close();
    made = [];
  });
  function some(n: number, next = () => numbers.between(-1, 1)): Tensor {
    const tensor = device.allocate({ shape: [n] });
    made.push(tensor);
    return tensor.write(Float32Array.from({ length: n }, next), stream);
  }
  /** Returns numbers of which some are NaN, 0 or −0. */
  const awkward = (n: number) =>
    some(n, () => [Number.NaN, 0, -0][numbers.below(20)] ?? numbers.between(-1, 1));

  async function expectSame(what: string, got: Tensor, want: Tensor): Promise<void> {
    const [a, b] = [await got.toArray(stream), await want.toArray(stream)];
    const at = firstDifference(a, b);
    expect(at, `${what}[${at}] is ${a[at]}, with separate kernels ${b[at]}`).to.equal(-1);
  }

  for (const op of OPS)
    it(`linear_act gives the bits of separate kernels for op ${op}`, async () => {
      for (const [rows, inputs, outputs] of shapes) {
        const n = rows * outputs;
        const [w, b] = [some(outputs * inputs), awkward(outputs)];
        // Every second layer reads its last input from another tensor.
        const split = inputs > 1 && rows % 2 === 1 ? inputs - 1 : inputs;
        const [x, x2] = [some(rows * split), some(rows)];
        const [y, z, only, wantY, wantZ] = [some(n), some(n), some(n), some(n), some(n)];
        for (const [to, kept] of [
          [y, z],
          [only, only],
        ] as const)
          stream.launch('linear_act', {
            tensors: [to, kept, x, x2, w, b],
            wholes: [1, rows, outputs, inputs, split, outputs, split, 1, 0, 0, 0, op],
          });
        stream.launch('gemm', {
          tensors: [wantZ, x, w],
          wholes: [0, 1, rows, outputs, split, split, inputs, outputs],
          reals: [1, 0],
        });
        if (split < inputs)
          stream.launch('gemm', {
            tensors: [wantZ, x2, w.view({ shape: [w.size - split], offset: split })],
            wholes: [0, 1, rows, outputs, 1, 1, inputs, outputs],
            reals: [1, 1],
          });
        const act = ACTIVATIONS[op];
        if (act !== undefined)
          stream.launch('bias_act', {
            tensors: [wantY, wantZ, b],
            wholes: [rows, outputs, outputs, outputs, act],
          });
        stream.launch('bias_act', {
          tensors: [wantZ, wantZ, b],
          wholes: [rows, outputs, outputs, outputs, 0],
        });
        if (act === undefined)
          stream.launch('unary', {
            tensors: [wantY, wantZ],
            wholes: [rows, outputs, outputs, outputs, op],
          });
        const of = `${rows} × ${inputs} × ${outputs}`;
        await expectSame(`y of ${of}`, y, wantY);
        await expectSame(`z of ${of}`, z, wantZ);
        await expectSame(`y without z of ${of}`, only, wantY);
      }
    });

  for (const op of OPS)
    it(`linear_backward gives the bits of separate kernels for op ${op}`, async () => {
      for (const [rows, inputs, outputs] of shapes) {
        const n = rows * inputs;
        const [dy, w, y] = [some(rows * outputs), some(outputs * inputs), awkward(n)];
        const [dx, want] = [some(n), some(n)];
        stream.launch('linear_backward', {
          tensors: [dx, dy, w, op === NONE ? dy : y],
          wholes: [1, rows, inputs, outputs, inputs, outputs, inputs, 0, 0, 0, 0, op],
        });
        stream.launch('gemm', {
          tensors: [want, dy, w],
          wholes: [0, 0, rows, inputs, outputs, outputs, inputs, inputs],
          reals: [1, 0],
        });
        const act = ACTIVATIONS[op];
        stream.launch(act === undefined ? 'unary_backward' : 'act_backward', {
          tensors: [want, want, y],
          wholes: [rows, inputs, inputs, inputs, inputs, act ?? op],
        });
        await expectSame(`dx of ${rows} × ${inputs} × ${outputs}`, dx, want);
      }
    });

  it('linear_gradients gives the bits of separate kernels', async () => {
    for (const [rows, inputs, outputs] of shapes) {
      const [dy, x] = [some(rows * outputs), some(rows * inputs)];
      const [dw, wantW, db, wantB] = [
        some(outputs * inputs),
        some(outputs * inputs),
        some(outputs),
        some(outputs),
      ];
      stream.launch('linear_gradients', {
        tensors: [dw, db, dy, x, x],
        wholes: [1, outputs, inputs, rows, inputs, outputs, inputs, inputs, 0, 0, 0],
      });
      stream.launch('gemm', {
        tensors: [wantW, dy, x],
        wholes: [1, 0, outputs, inputs, rows, outputs, inputs, inputs],
        reals: [1, 0],
      });
      stream.launch('column_sums', {
        tensors: [wantB, dy],
        wholes: [rows, outputs, outputs],
        reals: [1, 0],
      });
      const of = `${rows} × ${inputs} × ${outputs}`;
      await expectSame(`dw of ${of}`, dw, wantW);
      await expectSame(`db of ${of}`, db, wantB);
    }
  });
});
