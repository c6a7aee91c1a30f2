/** Tests the memory to which updates write priorities. */
import { expect } from 'chai';
import { linear, Network } from '../../src/entries/learner.ts';
import { learner, sgd, uniform } from '../../src/entries/trace.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import type { Plan } from '../../src/learn/trace/plan/plan.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { builtIn } from './nodes.ts';

type Floats = Tensor<'float32'>;
const learners = ['double DQN', 'C51', 'QR-DQN', 'discrete SAC', 'SAC', 'TD3', 'TQC', 'IQL'];

/** A learner with a batch of one minibatch. */
async function made(device: Device, name: string) {
  const { make, obs, actions, event } = builtIn[name]!;
  const learner = make(device);
  const rows = learner.batchSize;
  const numbers = (of: (i: number) => number, ...shape: number[]): Floats => {
    const size = rows * shape.reduce((a, b) => a * b, 1);
    const values = Float32Array.from({ length: size }, (_, i) => of(i));
    return device.allocate({ shape: [rows, ...shape] }).write(values);
  };
  const random = (seed: number, ...shape: number[]) =>
    numbers((i) => Math.sin(seed + i * i), ...shape);
  const batch = {
    ...{ obs: random(1, obs), nextObs: random(2, obs), rewards: random(3) },
    actions: actions === 1 ? numbers((i) => i % 2) : random(4, actions),
    discounts: numbers((i) => (i % 5 ? 0.99 : 0)),
    weights: numbers((i) => 0.5 + (i % 3) / 4),
  };
  const out = device.allocate({ shape: [learner.scalars.length] });
  const state = await learner.state();
  return { learner, rows, batch, out, state, numbers, event };
}

