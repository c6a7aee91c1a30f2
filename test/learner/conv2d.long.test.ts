/**
 * Tests convolutions against plain loops in float64, with random sizes, strides and paddings. Also
 * tests captured passes and policies on the host.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import {
  conv2d,
  DqnLearner,
  DqnPolicy,
  flatten,
  linear,
  MlpPolicy,
  Network,
  relu,
  tanh,
} from '../../src/entries/learner.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { type Layered, outputOf } from './network-reference.ts';
import { expectGradients, networkRig, setUp } from './network-rig.ts';
import { expectClose } from './reference.ts';

const first = conv2d([2, 6, 5], 3, { kernel: 3, stride: 2, padding: 1 });
const nets: Layered[] = [
  [conv2d([1, 4, 4], 1, { kernel: 2 })],
  [first, relu(), conv2d(first.shape, 2, { kernel: [2, 1] }), tanh(), flatten(), linear(12, 2)],
  [linear(3, 18), conv2d([2, 3, 3], 4, { kernel: [1, 3], padding: 0 })],
];

describe('conv2d()', () => {
  const rig = networkRig();

  for (const layers of nets)
    it(`${layers.map(({ name }) => name).join(' ')}: outputs and gradients agree with float64`, () =>
      expectGradients(rig, layers, 3));

  itLonger(
    `equals plain loops at random sizes, strides and paddings, on the device and in MlpPolicy`,
    async () => {
      const random = new Random(7);
      for (let round = 0; round < setting({ short: 12, all: 30, long: 60 }); round++) {
        const [kernelHeight, kernelWidth] = [1 + random.below(4), 1 + random.below(4)];
        const padding = random.below(Math.min(kernelHeight, kernelWidth));
        const image = [
          1 + random.below(4),
          kernelHeight + random.below(9),
          kernelWidth + random.below(9),
        ] as const;
        const filters = 1 + random.below(20);
        const layer = conv2d(image, filters, {
          kernel: [kernelHeight, kernelWidth],
          stride: 1 + random.below(3),
          padding,
        });
        const { net, weights, x, pass } = setUp(rig, [layer, relu()], 1 + random.below(9), round);
        const wanted = outputOf(net, weights, x).flat();
        expectClose(await pass().toArray(rig.stream), wanted, 2e-6, layer.name);
        expectClose(
          new MlpPolicy(net, weights).values(Float32Array.from(x.flat()), x.length),
          wanted,
          2e-6,
          layer.name,
        );
        expect(layer.outputs(layer.inputs as number)).to.equal(
          layer.shape[0] * layer.shape[1] * layer.shape[2],
        );
      }
    },
  );

  it('has the parameter names, layouts and initial bounds of torch', () => {
    const net = new Network([...nets[1]!]);
    expect(net.parameters.map(({ name, shape }) => `${name} ${shape.join('×')}`)).to.deep.equal([
      '0.weight 3×2×3×3',
      '0.bias 3',
      '2.weight 2×3×2×1',
      '2.bias 2',
      '5.weight 2×12',
      '5.bias 2',
    ]);
    const values = net.initialize(1);
    expect(Math.max(...values.subarray(0, 57).map(Math.abs))).to.be.within(0.2, 1 / Math.sqrt(18));
  });

  it('launching a captured pass equals an eager pass to the bit', async () => {
    const { pass, gradient } = setUp(rig, nets[1]!, 5);
    pass();
    const issued = await gradient.toArray(rig.stream);
    rig.stream.fill(gradient, 0);
    rig.stream.beginCapture();
    pass();
    using graph = rig.stream.endCapture();
    using exec = graph.instantiate();
    rig.stream.replay(exec);
    expect(await gradient.toArray(rig.stream)).to.deep.equal(issued);
  });

  it('trains in DqnLearner as body or convolutions, and DqnLearner throws for other combinations', async () => {
    const body = [
      conv2d([1, 4, 4], 8, { kernel: 2, stride: 2 }),
      relu(),
      flatten(),
      linear(32, 16),
      relu(),
    ];
    const options = {
      obsDim: 16,
      actions: 2,
      body,
      batchSize: 32,
      learningRate: 0.01,
      gamma: 0,
      seed: 3,
    } as const;
    using learner = new DqnLearner(rig.device, { ...options, dueling: true });
    const random = new Random(1);
    // Action 1 gives the reward if the upper left corner is bright, else action 0.
    const n = 32;
    const obs = Float32Array.from({ length: n * 16 }, () => random.next());
    const bright = (row: number) =>
      obs[row * 16]! + obs[row * 16 + 1]! + obs[row * 16 + 4]! + obs[row * 16 + 5]! > 2;
    const actions = Float32Array.from({ length: n }, () => random.below(2));
    const batch = {
      obs: rig.floats([n, 16], obs),
      nextObs: rig.floats([n, 16], obs),
      actions: rig.floats([n], actions),
      rewards: rig.floats(
        [n],
        Float32Array.from(actions, (a, i) => (a === Number(bright(i)) ? 1 : -1)),
      ),
      dones: rig.floats([n]),
      truncated: rig.floats([n]),
    };
    const out = rig.floats([2]);
    await learner.ready;
    for (let i = 0; i < 300; i++) learner.update(rig.stream, batch, out);
    const [loss] = await out.toArray(rig.stream);
    expect(loss).to.be.at.most(0.05);
    const policy = learner.policy().load(await learner.parameters.toArray(rig.stream));
    const right = [...policy.act(obs, n)].filter((action, i) => action === Number(bright(i)));
    expect(right.length).to.be.at.least(28);
    expect(
      Object.keys(await learner.state()).filter((name) => name.startsWith('online.')),
    ).to.include('online.3.weight');
    const { body: _, ...others } = options;
    const plain = {
      ...others,
      hidden: [16],
      image: [1, 4, 4],
      convolutions: [{ filters: 8, kernel: 2, stride: 2 }],
    } as const;
    using alike = new DqnLearner(rig.device, { ...plain, dueling: true });
    using fresh = new DqnLearner(rig.device, { ...options, dueling: true });
    await Promise.all([alike.ready, fresh.ready]);
    expect(await alike.parameters.toArray(rig.stream)).to.deep.equal(
      await fresh.parameters.toArray(rig.stream),
    );
    const network = {
      obsDim: 16,
      actions: 2,
      hidden: [16],
      image: plain.image,
      convolutions: plain.convolutions,
    };
    const acting = new DqnPolicy({ ...network, dueling: true }).load(
      await learner.parameters.toArray(rig.stream),
    );
    expect([...acting.act(obs, n)]).to.deep.equal([...policy.act(obs, n)]);
    for (const [wrong, words] of [
      [{ ...options, body: [linear(15, 2)] }, 'body takes 15 numbers a row, obsDim is 16'],
      [{ ...options, hidden: [3] }, 'give hidden or body, not both'],
      [{ ...options, image: [1, 4, 4] }, 'image is for hidden; a body has its own'],
      [
        { ...plain, image: [1, 4, 4], convolutions: undefined },
        'give convolutions and image together',
      ],
      [{ ...plain, image: [1, 4, 5] }, 'image has 20 numbers, obsDim is 16'],
      [
        { ...plain, convolutions: [] },
        'convolutions must be an array of { filters, kernel, stride?, padding? }, got an array of 0',
      ],
      [
        { ...plain, convolutions: [{ filters: 8, kernel: 2, stide: 2 }] },
        "conv2d: unknown option 'stide'",
      ],
      [{ ...options, body: 7 }, 'body must be an array of layers'],
      [{ ...options, activation: 'relu' }, 'activation is for hidden'],
    ] as const)
      expect(refusal(() => new DqnLearner(rig.device, wrong as never)).message).to.include(words);
  });

  it('throws with the values when sizes do not fit', () => {
    const made = (...args: unknown[]) =>
      refusal(() => conv2d(...(args as Parameters<typeof conv2d>))).message;
    expect(made([1, 4], 1, { kernel: 1 })).to.include(
      'images as [channels, height, width], got an array of 2',
    );
    expect(made([1, 0, 4], 1, { kernel: 1 })).to.include('conv2d: height');
    expect(made([1, 4, 4], 0, { kernel: 1 })).to.include('conv2d: filters');
    expect(made([1, 4, 4], 1, { kernel: [1] })).to.include('kernel is a number of pixels');
    expect(made([1, 4, 4], 1, { kernel: 5 })).to.include(
      'a kernel of 5 × 5 is larger than images of 4 × 4',
    );
    expect(made([1, 4, 4], 1, { kernel: 2, padding: 2 })).to.include('padding');
    expect(made([1, 4, 4], 1, { kernel: 2, stride: 0 })).to.include('stride');
    expect(made([1, 4, 4], 1, { kernel: 2, dilation: 2 })).to.include("unknown option 'dilation'");
    expect(
      refusal(() => new Network([conv2d([1, 4, 4], 2, { kernel: 3 }), linear(9, 1)])).message,
    ).to.include('takes 9 numbers a row');
    expect(refusal(() => new Network([flatten()])).message).to.include('a number of inputs');
  });
});
