/**
 * Tests Network against float64: outputs, and gradients by finite differences. Also tests captured
 * against eager passes, and invalid arguments.
 */
import { expect } from 'chai';
import {
  dueling,
  elu,
  expectation,
  gelu,
  geluTanh,
  type Layer,
  layerNorm,
  linear,
  Network,
  ops,
  quantileMean,
  relu,
  sigmoid,
  silu,
  tanh,
} from '../../src/entries/learner.ts';
import { refusal } from '../rig/refusal.ts';
import { activations, EPSILONS, type Layered } from './network-reference.ts';
import { expectGradients, networkRig, setUp } from './network-rig.ts';

const wider = layerNorm(4, { epsilon: 1e-3 });
EPSILONS.set(wider, 1e-3);
const nets: Layered[] = [
  [linear(3, 5), relu(), linear(5, 2)],
  [linear(4, 6), layerNorm(6), silu(), linear(6, 3)],
  [layerNorm(5), linear(5, 4), tanh(), wider],
  [
    linear(7, 17),
    layerNorm(17),
    gelu(),
    linear(17, 18),
    geluTanh(),
    layerNorm(18),
    elu(),
    linear(18, 1),
    sigmoid(),
  ],
  [linear(3, 4), dueling(3)],
  [linear(3, 20), dueling(3, { atoms: 5 }), expectation(3, { atoms: 5, min: -1, max: 2 })],
  [linear(3, 12), quantileMean(4, 3)],
];

