/**
 * Tests that exported ONNX models compute what the policies compute, and that encodeOnnx() throws
 * for policies that it cannot export. Another project's runtime runs the models.
 */
import { expect } from 'chai';
import { encodeOnnx } from '../../src/entries/formats.ts';
import {
  CategoricalPolicy,
  conv2d,
  DqnPolicy,
  dueling,
  elu,
  expectation,
  flatten,
  gelu,
  geluTanh,
  type Layer,
  layerNorm,
  linear,
  MlpPolicy,
  Network,
  quantileMean,
  relu,
  SacPolicy,
  sigmoid,
  silu,
  Td3Policy,
  tanh,
} from '../../src/entries/learner.ts';
import { Fields } from '../rig/protobuf.ts';
import { refusal } from '../rig/refusal.ts';
import { checked, expectNear, hasChecker, numbers, ran } from './onnx-rig.ts';

const first = conv2d([3, 9, 8], 4, { kernel: [3, 2], stride: 2, padding: 1 });
const second = conv2d(first.shape, 5, { kernel: 2 });
/** takes as many values as `first` makes, but in images of another shape */
const other = conv2d([first.outputs(0) / 4, 2, 2], 2, { kernel: 1 });

/** Networks with every kind of layer: alone, first, last and in the middle. */
const networks: Record<string, readonly Layer[]> = {
  linear: [linear(5, 3)],
  relu: [linear(5, 7), relu(), linear(7, 3)],
  tanh: [linear(5, 7), tanh(), linear(7, 3)],
  sigmoid: [linear(5, 7), sigmoid(), linear(7, 3)],
  silu: [linear(5, 7), silu(), linear(7, 3)],
  gelu: [linear(5, 7), gelu(), linear(7, 3)],
  geluTanh: [linear(5, 7), geluTanh(), linear(7, 3)],
  elu: [linear(5, 7), elu(), linear(7, 3)],
  'activations first and last': [
    geluTanh(),
    gelu(),
    silu(),
    linear(5, 5),
    gelu(),
    geluTanh(),
    silu(),
  ],
  'layer norm': [
    layerNorm(5),
    linear(5, 6),
    layerNorm(6, { epsilon: 0.1 }),
    elu(),
    linear(6, 4),
    layerNorm(4),
  ],
  'one convolution': [first],
  convolutions: [first, relu(), second, silu(), flatten(), linear(second.outputs(0), 3)],
  'a convolution of other images': [first, gelu(), other],
  'a convolution before a layer norm': [first, layerNorm(first.outputs(0))],
  dueling: [linear(5, 4), dueling(3)],
  'dueling atoms': [
    linear(5, 4 * 6),
    dueling(3, { atoms: 6 }),
    expectation(3, { atoms: 6, min: -2, max: 7 }),
  ],
  expectation: [linear(5, 2 * 11), expectation(2, { atoms: 11, min: -10, max: 10 })],
  'means of quantiles': [linear(5, 7 * 3), quantileMean(7, 3)],
};

/**
 * Returns initial weights with random values added. Layers that begin with ones and zeros would
 * otherwise hide a missing weight.
 */
const weightsOf = (network: Network) => {
  const moved = numbers(3, network.parameterCount, 0.5);
  return network.initialize(2).map((value, i) => value + (moved[i] as number));
};

/** Makes policies of every kind, without weights. */
const discrete: Record<string, () => MlpPolicy> = {
  'an MLP': () =>
    new MlpPolicy({ sizes: [5, 16, 4], activation: 'tanh', outputActivation: 'tanh' }),
  'a network': () => new MlpPolicy(new Network(networks['layer norm'] as Layer[])),
  dqn: () => new DqnPolicy({ obsDim: 5, actions: 4, hidden: [16, 16] }),
  'dueling dqn of distributions': () =>
    new DqnPolicy({
      obsDim: 5,
      actions: 4,
      hidden: [16],
      dueling: true,
      head: { kind: 'categorical', atoms: 21, min: -3, max: 5 },
    }),
  'dqn of bytes of pixels': () =>
    new DqnPolicy({
      obsDim: 3 * 9 * 8,
      actions: 4,
      hidden: [16],
      image: [3, 9, 8],
      scale: 1 / 255,
      convolutions: [{ filters: 4, kernel: 3, stride: 2 }],
    }),
  'dqn of pixels': () =>
    new DqnPolicy({
      obsDim: 3 * 9 * 8,
      actions: 4,
      hidden: [16],
      image: [3, 9, 8],
      dueling: true,
      convolutions: [
        { filters: 4, kernel: 3, stride: 2 },
        { filters: 6, kernel: 2 },
      ],
    }),
};

