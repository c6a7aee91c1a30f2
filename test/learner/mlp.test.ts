/**
 * Tests the gradients of Mlp: the float64 reference against finite differences, and the kernels
 * against the reference.
 */
import { expect } from 'chai';
import type { Device, Tensor } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { Mlp, type MlpOptions } from '../../src/entries/learner.ts';
import { TESTED } from '../rig/tested-device.ts';
import {
  backward,
  expectClose,
  flat,
  forward,
  type Rows,
  randomRows,
  rounded,
} from './reference.ts';

const nets: (MlpOptions & { rows: number })[] = [
  { sizes: [3, 5, 2], activation: 'relu', rows: 1 },
  { sizes: [4, 120, 84, 2], activation: 'relu', rows: 33 },
  { sizes: [7, 13, 17, 5], activation: 'tanh', rows: 19 },
  { sizes: [5, 9, 3], activation: 'tanh', outputActivation: 'tanh', rows: 64 },
  { sizes: [6, 4], rows: 11 },
];

/** Returns Σ y·dy, the scalar whose gradient backward() computes. */
const scalarOf = (y: Rows, dy: Rows) =>
  y.reduce((sum, row, r) => sum + row.reduce((s, v, o) => s + v * (dy[r]?.[o] as number), 0), 0);

describe('Mlp', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });

  it('lays out W1, b1, W2, b2 without gaps, and initializes them uniformly within ±1/√inputs', () => {
    const mlp = new Mlp({ sizes: [4, 120, 84, 2] });
    expect(mlp.parameterCount).to.equal(4 * 120 + 120 + 120 * 84 + 84 + 84 * 2 + 2);
    expect(mlp.parameters.map(({ offset }) => offset)).to.deep.equal([
      0, 480, 600, 10680, 10764, 10932,
    ]);
    expect(mlp.parameters.map(({ name, shape }) => `${name} ${shape}`).slice(2, 4)).to.deep.equal([
      '2.weight 84,120',
      '2.bias 84',
    ]);
    const weights = mlp.initialize(5);
    expect(weights).to.deep.equal(mlp.initialize(5));
    expect(weights).to.not.deep.equal(mlp.initialize(6));
    const second = weights.slice(600, 10764);
    const bound = 1 / Math.sqrt(120);
    expect(Math.max(...second)).to.be.within(0.99 * bound, bound);
    expect(Math.min(...second)).to.be.within(-bound, -0.99 * bound);
    expect(second.reduce((s, v) => s + v, 0) / second.length).to.be.closeTo(0, 0.02 * bound);
  });

  it('the reference gradient agrees with finite differences', () => {
    for (const { rows, ...options } of nets.filter(({ sizes }) => sizes[1] !== 120)) {
      const mlp = new Mlp(options);
      const parameters = [...mlp.initialize(1)];
      const x = randomRows(2, rows, mlp.inputs);
      const dy = randomRows(3, rows, mlp.outputs);
      const { gradient, inputGradient } = backward(
        mlp,
        parameters,
        forward(mlp, parameters, x),
        dy,
      );
      const value = (p: number[], input: Rows) =>
        scalarOf(forward(mlp, p, input).at(-1) as Rows, dy);
      const step = 1e-6;
      const slope = (f: (d: number) => number) => (f(step) - f(-step)) / (2 * step);
      const numeric = parameters.map((p, i) => slope((d) => value(parameters.with(i, p + d), x)));
      expectClose(gradient, numeric, 1e-7, `parameters of [${options.sizes}]`);
      const first = x[0] as number[];
      const atInput = first.map((v, i) =>
        slope((d) => value(parameters, [first.with(i, v + d), ...x.slice(1)])),
      );
      expectClose(inputGradient[0] as number[], atInput, 1e-7, `input of [${options.sizes}]`);
    }
  });

  for (const { rows, ...options } of nets) {
    it(`forward and backward of [${options.sizes}] ${options.activation ?? ''} on ${rows} rows agree with the reference`, async () => {
      const mlp = new Mlp(options);
      const weights = mlp.initialize(1);
      const x = rounded(randomRows(2, rows, mlp.inputs));
      const dy = rounded(randomRows(3, rows, mlp.outputs));
      const passes = forward(mlp, weights, x);
      const want = backward(mlp, weights, passes, dy);

      // The input is a block of columns in wider rows, as in packed replay rows.
      const width = mlp.inputs + 5;
      using packed = device.allocate({ shape: [rows, width] });
      packed.write(flat(x.map((row) => [7, 7, ...row, 7, 7, 7])));
      const input = packed.view({ shape: [rows, mlp.inputs], offset: 2, strides: [width, 1] });
      using parameters = device.allocate({ shape: [mlp.parameterCount] }).write(weights);
      using gradient = device.allocate({ shape: [mlp.parameterCount] });
      using inputGradient = device.allocate({ shape: [rows, mlp.inputs] });
      using workspace = mlp.workspace(device, rows, { backward: true });
      workspace.outputGradient.write(flat(dy));
      const stream = device.currentStream;
      const layers = mlp.over(parameters);
      const y = mlp.forward(stream, layers, input, workspace);
      mlp.backward(stream, layers, input, workspace, mlp.over(gradient), inputGradient);
      expectClose(await y.toArray(), (passes.at(-1) as Rows).flat(), 3e-6, 'outputs');
      expectClose(await gradient.toArray(), want.gradient, 3e-5, 'gradient');
      expectClose(await inputGradient.toArray(), want.inputGradient.flat(), 3e-5, 'input gradient');
    });
  }

  it('throws with the shapes when shapes do not fit', () => {
    expect(() => new Mlp({ sizes: [4] })).to.throw(RangeError, '[4]');
    expect(() => new Mlp({ sizes: [4, 0, 2] })).to.throw(RangeError, 'sizes[1]');
    expect(() => new Mlp({ sizes: [4, 2], activation: 'gelu' as 'relu' })).to.throw(
      TypeError,
      'gelu',
    );
    const mlp = new Mlp({ sizes: [4, 8, 2] });
    using parameters = device.allocate({ shape: [mlp.parameterCount] });
    using short = device.allocate({ shape: [mlp.parameterCount - 1] });
    using input = device.allocate({ shape: [16, 5] });
    using ints = device.allocate({ shape: [16, 4], dtype: 'int32' });
    using workspace = mlp.workspace(device, 16);
    const layers = mlp.over(parameters);
    const run = (x: Tensor) => () =>
      mlp.forward(device.currentStream, layers, x as Tensor<'float32'>, workspace);
    expect(() => mlp.over(short)).to.throw(
      RangeError,
      `${mlp.parameterCount} contiguous floats, got ${mlp.parameterCount - 1}`,
    );
    expect(run(input)).to.throw(RangeError, 'input must be 16×4, got 16×5');
    expect(run(ints)).to.throw(TypeError, 'int32');
    expect(run(input.view({ shape: [16, 4], strides: [1, 16] }))).to.throw(TypeError, '[1,16]');
    expect(() => mlp.backward(device.currentStream, layers, input, workspace, layers)).to.throw(
      'without backward',
    );
  });
});
