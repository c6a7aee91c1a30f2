/**
 * A rig that compares a network on the tested device with float64: weights, a batch of strided
 * rows, and gradients by finite differences.
 */

import { Random } from '../../src/base/random.ts';
import { Network } from '../../src/entries/learner.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';
import { type Layered, outputOf } from './network-reference.ts';
import { expectClose } from './reference.ts';

export interface NetworkRig {
  readonly device: Device;
  readonly stream: Stream;
  /** objects that are closed after each test */
  readonly open: { close(): void }[];
  floats(shape: number[], values?: Float32Array): Tensor<'float32'>;
}

/** Creates a rig, whose device and stream belong to the calling suite. */
export function networkRig(): NetworkRig {
  const open: { close(): void }[] = [];
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.createStream();
  });
  afterEach(() => {
    for (const made of open.splice(0)) made.close();
  });
  after(() => stream.close());
  return {
    get device() {
      return device;
    },
    get stream() {
      return stream;
    },
    open,
    floats(shape, values) {
      const made = device.allocate({ shape });
      open.push(made);
      return values === undefined ? made : made.write(values, stream);
    },
  };
}

/**
 * Creates a network with weights, a batch of strided rows, and the factors c of its loss Σ y · c.
 */
export function setUp(
  { device, stream, open, floats }: NetworkRig,
  layers: Layered,
  rows: number,
  seed = 1,
) {
  const net = new Network(layers);
  const random = new Random(seed);
  const some = (n: number) => Float32Array.from({ length: n }, () => random.between(-1.5, 1.5));
  const weights = net.initialize(seed).map((value) => value + random.between(-0.1, 0.1));
  const wide = some(rows * (net.inputs + 2));
  const input = floats([rows, net.inputs + 2], wide).view({
    shape: [rows, net.inputs],
    offset: 1,
    strides: [net.inputs + 2, 1],
  });
  const x = Array.from({ length: rows }, (_, i) => [
    ...wide.subarray(i * (net.inputs + 2) + 1, i * (net.inputs + 2) + 1 + net.inputs),
  ]);
  const c = some(rows * net.outputs);
  const workspace = net.workspace(device, rows, { backward: true });
  open.push(workspace);
  const flat = floats([net.parameterCount], weights);
  const gradient = floats([net.parameterCount]);
  const inputGradient = floats([rows, net.inputs]);
  const above = floats([rows, net.outputs], c);
  const pass = () => {
    const y = net.forward(stream, net.over(flat), input, workspace);
    stream.copy(workspace.outputGradient, above);
    net.backward(stream, net.over(flat), input, workspace, net.over(gradient), inputGradient);
    return y;
  };
  return { net, weights, x, c, pass, gradient, inputGradient, workspace, flat, input };
}

/** Checks that outputs and gradients of a network equal those of float64. */
export async function expectGradients(
  rig: NetworkRig,
  layers: Layered,
  rows: number,
): Promise<void> {
  const { stream } = rig;
  const { net, weights, x, c, pass, gradient, inputGradient } = setUp(rig, layers, rows);
  const y = pass();
  const at = (flat: ArrayLike<number>, input: number[][]) => outputOf(net, flat, input).flat();
  expectClose(await y.toArray(stream), at(weights, x), 2e-6, 'output');
  const loss = (flat: ArrayLike<number>, input: number[][]) =>
    at(flat, input).reduce((sum, value, i) => sum + value * c[i]!, 0);
  const h = 1e-5;
  const slope = (change: (by: number) => number) => (change(h) - change(-h)) / (2 * h);
  const own = Float64Array.from(weights);
  const ofWeights = [...own].map((value, i) =>
    slope((by) => {
      own[i] = value + by;
      const found = loss(own, x);
      own[i] = value;
      return found;
    }),
  );
  expectClose(await gradient.toArray(stream), ofWeights, 2e-5, 'gradient');
  const ofInput = x.flatMap((row) =>
    row.map((value, j) =>
      slope((by) => {
        row[j] = value + by;
        const found = loss(own, x);
        row[j] = value;
        return found;
      }),
    ),
  );
  expectClose(await inputGradient.toArray(stream), ofInput, 2e-5, 'input gradient');
}