const ofBytes = discrete['dqn of bytes of pixels'] as () => DqnPolicy;
const box = {
  obsDim: 5,
  actionDim: 3,
  actorHidden: [16, 16],
  actionLow: [-2, 0, 5],
  actionHigh: [2, 1, 11],
};
const continuous: Record<string, () => SacPolicy | Td3Policy> = {
  sac: () => new SacPolicy(box, { greedy: true }),
  'sac with clamped means': () =>
    new SacPolicy({ ...box, meanClamp: 0.5, activation: 'silu' }, { greedy: true }),
  'sac with normalized and clipped observations': () =>
    new SacPolicy({ ...box, layerNorm: true, normalizer: { clip: 1.5 } }, { greedy: true }),
  td3: () => new Td3Policy({ ...box, activation: 'elu' }),
  'td3 with normalized observations': () =>
    new Td3Policy({ ...box, activation: 'gelu', layerNorm: true, normalizer: true }),
};
const loaded = (policy: SacPolicy | Td3Policy): SacPolicy | Td3Policy => {
  const { network, length } = policy;
  const vector = numbers(7, length, 2);
  vector.set(weightsOf(network));
  return policy.load(vector);
};

const models: Record<string, { model: Uint8Array; outputs: string[] }> = {};

describe('encodeOnnx()', () => {
  for (const [name, layers] of Object.entries(networks))
    it(`exports the outputs of a network: ${name}`, async () => {
      const network = new Network(layers);
      const parameters = weightsOf(network);
      const model = encodeOnnx(network, { parameters });
      models[name] = { model, outputs: [`values 1 n ${network.outputs}`] };
      for (const n of [1, 7]) {
        const obs = numbers(n, n * network.inputs, 3);
        const { values, ...more } = await ran(model, obs, n);
        expect([values?.dims, more]).to.deep.equal([[n, network.outputs], {}]);
        expectNear(values?.data as Float32Array, network.onHost(parameters)(obs, n), name);
      }
    });

  for (const [name, make] of Object.entries(discrete))
    it(`exports the greedy actions and values of a policy: ${name}`, async () => {
      const policy = make();
      policy.load(weightsOf(policy.network));
      const { inputs, outputs } = policy.network;
      const model = encodeOnnx(policy);
      models[name] = { model, outputs: [`values 1 n ${outputs}`, 'action 7 n'] };
      for (const n of [1, 64]) {
        const obs = numbers(n, n * inputs, 2);
        const { values, action, ...more } = await ran(model, obs, n);
        expect([values?.dims, action?.dims, more]).to.deep.equal([[n, outputs], [n], {}]);
        expectNear(values?.data as Float32Array, policy.values(obs, n), name);
        expect(Array.from(action?.data as BigInt64Array, Number)).to.deep.equal([
          ...policy.act(obs, n),
        ]);
      }
    });

  for (const [name, make] of Object.entries(discrete))
    it(`exports a policy with a mask: ${name}`, async () => {
      const policy = make();
      policy.load(weightsOf(policy.network));
      const { inputs, outputs } = policy.network;
      const model = encodeOnnx(policy, { mask: true });
      models[`${name}, masked`] = { model, outputs: [`values 1 n ${outputs}`, 'action 7 n'] };
      for (const n of [1, 64]) {
        const obs = numbers(n, n * inputs, 2);
        // Row 1 has no legal action, and row 2 all of them.
        const mask = Uint8Array.from(numbers(n + 1, n * outputs), (x, i) => {
          const row = Math.floor(i / outputs);
          return row === 1 ? 0 : row === 2 ? 1 : Number(x > 0);
        });
        const { values, action, ...more } = await ran(model, obs, n, mask);
        expect([values?.dims, action?.dims, more]).to.deep.equal([[n, outputs], [n], {}]);
        const want = policy.values(obs, n, { mask });
        const legal = (of: ArrayLike<number>) => Array.from(of).filter((_, i) => mask[i] !== 0);
        expectNear(legal(values?.data as Float32Array), legal(want), name);
        for (const [i, value] of (values?.data as Float32Array).entries())
          expect(value === Number.NEGATIVE_INFINITY, `${i}`).to.equal(mask[i] === 0);
        const actions = Array.from(action?.data as BigInt64Array, Number);
        expect(actions).to.deep.equal([...policy.act(obs, n, { mask })]);
        if (n > 1) expect(actions).to.not.deep.equal([...policy.act(obs, n)]);
        const ones = await ran(
          model,
          obs,
          n,
          mask.map(() => 1),
        );
        expectNear(ones.values?.data as Float32Array, policy.values(obs, n), `${name}, all legal`);
      }
    });

  it('exports values of illegal actions that do not reach those of legal ones', async () => {
    for (const head of [
      { kind: 'scalar' },
      { kind: 'categorical', atoms: 3, min: -1, max: 1 },
    ] as const)
      for (const poison of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const policy = new DqnPolicy({ obsDim: 1, actions: 3, hidden: [], dueling: true, head });
        const atoms = head.kind === 'scalar' ? 1 : head.atoms;
        const weights = policy.network.initialize(3);
        weights.fill(poison, 4 * atoms + 2 * atoms, 4 * atoms + 3 * atoms);
        policy.load(weights);
        const mask = Uint8Array.of(1, 0, 1);
        const obs = Float32Array.of(0.5);
        const { values } = await ran(encodeOnnx(policy, { mask: true }), obs, 1, mask);
        const [a, b, c] = values?.data as Float32Array;
        expect(b).to.equal(Number.NEGATIVE_INFINITY);
        const [p, , q] = policy.values(obs, 1, { mask });
        expectNear([a!, c!], [p!, q!], `${head.kind} ${poison}`);
      }
  });

  it('exports a policy without the option as before, and a CategoricalPolicy as its greedy actions', async () => {
    const policy = new DqnPolicy({ obsDim: 2, actions: 3, hidden: [4], dueling: true });
    policy.load(policy.network.initialize(1));
    expect(encodeOnnx(policy, { mask: false })).to.deep.equal(encodeOnnx(policy));
    const sampling = new CategoricalPolicy(new Network([linear(1, 3)]));
    sampling.load(Float32Array.of(0, 0, 0, 1, 3, 2));
    const model = encodeOnnx(sampling, { mask: true });
    const { action } = await ran(model, Float32Array.of(0), 1, Uint8Array.of(1, 0, 1));
    expect([...(action?.data as BigInt64Array)]).to.deep.equal([2n]);
  });

  it('exports the scale of a policy of bytes, and DqnPolicy throws for an invalid scale', async () => {
    const policy = ofBytes();
    policy.load(weightsOf(policy.network));
    const bytes = numbers(5, 8 * policy.network.inputs, 127).map((value) =>
      Math.round(value + 128),
    );
    const unit = new MlpPolicy(policy.network, policy.parameters);
    const scaled = bytes.map((value) => value * Math.fround(1 / 255));
    expect([...policy.values(bytes, 8)]).to.deep.equal([...unit.values(scaled, 8)]);
    const { values } = await ran(encodeOnnx(policy), bytes, 8);
    expectNear(values?.data as Float32Array, policy.values(bytes, 8), 'bytes');
    const options = { obsDim: 2, actions: 2, hidden: [2] };
    for (const scale of [0, Number.NaN, 1e-50, '1'])
      expect(refusal(() => new DqnPolicy({ ...options, scale: scale as number })).message).to.match(
        /^scale must be a number/,
      );
  });

  it('exports an action that is the first of equal values', async () => {
    const policy = new MlpPolicy({ sizes: [1, 3] }, Float32Array.of(0, 0, 0, 1, 2, 2));
    const { action } = await ran(encodeOnnx(policy), Float32Array.of(0), 1);
    expect([...(action?.data as BigInt64Array)]).to.deep.equal([1n]);
  });

  for (const [name, make] of Object.entries(continuous))
    it(`exports the actions of an actor: ${name}`, async () => {
      const policy = loaded(make());
      const model = encodeOnnx(policy);
      models[name] = { model, outputs: ['action 1 n 3'] };
      for (const n of [1, 64]) {
        const obs = numbers(n, n * 5, 3);
        const { action, ...more } = await ran(model, obs, n);
        expect([action?.dims, more]).to.deep.equal([[n, 3], {}]);
        const want = policy.act(obs, n);
        expectNear(action?.data as Float32Array, want, name);
        expect(new Set(want).size, 'the actions differ between rows').to.be.above(n);
      }
    });

  it('exports an exploring policy without its noise', () => {
    const greedy = loaded(new SacPolicy(box, { greedy: true }));
    expect(encodeOnnx(loaded(new SacPolicy(box)))).to.deep.equal(encodeOnnx(greedy));
    expect(encodeOnnx(loaded(new Td3Policy(box, { noise: 0.1 })))).to.deep.equal(
      encodeOnnx(loaded(new Td3Policy(box))),
    );
  });

  it('exports the weights that the policy has at the call', async () => {
    const policy = new MlpPolicy({ sizes: [1, 2] }, Float32Array.of(1, -1, 0, 0));
    const before = encodeOnnx(policy);
    policy.load(Float32Array.of(-1, 1, 0, 0));
    const obs = Float32Array.of(3);
    expect([...((await ran(before, obs, 1)).action?.data ?? [])]).to.deep.equal([0n]);
    expect([...((await ran(encodeOnnx(policy), obs, 1)).action?.data ?? [])]).to.deep.equal([1n]);
  });

  it('writes the versions, the producer and a variable batch size', () => {
    const model = new Fields(encodeOnnx(new MlpPolicy({ sizes: [4, 2] }, new Float32Array(10))));
    const [opset] = model.messages(8);
    expect([model.int(1), model.text(2), opset?.text(1), opset?.int(2)]).to.deep.equal([
      8,
      'hotslot',
      '',
      17,
    ]);
    const input = model.message(7).message(11);
    const type = input.message(2).message(1);
    const [rows, width] = type.message(2).messages(1);
    expect([input.text(1), type.int(1), rows?.text(2), width?.int(1)]).to.deep.equal([
      'obs',
      1,
      'n',
      4,
    ]);
  });

  it('writes models that the ONNX checker accepts and whose output shapes it infers', function () {
    if (!hasChecker()) {
      console.log('      left out: /usr/bin/python3 has no onnx (apt-get install python3-onnx)');
      this.skip();
    }
    const named = Object.entries(models);
    const kinds = [networks, discrete, discrete, continuous].flatMap(Object.keys);
    expect(named.length).to.equal(kinds.length);
    const files = Object.fromEntries(named.map(([, { model }], i) => [`${i}`, model]));
    expect(checked(files)).to.deep.equal(named.flatMap(([, { outputs }]) => outputs));
    const broken = encodeOnnx(new MlpPolicy({ sizes: [4, 2] })).map((byte, at, all) =>
      // Changes the operator's name from Gemm to Gemn.
      byte === 109 && all[at - 1] === 109 && all[at - 2] === 101 && all[at - 3] === 71 ? 110 : byte,
    );
    expect(refusal(() => checked({ broken })).message).to.include('Gemn');
  });

  describe('throws for', () => {
    const network = new Network([linear(2, 3)]);

    it('a custom layer, even if it is a copy of a built-in layer', () => {
      for (const mine of [
        { ...linear(3, 3), name: 'mine(3)' },
        { ...relu(), name: 'mine(3)' },
      ]) {
        const error = refusal(() => encodeOnnx(new MlpPolicy(new Network([linear(2, 3), mine]))));
        expect([error.code, error.message.split(', so')[0]]).to.deep.equal([
          'ERR_HOTSLOT_ARGUMENT',
          'encodeOnnx: layers[1], mine(3), is not a layer of hotslot/learner',
        ]);
      }
    });

    for (const [what, call, text] of [
      [
        'an object that is no policy',
        () => encodeOnnx({ network } as never),
        'takes a policy or a Network of hotslot/learner, got an object',
      ],
      ['undefined', () => encodeOnnx(undefined as never), 'got undefined'],
      [
        'a network without weights',
        () => encodeOnnx(network),
        'give them as parameters, a Float32Array; got undefined',
      ],
      [
        'weights in a plain array',
        () => encodeOnnx(network, { parameters: new Array(9).fill(0) as never }),
        'got an array of 9',
      ],
      [
        'too few weights',
        () => encodeOnnx(network, { parameters: new Float32Array(8) }),
        'parameters must be 9 floats for this network, got 8',
      ],
      [
        'parameters together with a policy',
        () => encodeOnnx(new MlpPolicy(network), { parameters: new Float32Array(9) }),
        'a policy has its own',
      ],
      [
        'an unknown option',
        () => encodeOnnx(network, { opset: 18 } as never),
        "encodeOnnx: unknown option 'opset'; it takes parameters, mask",
      ],
      [
        'a mask for a network',
        () => encodeOnnx(network, { parameters: new Float32Array(9), mask: true }),
        'encodeOnnx: mask is for a policy whose actions are indices, got a Network',
      ],
      [
        'a mask for an actor',
        () => encodeOnnx(new Td3Policy(box), { mask: true }),
        'encodeOnnx: mask is for a policy whose actions are indices, got a Td3Policy',
      ],
      [
        'a mask that is no flag',
        () => encodeOnnx(new MlpPolicy(network), { mask: new Uint8Array(3) as never }),
        'encodeOnnx: mask must be a boolean, got a Uint8Array of 3',
      ],
    ] as const)
      it(what, () => {
        const error = refusal(call);
        expect(error.code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
        expect(error.message).to.include(text);
      });
  });
});
