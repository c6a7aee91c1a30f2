/**
 * Tests SacLearner and Td3Learner: captured against eager updates, loadState(), policies and
 * invalid options. Tests the launches of SquashedGaussian. The golden cases test their values.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import {
  type ActorCriticBatch,
  type EventRecord,
  type LearnerState,
  SacLearner,
  type SacOptions,
  SacPolicy,
  SquashedGaussian,
  Td3Learner,
  type Td3Options,
  Td3Policy,
} from '../../src/entries/learner.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { outputOf } from './network-reference.ts';
import { expectClose } from './reference.ts';

const [OBS, ACTIONS, BATCH, K] = [4, 2, 8, 2];
const shape = {
  obsDim: OBS,
  actionDim: ACTIONS,
  batchSize: BATCH,
  actorHidden: [7, 6],
  criticHidden: [9],
};
const atoms = { kind: 'categorical', atoms: 7, min: -2, max: 2 } as const;
const kinds: Record<string, ['sac', Partial<SacOptions>] | ['td3', Partial<Td3Options>]> = {
  SAC: ['sac', { actorEvery: 2, policyRepeats: 2, actionLow: [-2, -1], actionHigh: [1, 3] }],
  'SAC at one temperature, three critics': [
    'sac',
    { critics: 3, temperature: 0.3, targetEvery: 2, rewardScale: 0.5 },
  ],
  FastSAC: [
    'sac',
    { critic: atoms, layerNorm: true, activation: 'silu', criticObsDim: 5, maxGradNorm: 0.5 },
  ],
  TD3: ['td3', { actionLow: -2, actionHigh: [1, 2] }],
  'TD3+BC': [
    'td3',
    { actionLow: -2, actionHigh: [1, 2], behaviorCloning: {}, normalizer: { form: 'deviation' } },
  ],
  FastTD3: [
    'td3',
    { critic: atoms, clippedDouble: true, targetActor: false, normalizer: { form: 'deviation' } },
  ],
  'TD3 with layer norm and the mean of critics': [
    'td3',
    { layerNorm: true, actorValue: 'mean', normalizer: true },
  ],
};

describe('SacLearner and Td3Learner', () => {
  let device: Device;
  let stream: Stream;
  const open: { close(): void }[] = [];
  before(() => {
    device = openDevice(TESTED);
    stream = device.currentStream;
  });
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };

  const random = new Random(3);
  const floats = (dims: number[], values?: (i: number) => number): Tensor<'float32'> => {
    const made = keep(device.allocate({ shape: dims }));
    return values
      ? made.write(Float32Array.from({ length: made.size }, (_, i) => values(i)))
      : made;
  };
  const some = (...dims: number[]) => floats(dims, () => random.between(-1, 1));

  function make(name: string, seed = 1): SacLearner | Td3Learner {
    const [kind, options] = kinds[name]!;
    const all = { ...shape, seed, ...options };
    return keep(kind === 'sac' ? new SacLearner(device, all) : new Td3Learner(device, all));
  }

  function batchFor(name: string, rows = K * BATCH): ActorCriticBatch {
    const [, { criticObsDim: width }] = kinds[name]!;
    return {
      obs: some(rows, OBS),
      nextObs: some(rows, OBS),
      actions: some(rows, ACTIONS),
      rewards: some(rows),
      dones: floats([rows], (i) => Number(i % 4 >= 2)),
      truncated: floats([rows], (i) => Number(i % 4 === 3)),
      ...(width !== undefined && {
        criticObs: some(rows, width),
        nextCriticObs: some(rows, width),
      }),
    };
  }

  const bytes = (state: LearnerState): Record<string, string> =>
    Object.fromEntries(
      Object.entries(state).map(([key, { data }]) => [
        key,
        Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex'),
      ]),
    );

  for (const name of Object.keys(kinds)) {
    it(`${name}: launching a captured update equals eager updates to the bit, with or without record`, async () => {
      const [eager, captured] = [make(name), make(name)];
      await captured.ready;
      const batch = batchFor(name);
      const [out, other] = [floats([eager.scalars.length]), floats([eager.scalars.length])];
      const weights = floats([K * BATCH], (i) => (i % 5) / 3);
      const [ours, theirs] = [floats([K * BATCH]), floats([K * BATCH])];
      const record: Record<string, EventRecord> = { q: { loss: floats([1]), norm: floats([1]) } };
      await stream.synchronize();
      stream.beginCapture();
      captured.update(stream, batch, other, { weights, priorities: theirs });
      const exec = keep(keep(stream.endCapture()).instantiate());
      for (let i = 0; i < 3; i++) {
        eager.update(stream, batch, out, { weights, priorities: ours, record });
        stream.replay(exec);
      }
      const [wanted, got] = [bytes(await eager.state()), bytes(await captured.state())];
      // Launches of a captured update do not advance the learner's count of updates.
      delete wanted.updates;
      delete got.updates;
      expect(got).to.deep.equal(wanted);
      expect([...(await other.toArray())]).to.deep.equal([...(await out.toArray())]);
      expect([...(await theirs.toArray())]).to.deep.equal([...(await ours.toArray())]);
      expect((await ours.toArray()).every((off) => off > 0)).to.equal(true);
      const [loss] = await record.q!.loss!.toArray();
      const [norm] = await record.q!.norm!.toArray();
      expect([loss! > 0, norm! > 0]).to.deep.equal([true, true]);
    });

    it(`${name}: loadState() continues training to the bit`, async () => {
      const [whole, part] = [make(name), make(name, 99)];
      const batch = batchFor(name, BATCH);
      const out = floats([whole.scalars.length]);
      for (let i = 0; i < 3; i++) whole.update(stream, batch, out);
      const saved = await whole.state();
      part.loadState(saved);
      expect(bytes(await part.state())).to.deep.equal(bytes(saved));
      for (const learner of [whole, part])
        for (let i = 0; i < 3; i++) learner.update(stream, batch, out);
      expect(bytes(await part.state())).to.deep.equal(bytes(await whole.state()));
      expect(bytes(await part.state())).to.not.deep.equal(bytes(saved));
    });
  }

  it('discounts of gamma · (1 − terminated) equal dones and truncated to the bit', async () => {
    const [by, beside] = [make('SAC'), make('SAC')];
    const { dones, truncated, ...batch } = batchFor('SAC', BATCH) as ActorCriticBatch &
      Record<'dones' | 'truncated', Tensor<'float32'>>;
    const discounts = floats([BATCH], (i) => (i % 4 === 2 ? 0 : 0.99));
    const out = floats([by.scalars.length]);
    by.update(stream, { ...batch, dones, truncated }, out);
    beside.update(stream, { ...batch, discounts }, out);
    expect(bytes(await beside.state())).to.deep.equal(bytes(await by.state()));
  });

  it('terminated alone equals dones and truncated to the bit', async () => {
    for (const name of ['SAC', 'TD3'] as const) {
      const [by, alone] = [make(name), make(name)];
      const { dones, truncated, ...batch } = batchFor(name, BATCH) as ActorCriticBatch &
        Record<'dones' | 'truncated', Tensor<'float32'>>;
      const terminated = floats([BATCH], (i) => Number(i % 4 === 2));
      const out = floats([by.scalars.length]);
      by.update(stream, { ...batch, dones, truncated }, out);
      alone.update(stream, { ...batch, terminated }, out);
      expect(bytes(await alone.state()), name).to.deep.equal(bytes(await by.state()));
    }
  });

  it('setLearningRate() applies to later launches of an update captured before', async () => {
    const learner = make('TD3');
    await learner.ready;
    const batch = batchFor('TD3');
    const out = floats([3]);
    await stream.synchronize();
    stream.beginCapture();
    learner.update(stream, batch, out);
    const exec = keep(keep(stream.endCapture()).instantiate());
    const actor = async () =>
      bytes({ actor: { dtype: 'float32', shape: [], data: await learner.parameters.toArray() } });
    const before = await actor();
    learner.actorOptimizer.setLearningRate(0);
    stream.replay(exec);
    expect(await actor()).to.deep.equal(before);
    learner.actorOptimizer.setLearningRate(1e-3);
    stream.replay(exec);
    expect(await actor()).to.not.deep.equal(before);
    expect(refusal(() => learner.criticOptimizer.setLearningRate(-1)).message).to.include(
      'learningRate must be within',
    );
  });

  it('policies with published weights act as the actor does, within the action bounds', async () => {
    for (const name of Object.keys(kinds)) {
      const learner = make(name);
      const out = floats([learner.scalars.length]);
      for (let i = 0; i < 2; i++) learner.update(stream, batchFor(name, BATCH), out);
      const published = await learner.published.toArray();
      const size = learner.actor.parameterCount;
      const [, { actionLow: low = -1, actionHigh: high = 1, normalizer }] = kinds[name]!;
      const end = (of: number | readonly number[], j: number) =>
        typeof of === 'number' ? of : (of[j] as number);
      const obs = Float32Array.from({ length: 5 * OBS }, () => random.between(-2, 2));
      const rows = Array.from({ length: 5 }, (_, i) =>
        Array.from(obs.subarray(i * OBS, (i + 1) * OBS), (value, j) =>
          normalizer ? (value - published[size + j]!) * published[size + OBS + j]! : value,
        ),
      );
      const wanted = outputOf(learner.actor, published.subarray(0, size), rows).flatMap((row) =>
        row.slice(0, ACTIONS).map((value, j) => {
          const y = learner instanceof SacLearner ? Math.tanh(value) : value;
          return (y * (end(high, j) - end(low, j))) / 2 + (end(high, j) + end(low, j)) / 2;
        }),
      );
      const greedy =
        learner instanceof SacLearner ? learner.policy({ greedy: true }) : learner.policy();
      expectClose(greedy.load(published).act(obs, 5), wanted, 2e-6, name);
      const drawn =
        learner instanceof SacLearner
          ? learner.policy({ seed: 4 })
          : learner.policy({ noise: 0.3, seed: 4 });
      const many = 4000;
      const same = new Float32Array(many * OBS).map((_, i) => obs[i % OBS]!);
      const actions = drawn.load(published).act(same, many);
      const mean =
        actions.reduce((sum, value, i) => sum + (i % ACTIONS === 0 ? value : 0), 0) / many;
      const within = actions.every(
        (value, i) => value >= end(low, i % ACTIONS) && value <= end(high, i % ACTIONS),
      );
      expect([within, new Set(actions).size > many]).to.deep.equal([true, true]);
      expect(mean).to.be.closeTo(wanted[0]!, 0.35);
      const again =
        learner instanceof SacLearner
          ? learner.policy({ seed: 4 })
          : learner.policy({ noise: 0.3, seed: 4 });
      expect([...again.load(published).act(same, 2)]).to.deep.equal([
        ...actions.subarray(0, 2 * ACTIONS),
      ]);
    }
  });

  it('update() throws in a capture when the minibatches are not a multiple of actorEvery', async () => {
    const learner = make('SAC');
    await learner.ready;
    const out = floats([learner.scalars.length]);
    const batch = batchFor('SAC', 3 * BATCH);
    await stream.synchronize();
    stream.beginCapture();
    const error = refusal(() => learner.update(stream, batch, out));
    keep(stream.endCapture());
    expect(error.message).to.include(
      '3 minibatches are not a multiple of 2 (actorEvery, targetEvery)',
    );
  });
  it('state() rejects after its other reads have ended when one tensor is closed', async () => {
    const learner = make('TD3');
    await learner.ready;
    learner.actorOptimizer.close();
    const before = openHandles().memory;
    const error = await rejection(learner.state());
    expect(error.message).to.include('memory is closed');
    expect(openHandles().memory).to.equal(before);
  });
  it('throws with the value for invalid options, batches and states, and keeps its state', async () => {
    const sac = (options: object) => () =>
      new SacLearner(device, { ...shape, ...options } as SacOptions);
    const td3 = (options: object) => () =>
      new Td3Learner(device, { ...shape, ...options } as Td3Options);
    const learner = make('SAC');
    const batch = batchFor('SAC', BATCH);
    const out = floats([learner.scalars.length]);
    const state = await learner.state();
    const update =
      (change: object, options: object = {}) =>
      () =>
        learner.update(stream, { ...batch, ...change } as ActorCriticBatch, out, options);
    const saved = (dtype: string, data: { length: number }) => ({
      dtype,
      shape: [data.length],
      data,
    });
    const load = (change: object) => () =>
      learner.loadState({ ...state, ...change } as LearnerState);
    const cases: [string, () => unknown][] = [
      ["SacLearner: unknown option 'policyNoise'", sac({ policyNoise: 1 })],
      ["Td3Learner: unknown option 'temperature'", td3({ temperature: 1 })],
      ["SacLearner: unknown option 'behaviorCloning'", sac({ behaviorCloning: {} })],
      ["behaviorCloning: unknown option 'lambda'", td3({ behaviorCloning: { lambda: 1 } })],
      [
        'behaviorCloning.alpha must be within [0, 1e+30], got -1',
        td3({ behaviorCloning: { alpha: -1 } }),
      ],
      ['behaviorCloning takes an options object, got true', td3({ behaviorCloning: true })],
      ['batchSize', sac({ batchSize: 0 })],
      ['actionDim', td3({ actionDim: undefined })],
      ['actionLow[1] must be below actionHigh[1], got 1 and 1', sac({ actionLow: [0, 1] })],
      ['actionHigh must be 2 numbers, got 3', td3({ actionHigh: [1, 1, 1] })],
      ['critic must be { kind:', sac({ critic: { kind: 'quantile' } })],
      [
        'critic.min must be below critic.max, got 1 and -1',
        td3({ critic: { ...atoms, min: 1, max: -1 } }),
      ],
      ["critic: unknown option 'vMin'", sac({ critic: { ...atoms, vMin: 1 } })],
      ["logStd.form must be one of clamp, tanh, got 'exp'", sac({ logStd: { form: 'exp' } })],
      [
        "correction must be one of scaled, unscaled, split, exact, got 'none'",
        sac({ correction: 'none' }),
      ],
      ["temperature must be 'auto' or a number, got 'high'", sac({ temperature: 'high' })],
      ["actorValue must be 'first', 'min' or 'mean', got 'max'", td3({ actorValue: 'max' })],
      [
        "activation must be one of relu, tanh, silu, gelu, elu, got 'swish'",
        td3({ activation: 'swish' }),
      ],
      ["normalizer: unknown option 'eps'", sac({ normalizer: { eps: 1 } })],
      [
        'actorOptimizer has a maxGradNorm (1) in addition to the learner',
        td3({ maxGradNorm: 2, actorOptimizer: { maxGradNorm: 1 } }),
      ],
      ["Adam: unknown option 'lr'", sac({ criticOptimizer: { lr: 1 } })],
      ["Adam: unknown option 'of'", sac({ actorOptimizer: { of: ['actor'] } })],
      ['learningRate must be', td3({ criticOptimizer: { learningRate: () => 1 } })],
      ['SacLearner takes an options object', () => new SacLearner(device, undefined as never)],
      ['actionDim must be', sac({ actionDim: 'x' })],
      ['targetEntropy must be', sac({ targetEntropy: null })],
      ["a SacLearner batch needs a tensor 'rewards'", update({ rewards: undefined })],
      ['nextObs must be 8×4, got 8×2', update({ nextObs: batch.actions })],
      ['an update needs a multiple of batchSize 8 rows, got 7', update({ obs: some(7, OBS) })],
      ["update: unknown option 'noise'", update({}, { noise: {} })],
      ["update: draws: unknown option 'actor'", update({}, { draws: { actor: out } })],
      ["update: record: unknown option 'alpha'", update({}, { record: { alpha: {} } })],
      [
        "update: record of 'q': unknown option 'grad'",
        update({}, { record: { q: { grad: out } } }),
      ],
      ['draws.next must be 16 contiguous floats', update({}, { draws: { next: out } })],
      ['record.q.gradient must be', update({}, { record: { q: { gradient: out } } })],
      ["this learner's state has no 'more'", load({ more: state.logAlpha })],
      ["the state lacks 'logAlpha'", load({ logAlpha: undefined })],
      [
        "'logAlpha' must be { dtype, shape, data }, got null",
        load({ logAlpha: null as unknown as undefined }),
      ],
      [
        "'generator' is 2, the state has 1 of 1 elements",
        load({ generator: saved('uint64', BigUint64Array.of(1n)) }),
      ],
      [
        'updates must be a whole number of at least 0, got -1',
        load({ updates: saved('float64', Float64Array.of(-1)) }),
      ],
      [
        "'logAlpha' is float32, the state has int32",
        load({ logAlpha: { dtype: 'int32', shape: [1], data: new Int32Array(1) } }),
      ],
      [
        "'logAlpha' is 1, the state has 2",
        load({ logAlpha: { dtype: 'float32', shape: [2], data: new Float32Array(2) } }),
      ],
      ['this policy is', () => learner.policy().load(new Float32Array(3))],
      ["SacPolicy: unknown option 'noise'", () => learner.policy({ noise: 1 } as never)],
      ["SacPolicy: unknown option 'batchSize'", () => new SacPolicy(shape as never)],
      [
        "Td3Policy: unknown option 'greedy'",
        () => new Td3Policy({ obsDim: 1, actionDim: 1 }, { greedy: true } as never),
      ],
    ];
    for (const [text, call] of cases) expect(refusal(call).message, text).to.include(text);
    expect(bytes(await learner.state())).to.deep.equal(bytes(state));
    const given = keep(new SacLearner(device, { ...shape, gamma: 0.9 }));
    const discounts = { ...batch, discounts: batch.rewards };
    expect(refusal(() => given.update(stream, discounts, out)).message).to.include(
      'omit the option gamma (0.9)',
    );
    learner.close();
    expect(refusal(() => learner.update(stream, batch, out)).code).to.equal(
      'ERR_HOTSLOT_STATE_CLOSED',
    );
  });
});

describe('SquashedGaussian', () => {
  it('samples 33 elements, by two launches, like 32 elements and one, by a launch each', async () => {
    const device = openDevice(TESTED);
    const stream = device.currentStream;
    const random = new Random(7);
    const [rows, n] = [6, 33];
    const values = (length: number) => Float32Array.from({ length }, () => random.between(-1, 1));
    const [out, noise] = [values(rows * 2 * n), values(rows * n)];
    /** Samples the elements from `first` to before `end`. */
    async function sampled(first: number, end: number) {
      const count = end - first;
      const part = (all: Float32Array) => all.filter((_, i) => i % n >= first && i % n < end);
      using gaussian = new SquashedGaussian(device, { actionDim: count, rows });
      using outs = device.allocate({ shape: [rows, 2 * count] }).write(part(out));
      using drawn = device.allocate({ shape: [rows, count] }).write(part(noise));
      using action = device.allocate({ shape: [rows, count] });
      using logProb = device.allocate({ shape: [rows] });
      gaussian.sample(stream, outs, drawn, action, logProb);
      return { actions: await action.toArray(), logProbs: await logProb.toArray(), part };
    }
    const [all, first, last] = [await sampled(0, n), await sampled(0, 32), await sampled(32, n)];
    expect(first.part(all.actions)).to.deep.equal(first.actions);
    expect(last.part(all.actions)).to.deep.equal(last.actions);
    const sums = first.logProbs.map((value, i) => value + last.logProbs[i]!);
    expectClose(all.logProbs, sums, 1e-6, 'log-probabilities');
  });
});