describe('Network', () => {
  const rig = networkRig();

  for (const layers of nets)
    it(`agrees with float64 in outputs and gradients: ${layers.map(({ name }) => name).join(' ')}`, () =>
      expectGradients(rig, layers, 6));

  it('lists parameters with the names and layouts of torch, and initializes them by seed', () => {
    const net = new Network([linear(3, 2), layerNorm(2), relu(), linear(2, 1)]);
    expect(net.parameters).to.deep.equal([
      { name: '0.weight', shape: [2, 3], offset: 0 },
      { name: '0.bias', shape: [2], offset: 6 },
      { name: '1.weight', shape: [2], offset: 8 },
      { name: '1.bias', shape: [2], offset: 10 },
      { name: '3.weight', shape: [1, 2], offset: 12 },
      { name: '3.bias', shape: [1], offset: 14 },
    ]);
    expect([net.inputs, net.outputs, net.parameterCount]).to.deep.equal([3, 1, 15]);
    const first = net.initialize(5);
    expect(first).to.deep.equal(net.initialize(5));
    expect(first).to.not.deep.equal(net.initialize(6));
    expect([...first.subarray(8, 12)]).to.deep.equal([1, 1, 0, 0]);
    const bound = 1 / Math.sqrt(3);
    for (const value of first.subarray(0, 8)) expect(Math.abs(value)).to.be.at.most(bound);
  });

  it('launching captured passes equals eager passes to the bit, without an input gradient', async () => {
    const { stream } = rig;
    const { net, pass, gradient, workspace, flat, input } = setUp(rig, nets[1] as Layer[], 17);
    pass();
    const issued = await gradient.toArray(stream);
    stream.fill(gradient, 0);
    stream.beginCapture();
    const y = net.forward(stream, net.over(flat), input, workspace);
    ops.mul(stream, workspace.outputGradient, y, y);
    net.backward(stream, net.over(flat), input, workspace, net.over(gradient));
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    const other = await gradient.toArray(stream);
    expect(other).to.not.deep.equal(issued);
    const now = net.forward(stream, net.over(flat), input, workspace);
    ops.mul(stream, workspace.outputGradient, now, now);
    net.backward(stream, net.over(flat), input, workspace, net.over(gradient));
    expect(await gradient.toArray(stream)).to.deep.equal(other);
  });

  it('fuses a linear layer, layerNorm and an activation with the bits of separate layers', async () => {
    const { stream } = rig;
    const plain = (layers: Layered): Layer[] => layers.map(({ fuse: _, ...layer }) => layer);
    for (const act of [
      [],
      [silu()],
      [relu()],
      [tanh()],
      [gelu()],
      [elu()],
      [sigmoid()],
      [geluTanh()],
    ]) {
      const layers = [linear(5, 40), layerNorm(40, { epsilon: 1e-4 }), ...act, linear(40, 2)];
      const [fused, apart] = [setUp(rig, layers, 19), setUp(rig, plain(layers), 19)];
      expect(fused.workspace.outputs.length, act[0]?.name).to.equal(2);
      expect(apart.workspace.outputs.length).to.equal(layers.length);
      expect(fused.net.parameters).to.deep.equal(apart.net.parameters);
      expect(await fused.pass().toArray(stream), act[0]?.name).to.deep.equal(
        await apart.pass().toArray(stream),
      );
      for (const which of ['gradient', 'inputGradient'] as const)
        expect(await fused[which].toArray(stream), act[0]?.name).to.deep.equal(
          await apart[which].toArray(stream),
        );
    }
  });

  it('accepts a custom layer', async () => {
    const doubled: Layer = {
      name: 'doubled()',
      outputs: (inputs) => inputs,
      parameters: () => [],
      forward: (to, { x, y }) => ops.add(to, y, x, x),
      backward: (to, { dy, dx }) => dx && ops.add(to, dx, dy, dy),
    };
    const { stream } = rig;
    const { pass, net } = setUp(rig, [linear(2, 2), doubled], 3);
    const plain = setUp(rig, [linear(2, 2)], 3);
    const [twice, once] = [await pass().toArray(stream), await plain.pass().toArray(stream)];
    expect(net.outputs).to.equal(2);
    expect(twice).to.deep.equal(once.map((value) => 2 * value));
  });

  it('has a reference for all seven activations', () => {
    expect(Object.keys(activations).sort()).to.deep.equal(
      ['elu', 'gelu', 'geluTanh', 'relu', 'sigmoid', 'silu', 'tanh'].sort(),
    );
  });

  it('backward() throws when it does not follow the last forward() of its workspace', async () => {
    const { device, stream, open, floats } = rig;
    const { net, flat, input, workspace, gradient } = setUp(rig, nets[0] as Layer[], 4);
    const [online, slopes] = [net.over(flat), net.over(gradient)];
    const other = floats([4, net.inputs], new Float32Array(4 * net.inputs).fill(0.5));
    const target = floats([net.parameterCount], net.initialize(7));
    const backward = (x = input) => net.backward(stream, online, x, workspace, slopes);
    const refused = (call: () => void, text: string) => {
      const error = refusal(call);
      expect(error.code, text).to.equal('ERR_HOTSLOT_STATE_EMPTY');
      expect(error.message).to.include(text);
    };
    refused(
      backward,
      'backward: this workspace has no forward pass yet; call forward() with it and this input first',
    );
    net.forward(stream, online, input, workspace);
    net.forward(stream, online, other, workspace);
    refused(backward, 'backward: the last forward() of this workspace had another input');
    net.forward(stream, net.over(target), input, workspace);
    refused(backward, 'backward: the last forward() of this workspace had other parameters');
    const y = net.forward(stream, online, input, workspace);
    stream.copy(workspace.outputGradient, y);
    backward();
    const wanted = await gradient.toArray(stream);
    refused(backward, 'backward: backward() was called since the last forward() of this workspace');
    expect(await gradient.toArray(stream), 'nothing was launched').to.deep.equal(wanted);
    // New views of the same memory count as the same input. backward() may be repeated if the
    // output gradient is written again.
    net.forward(stream, net.over(flat), input, workspace);
    for (let round = 0; round < 2; round++) {
      stream.copy(workspace.outputGradient, y);
      backward(input.view({ shape: input.shape, strides: input.strides }));
      expect(await gradient.toArray(stream)).to.deep.equal(wanted);
    }
    // Forward passes of other inputs in a separate workspace do not affect this one.
    const beside = net.workspace(device, 4);
    open.push(beside);
    net.forward(stream, online, input, workspace);
    for (const x of [other, input, other]) net.forward(stream, net.over(target), x, beside);
    stream.copy(workspace.outputGradient, y);
    backward();
    expect(await gradient.toArray(stream)).to.deep.equal(wanted);
    // A forward pass that threw cannot be followed by backward().
    let fails = false;
    const broken: Layer = {
      ...linear(2, 2),
      forward(to, pass) {
        if (fails) throw new Error('half way');
        linear(2, 2).forward(to, pass);
      },
    };
    const half = setUp(rig, [linear(2, 2), broken], 3);
    half.pass();
    fails = true;
    expect(refusal(half.pass).message).to.equal('half way');
    const again = () =>
      half.net.backward(stream, half.net.over(half.flat), half.input, half.workspace, null);
    refused(again, 'no forward pass');
  });

  it('throws with both sides for layers, tensors and options that do not fit', () => {
    const { device, stream, open } = rig;
    const { net, flat, input, workspace, gradient } = setUp(rig, nets[0] as Layer[], 4);
    const other = new Network([linear(3, 5), relu(), linear(5, 2)]).workspace(device, 4);
    open.push(other);
    const layered =
      (...layers: unknown[]) =>
      () =>
        new Network(layers as Layer[]);
    const cases: [string, () => unknown, string, string][] = [
      [
        'layers',
        layered(linear(3, 4), relu(), linear(5, 2)),
        'RangeError',
        'layers[2], linear(5, 2), takes 5 numbers a row, layers[1], relu(), makes 4',
      ],
      [
        'a layer',
        layered(linear(3, 4), 'relu'),
        'TypeError',
        "layers[1] must be a layer such as linear(4, 8), got 'relu'",
      ],
      ['no width', layered(relu()), 'RangeError', 'a layer with a number of inputs'],
      ['a size', () => linear(0, 3), 'RangeError', 'linear: inputs'],
      [
        'epsilon',
        () => layerNorm(3, { epsilon: 0 }),
        'RangeError',
        'layerNorm: epsilon must be within',
      ],
      [
        'a vector',
        () => net.over(flat.view({ shape: [3] })),
        'RangeError',
        'parameters must be 32 contiguous floats',
      ],
      [
        'rows',
        () => net.forward(stream, net.over(flat), input.view({ shape: [2, 3] }), workspace),
        'RangeError',
        'input must be 4×3',
      ],
      [
        'parameters',
        () => net.forward(stream, [], input, workspace),
        'TypeError',
        'forward: parameters must be a result of over()',
      ],
      [
        'a workspace',
        () => net.forward(stream, net.over(flat), input, other),
        'TypeError',
        "forward: the workspace must be this network's",
      ],
      [
        'no gradients',
        () => {
          const pass = net.workspace(device, 4);
          open.push(pass);
          net.backward(stream, net.over(flat), input, pass, net.over(gradient));
        },
        'Error',
        'without backward: true',
      ],
      ['an option', () => net.workspace(device, 4, { back: true } as never), 'TypeError', 'back'],
    ];
    for (const [what, call, name, text] of cases) {
      const refused = refusal(call);
      expect(refused.message, what).to.include(text);
      expect(refused.name, what).to.equal(name);
    }
  });
});