describe('priorities', () => {
  const device = openDevice(TESTED);
  const stream = device.currentStream;

  for (const name of learners)
    it(`${name} writes equal priorities to any memory of the caller`, async () => {
      const { learner, rows, batch, out, state, numbers, event } = await made(device, name);
      using _ = learner;
      /** Returns the priorities and scalars of the first update, with another tensor or option. */
      const updated = async (to: Floats, weights: Floats, record = {}) => {
        await learner.loadState(state);
        learner.update(stream, { ...batch, weights, priorities: to }, out, { record });
        return [[...(await to.toArray())], [...(await out.toArray())]];
      };
      const dense = numbers(() => -1);
      const wanted = await updated(dense, batch.weights);
      expect(new Set(wanted[0]).size).to.be.above(rows / 4);
      const packed = device.allocate({ shape: [rows, 3] });
      const column = packed.view({ shape: [rows], strides: [3], offset: 1 });
      expect(await updated(column, batch.weights)).to.deep.equal(wanted);
      const loss = device.allocate({ shape: [1] });
      expect(await updated(dense, batch.weights, { [event]: { loss } })).to.deep.equal(wanted);
      // The weights of the update are in the same memory.
      const shared = numbers((i) => 0.5 + (i % 3) / 4);
      expect(await updated(shared, shared)).to.deep.equal(wanted);
      // An update without priorities leaves the last ones.
      dense.write(new Float32Array(rows).fill(7));
      learner.update(stream, { ...batch, priorities: dense }, out);
      dense.write(new Float32Array(rows).fill(7));
      learner.update(stream, batch, out);
      expect(new Set(await dense.toArray())).to.deep.equal(new Set([7]));
    });

  /** A learner whose errors have random factors, and the tensors of an update. */
  function drawing(what: 'errors' | 'factors') {
    const rows = 4;
    const made = learner(device, {
      name: 'factors',
      ...{ rows, batch: { obs: [2], rewards: [] } },
      networks: { q: new Network([linear(2, 1)]) },
      optimizers: { q: sgd({ learningRate: 1e-3 }) },
      update({ q }, { obs, rewards }) {
        const factors = uniform([rows]);
        const error = q(obs).reshape([rows]).sub(rewards).mul(factors);
        const priorities = what === 'factors' ? factors : error.abs();
        return {
          minimize: { q: error.square().mean() },
          scalars: { f: factors.mean() },
          priorities,
        };
      },
    });
    const floats = (shape: number[], of: (i: number) => number) => {
      const size = shape.reduce((a, b) => a * b, 1);
      return device.allocate({ shape }).write(Float32Array.from({ length: size }, (_, i) => of(i)));
    };
    const batch = { obs: floats([rows, 2], (i) => i), rewards: floats([rows], (i) => i / 4) };
    return { made, rows, batch, floats, out: device.allocate({ shape: [1] }) };
  }

  for (const what of ['errors', 'factors'] as const)
    it(`that are ${what} of a draw are equal in any memory`, async () => {
      const { made, rows, batch, floats, out } = drawing(what);
      using _ = made;
      const state = await made.state();
      const found: number[][] = [];
      for (const stride of [2, 1]) {
        await made.loadState(state);
        const priorities = floats([rows, stride], () => -5).view({
          shape: [rows],
          strides: [stride],
        });
        for (let i = 0; i < 2; i++) made.update(stream, { ...batch, priorities }, out);
        const weights = await made.weights('q').toArray();
        found.push([...(await priorities.toArray()), ...(await out.toArray()), ...weights]);
      }
      expect(found[1]).to.deep.equal(found[0]);
      expect(found[0]!.slice(0, rows).every((x) => x >= 0)).to.equal(true);
    });

  it('may be memory of numbers that a later launch draws', async () => {
    const { batch, floats, rows, made: other } = drawing('errors');
    other.close();
    using made = learner(device, {
      name: 'later',
      ...{ rows, batch: { obs: [2], rewards: [] } },
      networks: { q: new Network([linear(2, 1)]) },
      optimizers: { q: sgd({ learningRate: 1e-3 }) },
      update({ q }, { obs, rewards }) {
        const error = q(obs).reshape([rows]).sub(rewards);
        const scalars = { mean: uniform([rows]).mean() };
        return { minimize: { q: error.square().mean() }, scalars, priorities: error };
      },
    });
    const out = device.allocate({ shape: [1] });
    const drawn = floats([rows], (i) => (i + 1) / 8);
    made.update(stream, { ...batch, priorities: drawn }, out, { draws: { 'uniform.0': drawn } });
    expect(await out.toArray()).to.deep.equal(Float32Array.of(0.3125));
  });

  it('redirect() refuses memory that the learner or a batch uses', () => {
    const { made, rows, batch, floats } = drawing('errors');
    using _ = made;
    const plan = made.plan as Plan;
    const size = plan.outputs.map((output) => output.size);
    const at = size.indexOf(rows);
    const shared = floats([3 * rows], () => 0);
    const part = (at: number) => shared.view({ shape: [rows], offset: at * rows });
    plan.bind(stream, { ...batch, rewards: part(1) });
    const packed = floats([rows, 2], () => 0);
    const vector = made.parameters;
    const cases: readonly (readonly [number, Floats, boolean])[] = [
      [at, floats([rows], () => 0), true],
      [at, packed.view({ shape: [rows], strides: [2] }), false],
      [at, part(0), true],
      [at, part(1), false],
      [at, part(2), true],
      [at, batch.obs.view({ shape: [rows], offset: rows }), false],
      [at, vector.view({ shape: [1] }), false],
      [0, floats([size[0]!], () => 0), false], // a gradient has memory of its optimizer
    ];
    for (const [i, [output, to, taken]] of cases.entries())
      expect(plan.redirect(output, to), `case ${i}`).to.equal(taken);
    expect(plan.redirect(at, null)).to.equal(false);
  });

  it('of a delayed phase stay in the minibatches without it', async () => {
    const rows = 4;
    using made = learner(device, {
      name: 'delayed',
      ...{ rows, batch: { obs: [2] } },
      networks: { q: new Network([linear(2, 1)]), p: new Network([linear(2, 1)]) },
      optimizers: { q: sgd({ learningRate: 1e-3 }), p: sgd({ learningRate: 1e-3 }) },
      update({ q, p }, { obs }) {
        const size = q(obs).reshape([rows]).square();
        const losses = [size.mean(), p(obs).square().mean()] as const;
        return [
          { minimize: { q: losses[0] } },
          { every: 2, minimize: { p: losses[1] }, priorities: size },
        ];
      },
    });
    const obs = device.allocate({ shape: [rows, 2] }).write(new Float32Array(2 * rows).fill(1));
    const priorities = device.allocate({ shape: [rows] });
    const out = device.allocate({ shape: [0] });
    for (const due of [true, false, true, false]) {
      priorities.write(new Float32Array(rows).fill(-1));
      made.update(stream, { obs, priorities }, out);
      expect((await priorities.toArray()).every((x) => x >= 0)).to.equal(due);
    }
  });

  it('a watch reads them in the memory of the learner', async () => {
    const rows = 4;
    using made = learner(device, {
      name: 'errors',
      ...{ rows, batch: { obs: [2], rewards: [] } },
      networks: { q: new Network([linear(2, 1)]) },
      optimizers: { q: sgd({ learningRate: 1e-3 }) },
      update({ q }, { obs, rewards }) {
        const value = q(obs).reshape([rows]);
        const error = value.sub(rewards);
        // A later launch reads the value, so the errors have memory of their own.
        const scalars = { most: value.max() };
        return { minimize: { q: error.square().mean() }, scalars, priorities: error };
      },
    });
    const floats = (shape: number[], ...values: number[]) =>
      device.allocate({ shape }).write(Float32Array.from(values));
    const obs = floats([rows, 2], 1, 2, 3, 4, 5, 6, 7, 8);
    const [good, bad] = [floats([rows], 1, 2, 3, 4), floats([rows], 1, 2, 3, Number.NaN)];
    const out = device.allocate({ shape: [1] });
    const state = await made.state();
    const first = device.allocate({ shape: [rows] });
    made.update(stream, { obs, rewards: good, priorities: first }, out);
    await stream.synchronize();
    first.close();
    const dense = device.allocate({ shape: [rows] });
    const column = device.allocate({ shape: [rows, 2] }).view({ shape: [rows], strides: [2] });
    // The second update writes NaN to memory of the learner, and the third to no such memory.
    for (const [rewards, priorities, finds] of [
      [good, dense, false],
      [bad, column, true],
      [good, dense, false],
    ] as const) {
      await made.loadState(state);
      using watch = made.watch({ every: 1 });
      made.update(stream, { obs, rewards, priorities }, out);
      expect((await watch.first()) !== null).to.equal(finds);
      expect(Number.isNaN((await priorities.toArray())[rows - 1])).to.equal(finds);
    }
  });

  it('a graph keeps the memory of its capture', async () => {
    const { learner, rows, batch, out, state, numbers } = await made(device, 'double DQN');
    using _ = learner;
    const [one, two] = [numbers(() => -1), numbers(() => -1)];
    learner.update(stream, { ...batch, priorities: two }, out);
    const wanted = await two.toArray();
    await learner.loadState(state);
    await stream.synchronize();
    stream.beginCapture();
    learner.update(stream, { ...batch, priorities: one }, out);
    using graph = stream.endCapture();
    using replayable = graph.instantiate();
    two.write(new Float32Array(rows).fill(7));
    learner.update(stream, { ...batch, priorities: two }, out);
    two.write(new Float32Array(rows).fill(7));
    await learner.loadState(state);
    stream.replay(replayable);
    expect([...(await one.toArray())]).to.deep.equal([...wanted]);
    expect(new Set(await two.toArray())).to.deep.equal(new Set([7]));
  });

  it('take no node if the loss computes them', async function () {
    if (!ON_HOST) this.skip(); // nodes of the CPU device are launches
    const counts: Record<string, number> = {};
    for (const name of learners.filter((each) => each !== 'TD3')) {
      const { learner, batch, out, numbers } = await made(device, name);
      using _ = learner;
      const nodes = (more: object) => {
        stream.beginCapture();
        learner.update(stream, { ...batch, ...more }, out);
        using graph = stream.endCapture();
        return graph.nodeCount;
      };
      const priorities = numbers(() => 0);
      await stream.synchronize();
      counts[name] = nodes({ priorities }) - nodes({});
    }
    const single = { 'double DQN': 0, C51: 0, 'QR-DQN': 0, TQC: 0 };
    // A mean over critics needs launches of its own.
    expect(counts).to.deep.equal({ ...single, SAC: 1, IQL: 2, 'discrete SAC': 2 });
  });
});
