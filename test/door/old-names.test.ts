/**
 * Tests the old names with British spelling, which options, members and topologies accept until
 * 0.5.
 */
import { expect } from 'chai';
import { withPresentNames, withSavedNames } from '../../src/base/old-names.ts';
import { train } from '../../src/entries/collect.ts';
import { periodicTopology, shareHaloExchange } from '../../src/entries/halo.ts';
import {
  DqnLearner,
  Mlp,
  Normaliser,
  Normalizer,
  SacLearner,
  SacPolicy,
  Td3Learner,
  Td3Policy,
} from '../../src/entries/learner.ts';
import {
  openDevice,
  prioritized,
  prioritizedIndices,
  type Tensor,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';

const device = openDevice('host:0');
const box = { obsDim: 2, actionDim: 1, actorHidden: [4] };
const small = { ...box, batchSize: 4, criticHidden: [4] };
const adam = { learningRate: 1e-3 };
const leaves = Float64Array.of(1, 2, 3);

const callers: Record<
  string,
  [old: string, present: string, value: unknown, call: (o: object) => unknown]
> = {
  'SacLearner actor': [
    'actorOptimiser',
    'actorOptimizer',
    adam,
    (o) => closed(new SacLearner(device, { ...small, ...o })),
  ],
  'SacLearner critics': [
    'criticOptimiser',
    'criticOptimizer',
    adam,
    (o) => closed(new SacLearner(device, { ...small, ...o })),
  ],
  'SacLearner temperature': [
    'temperatureOptimiser',
    'temperatureOptimizer',
    adam,
    (o) => closed(new SacLearner(device, { ...small, ...o })),
  ],
  'SacLearner normalizer': [
    'normaliser',
    'normalizer',
    { clip: 3 },
    (o) => closed(new SacLearner(device, { ...small, ...o })),
  ],
  'Td3Learner cloning': [
    'behaviourCloning',
    'behaviorCloning',
    { alpha: 2 },
    (o) => closed(new Td3Learner(device, { ...small, ...o })),
  ],
  SacPolicy: ['normaliser', 'normalizer', true, (o) => new SacPolicy({ ...box, ...o }).length],
  Td3Policy: ['normaliser', 'normalizer', true, (o) => new Td3Policy({ ...box, ...o }).length],
  prioritized: ['normalise', 'normalize', 'batch', (o) => prioritized(o).normalize],
  prioritizedIndices: [
    'normalise',
    'normalize',
    'none',
    (o) => prioritizedIndices({ leaves, seed: 1, count: 3, ...o }),
  ],
};

function closed(learner: SacLearner | Td3Learner): unknown {
  const { settings, published } = learner;
  learner.close();
  return [settings, published.shape];
}

describe('old names of options', () => {
  for (const [what, [old, present, value, call]] of Object.entries(callers)) {
    it(`${what}: ${old} has the effect of ${present}`, () => {
      expect(call({ [old]: value })).to.deep.equal(call({ [present]: value }));
    });

    it(`${what}: ${old} together with ${present} throws a TypeError with both names`, () => {
      const error = refusal(() => call({ [old]: value, [present]: value }));
      expect(error).to.be.instanceOf(TypeError);
      expect(error.message).to.include(`${old} is the old name of ${present}, and both are given`);
    });
  }

  it('train() rejects both names of a learner option', async () => {
    const failed = await train({
      environment: new URL('./none.mjs', import.meta.url),
      learner: { algorithm: 'sac', actorOptimiser: adam, actorOptimizer: adam },
      steps: 2000,
    }).catch((error: Error) => error);
    expect((failed as Error).message).to.include('train: learner: actorOptimiser is the old name');
  });

  it('shareHaloExchange() accepts either name, and throws for two different lists', () => {
    const { ranks, neighbors, neighbours } = periodicTopology({ layout: [2, 1] });
    expect(neighbours).to.equal(neighbors);
    const x = [
      {
        nPoints: 1,
        shape: [4, 4],
        origin: [1, 1],
        extent: [2, 2],
        strides: [16, 4],
        itemsize: 4,
        dtype: 'float32',
        dims: ['i', 'j'],
      },
    ];
    const share = (topology: object) => shareHaloExchange({ topology, x } as never);
    for (const topology of [
      { ranks, neighbors },
      { ranks, neighbours },
      { ranks, neighbors, neighbours },
    ])
      expect(share(topology).neighbours).to.deep.equal(neighbors);
    const error = refusal(() => share({ ranks, neighbors, neighbours: [...neighbors] }));
    expect(error.message).to.include('neighbours is the old name of neighbors');
  });
});

describe('old names of members', () => {
  it('of learners, samplers and networks return the values of the present members', () => {
    const sac = new SacLearner(device, { ...small, normalizer: true });
    const dqn = new DqnLearner(device, { obsDim: 2, actions: 2, hidden: [4], batchSize: 4 });
    const mlp = new Mlp({ sizes: [2, 4, 1] });
    const sampler = prioritized({ normalize: 'none' });
    expect(sac.actorOptimiser).to.equal(sac.actorOptimizer);
    expect(sac.criticOptimiser).to.equal(sac.criticOptimizer);
    expect(sac.temperatureOptimiser).to.equal(sac.temperatureOptimizer);
    expect(sac.normaliser).to.equal(sac.normalizer).and.to.be.instanceOf(Normaliser);
    expect(Normaliser).to.equal(Normalizer);
    expect(dqn.optimiser).to.equal(dqn.optimizer);
    expect(sampler.normalise).to.equal('none');
    expect(mlp.initialise(3)).to.deep.equal(mlp.initialize(3));
    sac.close();
    dqn.close();
  });

  it('inspect() of a sampler returns `odd` with the value of `nonFinite`', () => {
    const buffer = TrajectoryBuffer.create({
      capacity: 8,
      lanes: 1,
      fields: { obs: { shape: [2], observation: true } },
    });
    const sampler = prioritized();
    const writer = buffer.writer();
    for (let step = 0; step < 2; step++)
      writer.add({
        obs: new Float32Array(2),
        rewards: new Float32Array(1),
        terminated: new Uint8Array(1),
        truncated: new Uint8Array(1),
      });
    buffer.sample({ view: buffer.transitions(), seed: 1, count: 1, sampler });
    const { odd, nonFinite } = sampler.inspect();
    expect([odd, nonFinite]).to.deep.equal([0, 0]);
    buffer.close();
  });

  it("launch('count_odd') launches count_non_finite", async () => {
    const int32 = (...values: number[]) =>
      device.allocate({ shape: [values.length], dtype: 'int32' }).write(Int32Array.from(values));
    const found = int32(0, 0);
    const x = device.allocate({ shape: [4] }).write(Float32Array.of(1, Number.NaN, 2, -Infinity));
    const ends = int32(4);
    const counter = int32(6);
    // The stream on which the values are written.
    const stream = device.currentStream;
    stream.launch('count_odd', { tensors: [found, x, ends, counter], wholes: [4, 1, 2] });
    await stream.synchronize();
    expect([...((await found.toArray()) as Int32Array)]).to.deep.equal([2, 7]);
    for (const tensor of [found, x, ends, counter]) tensor.close();
  });

  it("launch('copy_every') launches follow_every, which copies", async () => {
    const stream = device.currentStream;
    const [to, from] = [0, 1].map(() => device.allocate({ shape: [2] })) as [Tensor, Tensor];
    const counter = device.allocate({ shape: [1], dtype: 'int32' });
    from.write(Float32Array.of(Infinity, 3));
    const read = async () => [...((await to.toArray()) as Float32Array)];
    counter.write(Int32Array.of(3));
    stream.launch('copy_every', { tensors: [to, from, counter], wholes: [2, 2] });
    expect(await read()).to.deep.equal([0, 0]);
    counter.write(Int32Array.of(4));
    stream.launch('copy_every', { tensors: [to, from, counter], wholes: [2, 2] });
    expect(await read()).to.deep.equal([Infinity, 3]);
    for (const tensor of [to, from, counter]) tensor.close();
  });
});

describe('names in files', () => {
  it('states and settings keep the old names', async () => {
    const sac = new SacLearner(device, { ...small, normalizer: true });
    await sac.ready;
    const names = Object.keys(await sac.state());
    for (const old of [
      'actorOptimiser.mean',
      'criticOptimiser.steps',
      'temperatureOptimiser.options',
      'normaliser.count',
    ])
      expect(names).to.include(old);
    expect(sac.settings).to.have.property('normaliser');
    sac.close();
  });

  it('withPresentNames() inverts withSavedNames(), and returns present names unchanged', () => {
    const options = { actorOptimizer: 1, behaviorCloning: 2, normalizer: 3, gamma: 4 };
    const saved = withSavedNames(options);
    expect(Object.keys(saved)).to.deep.equal([
      'actorOptimiser',
      'behaviourCloning',
      'normaliser',
      'gamma',
    ]);
    expect(withPresentNames('here', saved)).to.deep.equal(options);
    expect(withPresentNames('here', options)).to.equal(options);
  });
});
