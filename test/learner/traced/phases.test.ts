/**
 * Tests the phases of a traced learner: which parameters a loss sees, how often a phase runs, and
 * that captures of one minibatch equal captures of whole cycles.
 */
import { expect } from 'chai';
import { hostRules } from '../../../src/device/products.ts';
import { linear, Network, tanh } from '../../../src/entries/learner.ts';
import {
  adam,
  concat,
  copied,
  type DescribedLearner,
  describeLearner,
  type Expression,
  ensemble,
  learner,
  linearSchedule,
  normal,
  parameter,
  polyak,
  randomSubset,
  sgd,
  TracedLearner,
  tdLoss,
  uniform,
  where,
} from '../../../src/entries/trace.ts';
import { refusal } from '../../rig/refusal.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { net, numbers, OBS, Rig, ROWS, tracedTd3 } from './rig.ts';

describe('phases of traced learners', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  const one = (rows = ROWS) => ({ obs: rig.tensor([rows, OBS], new Float32Array(rows * OBS)) });
  async function numbersOf(made: DescribedLearner, updates = 1, rows = ROWS): Promise<number[]> {
    const out = rig.zeros(Math.max(made.scalars.length, 1));
    for (let i = 0; i < updates; i++) made.update(rig.stream, one(rows), out);
    return Array.from(await out.toArray());
  }
  const value = async (made: DescribedLearner, name: string) =>
    (await made.weights(name).toArray())[0]!;

  /** A learner whose parameters a and b step by 1 in each minibatch in which their phase runs. */
  type Numbers = Record<'a' | 'b', Expression<readonly []>>;
  const steps = (
    update: (parameters: Numbers, obs: Expression) => object,
    more: object = {},
  ): DescribedLearner =>
    rig.keep(
      learner(rig.device, {
        name: 'steps',
        rows: ROWS,
        batch: { obs: [OBS] },
        parameters: { a: parameter(), b: parameter({ initial: 10 }) },
        optimizers: { a: sgd({ learningRate: 1 }), b: sgd({ learningRate: 1 }) },
        update: (_, { obs }, parameters) => update(parameters as Numbers, obs) as never,
        ...more,
      }),
    );

  it('a later phase sees what an earlier one stepped, and an op is computed once', async () => {
    const made = steps(({ a, b }) => {
      const before = a.mul(2);
      const after = a.mul(3);
      return [
        { minimize: { a: a.neg() }, scalars: { before: before.add(0) } },
        { minimize: { b: b.neg() }, scalars: { kept: before.add(1), after } },
      ];
    });
    // In the second update, a is 1 before its step and 2 after it.
    expect(await numbersOf(made, 2)).to.deep.equal([2, 3, 6]);
  });

  it('all gradients of one phase are taken before its steps', async () => {
    const made = steps(({ a, b }) => ({
      minimize: { a: a.mul(b.detach()).neg(), b: a.detach().mul(b).neg() },
    }));
    await numbersOf(made);
    expect(await value(made, 'a')).to.equal(10);
    expect(await value(made, 'b')).to.equal(10); // the gradient is −a before its step: 0
  });

  it('a loss that differentiates through stepped parameters is refused, with the line', () => {
    const { message } = refusal(() =>
      steps(({ a, b }) => {
        const product = a.mul(b);
        return [{ minimize: { a: product } }, { minimize: { b: product.mul(2) } }];
      }),
    );
    expect(message).to.match(
      /^learner: phase 1 differentiates through 'a' at .*phases\.test\.[jt]s:\d+:\d+, which phase 0 computed before it stepped 'a'/,
    );
  });

  it('a phase with `every` runs in minibatches whose number is a multiple of it', async () => {
    const phases = ({ a, b }: Numbers) => [
      { minimize: { a: a.neg() }, every: 3 },
      { minimize: { b: b.neg() } },
    ];
    const made = steps(phases, { firstUpdate: 1 });
    await numbersOf(made, 5); // minibatches 1 to 5
    expect([await value(made, 'a'), await value(made, 'b')]).to.deep.equal([1, 15]);
    const whole = steps(phases);
    await numbersOf(whole, 1, 7 * ROWS); // minibatches 0 to 6
    expect([await value(whole, 'a'), await value(whole, 'b')]).to.deep.equal([3, 17]);
  });

  it('an op that phases of several periods need is computed as often as each of them', async () => {
    // `shared` is first needed by a phase that runs every second time, and then by one that always runs.
    const made = steps(({ a, b }, obs) => {
      const shared = obs.mean().add(b);
      return [
        { minimize: { a: a.mul(shared.detach()) }, every: 2 },
        { minimize: { b: b.neg() }, scalars: { shared: shared.add(0) } },
      ];
    });
    expect(await numbersOf(made, 2)).to.deep.equal([11]);
  });

  /** Returns by how much the draws of each phase of drawing() advance the generator. */
  async function offsetsOf(made: DescribedLearner): Promise<number[]> {
    await numbersOf(made);
    const both = Number(((await made.state()).generator!.data as BigUint64Array)[1]);
    const first = steps(({ a }) => ({
      minimize: { a: a.neg() },
      scalars: { own: normal([4]).mean() },
    }));
    await numbersOf(first);
    const own = Number(((await first.state()).generator!.data as BigUint64Array)[1]);
    return [own, both - own];
  }

  it('a reduction of one element of a parameter is computed once', async () => {
    const made = steps(({ a, b }) => {
      const before = a.mean();
      return [
        { minimize: { a: a.neg() }, scalars: { one: before.add(0) } },
        { minimize: { b: b.neg() }, scalars: { two: before.mul(2), after: a.mul(2) } },
      ];
    });
    expect(await numbersOf(made, 2)).to.deep.equal([1, 2, 4]);
  });

  it('a multiple of a sum of a parameter is that of the sum before the step', async () => {
    const pair = parameter({ shape: [2], initial: [1, 2] });
    const made = rig.keep(
      learner(rig.device, {
        name: 'sums',
        rows: ROWS,
        batch: { obs: [OBS] },
        parameters: { pair },
        optimizers: { pair: sgd({ learningRate: 1 }) },
        update(_, __, { pair }) {
          const sum = pair.sum();
          return [
            { minimize: { pair: sum.neg() }, scalars: { sum } },
            { scalars: { twice: sum.mul(2), negated: sum.neg() } },
          ];
        },
      }),
    );
    // sgd() adds 1 to each of both elements before the second phase.
    expect(await numbersOf(made, 1)).to.deep.equal([3, 6, -3]);
  });

  it('equal ops of phases that run at other times are not merged', async () => {
    const made = steps(({ a, b }, obs) => [
      { minimize: { a: a.mul(obs.square().mean()) }, every: 2 },
      { minimize: { b: b.neg() }, scalars: { second: obs.square().mean() } },
    ]);
    const out = rig.zeros(1);
    const seen: number[] = [];
    for (let x = 1; x <= 4; x++) {
      const obs = rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(x));
      made.update(rig.stream, { obs }, out);
      seen.push((await out.toArray())[0]!);
    }
    expect(seen).to.deep.equal([1, 4, 9, 16]);
  });

  it('an op that only a loss needs is computed again where a later phase needs an equal one', async () => {
    const made = steps(({ a, b }) => [
      { minimize: { a: a.add(b.detach().mul(5).sum()) } },
      { minimize: { b: b.mul(0) }, scalars: { five: b.detach().mul(5).sum().add(0) } },
    ]);
    expect(await numbersOf(made, 2)).to.deep.equal([50]);
  });

  it('a scalar of a delayed phase changes only when the phase runs, also if others need it', async () => {
    // The first phase computes `shared` each time. The scalar must not be this memory.
    const made = steps(({ a, b }, obs) => {
      const shared = obs.mean().add(1);
      return [
        { minimize: { a: a.mul(shared.square()).neg() } },
        { minimize: { b: b.neg() }, scalars: { shared }, every: 2 },
      ];
    });
    expect(await rising(made, 4)).to.deep.equal([2, 2, 4, 4]);
  });

  it('a gradient that an earlier phase computes does not replace the gradient of that phase', async () => {
    const made = steps(({ a, b }, obs) => {
      const slope = obs.mean().add(2);
      return [
        { minimize: { a: a.mul(3), b: b.neg() }, scalars: { twice: slope.mul(2) } },
        { minimize: { a: a.mul(slope) } },
      ];
    });
    await numbersOf(made);
    expect(await value(made, 'a')).to.equal(-5);
  });

  it('a later phase reads a value that is also a gradient, after another gradient of the optimizer', async () => {
    const made = steps(({ a, b }, obs) => {
      const slope = obs.mean().add(2);
      return [
        { minimize: { a: a.mul(slope), b: b.neg() } },
        { minimize: { a: a.mul(3) } },
        { scalars: { twice: slope.mul(2) } },
      ];
    });
    expect(await numbersOf(made)).to.deep.equal([4]);
    expect(await value(made, 'a')).to.equal(-5);
  });

  it('a copy that a delayed phase needs is made again for a phase that runs more often', async () => {
    // Rows of a batch have gaps, so each mean copies them first.
    const made = steps(({ a, b }, obs) => [
      { minimize: { a: a.mul(obs.slice(1, 1).mean()) }, every: 2 },
      { minimize: { b: b.neg() }, scalars: { mean: obs.slice(1, 1).mean().mul(2) } },
    ]);
    expect(await rising(made, 4)).to.deep.equal([2, 4, 6, 8]);
  });

  /** Makes a learner whose phases read a view of c that needs a copy. c rises by 1 in each minibatch. */
  const viewing = (
    phases: (first: (by: number) => Expression, turned: Expression, y: Expression) => object[],
  ): DescribedLearner =>
    rig.keep(
      learner(rig.device, {
        name: 'views',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: { q: new Network([linear(OBS, 2), tanh()]) },
        parameters: { c: parameter({ shape: [ROWS, 2], initial: numbers(2 * ROWS, 1) }) },
        optimizers: { q: sgd({ learningRate: 0 }), c: sgd({ learningRate: 1 }) },
        update({ q }, { obs }, { c }) {
          const turned = c.transpose([1, 0]).reshape([ROWS, 2]);
          const first = (by: number) => turned.slice(0, 0, 1).mean().mul(by);
          const all = phases(first, turned, q(obs));
          return [
            { minimize: { c: c.sum().neg() }, scalars: { before: first(1) } },
            ...all,
          ] as never;
        },
      }),
    );

  it('a copied view of parameters is copied again after a phase that runs more rarely', async () => {
    const made = viewing((first, _, y) => [
      { minimize: { q: y.mean() }, scalars: { rare: first(2) }, every: 2 },
      { scalars: { after: first(1) } },
    ]);
    for (let k = 0; k < 4; k++) {
      const [before, , after] = (await numbersOf(made)) as [number, number, number];
      expect(after - before, `minibatch ${k}`).to.be.closeTo(1, 1e-5);
    }
  });

  it('a backward pass does not overwrite a copied view that others read', async () => {
    const made = viewing((first, turned, y) => [
      { minimize: { q: y.mul(turned.detach()).sum() }, scalars: { now: first(1) } },
    ]);
    const [loss, out] = [rig.zeros(1), rig.zeros(2)];
    // The batch is 0, so y is tanh of the bias.
    const batch = one();
    made.update(rig.stream, batch, out, { record: { q: { loss } } });
    const [bias, c] = [await made.weights('q').toArray(), await made.weights('c').toArray()];
    let wanted = 0;
    for (let i = 0; i < 2 * ROWS; i++)
      wanted += Math.tanh(bias[2 * OBS + (i % 2)]!) * c[(i % ROWS) * 2 + Math.floor(i / ROWS)]!;
    expect((await loss.toArray())[0]).to.be.closeTo(wanted, 1e-5);
  });

  it('a phase that runs more often does not take over the memory of a concatenation', async () => {
    const made = steps(({ a, b }, obs) => [
      { minimize: { a: a.mul(concat(0, obs, obs.mul(2)).mean()) }, every: 2 },
      { minimize: { b: b.neg() }, scalars: { mean: concat(0, obs, obs.mul(3)).mean() } },
    ]);
    expect(await rising(made, 4)).to.deep.equal([2, 4, 6, 8]);
  });

  it('a delayed phase takes over the memory of a concatenation', async () => {
    const all = ({ a, b }: Numbers, obs: Expression, part: number) => [
      { minimize: { a: a.mul(concat(0, obs, obs.mul(3)).mean()).neg() } },
      {
        minimize: { b: b.mul(concat(part, obs, obs.mul(5)).square().mean()).neg() },
        every: 2,
      },
    ];
    const [made, apart] = [0, 1].map((part) => steps((given, obs) => all(given, obs, part)));
    await rising(made!, 4);
    await rising(apart!, 4);
    // The means of a are 2, 4, 6 and 8, and those of b are 13 and 9 · 13.
    expect([await value(made!, 'a'), await value(made!, 'b')]).to.deep.equal([20, 140]);
    expect(await value(apart!, 'b')).to.equal(140);
    expect(made!.plan.launches).to.equal(apart!.plan.launches - 1);
  });

  it('poisoned memory changes no bit of concatenations that share memory', async () => {
    const description = () =>
      describeLearner({
        name: 'poison',
        rows: ROWS,
        batch: { obs: [OBS], nextObs: [OBS] },
        networks: { q: net(2 * OBS, 1), p: net(OBS, OBS, tanh()) },
        optimizers: { q: adam(), p: adam() },
        update: ({ q, p }, { obs, nextObs }) => [
          {
            minimize: {
              q: q(concat(1, obs, nextObs))
                .square()
                .mean(),
            },
          },
          { minimize: { p: q(concat(1, obs, p(obs))).mean() }, every: 2 },
          { scalars: { mean: q(concat(1, obs, nextObs.tanh())).mean() } },
        ],
      });
    const both = [false, true].map((poison) =>
      rig.keep(new TracedLearner(rig.device, description(), { poison, products: hostRules })),
    );
    const copies = String(both[0]!.plan).match(/ copy2d +concat /g);
    // The first has two copies, and the others have one. The copy after tanh() is in a chain.
    expect(copies).to.have.length(4);
    const { obs, nextObs } = rig.batch(4 * ROWS, 'index');
    const outs = both.map((made) => {
      const out = rig.zeros(1);
      made.update(rig.stream, { obs: obs!, nextObs: nextObs! }, out);
      return out;
    });
    const read = (tensors: typeof outs) => Promise.all(tensors.map((each) => each.toArray()));
    const [one, two] = await read(both.map(({ parameters }) => parameters) as typeof outs);
    expect(two).to.deep.equal(one);
    expect(one!.every(Number.isFinite)).to.equal(true);
    const [mean, again] = await read(outs);
    expect(again).to.deep.equal(mean);
  });

  it('a concatenation of parameters is made again after they changed', async () => {
    const made = viewing((_, turned, y) => [
      { minimize: { q: y.mean() }, scalars: { one: concat(1, turned, turned.mul(0)).mean() } },
      { minimize: { c: turned.sum().neg() } },
      { scalars: { two: concat(1, turned, turned.mul(0).add(0)).mean() } },
    ]);
    for (let k = 0; k < 3; k++) {
      const [, one, two] = (await numbersOf(made)) as [number, number, number];
      expect(two - one, `minibatch ${k}`).to.be.closeTo(0.5, 1e-5);
    }
  });

  it('a concatenation that a backward pass overwrites leaves no memory', async () => {
    // The gradient of the lesser member is a concatenation, which tanh() overwrites.
    const made = rig.keep(
      learner(rig.device, {
        name: 'least',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: { q: ensemble(new Network([linear(OBS, 2), tanh()]), 2) },
        optimizers: { q: sgd({ learningRate: 1 }) },
        update({ q }, { obs }) {
          const y = q(obs);
          const weight = obs.slice(1, 0, 2).add(1);
          const first = y.detach().slice(0, 0, 1).reshape([ROWS, 2]);
          const chosen = where(first.eq(y.detach().min({ axis: 0 })), weight, 0);
          const both = concat(0, chosen.reshape([1, ROWS, 2]), first.reshape([1, ROWS, 2]));
          return [
            { minimize: { q: y.min({ axis: 0 }).mul(weight).sum() } },
            {
              scalars: {
                both: both.mean(),
                chosen: chosen.add(0).mean(),
                first: first.add(0).mean(),
              },
            },
          ];
        },
      }),
    );
    const obs = rig.tensor([ROWS, OBS], numbers(ROWS * OBS, 3));
    const out = rig.zeros(3);
    made.update(rig.stream, { obs }, out);
    const [both, chosen, first] = (await out.toArray()) as unknown as [number, number, number];
    expect(chosen).to.not.equal(0);
    expect(both).to.be.closeTo((chosen + first) / 2, 1e-6);
  });

  /** Updates with batches of ones, twos and so on, and returns the first scalar after each. */
  async function rising(made: DescribedLearner, updates: number): Promise<number[]> {
    const out = rig.zeros(1);
    const seen: number[] = [];
    for (let x = 1; x <= updates; x++) {
      const obs = rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(x));
      made.update(rig.stream, { obs }, out);
      seen.push((await out.toArray())[0]!);
    }
    return seen;
  }

  it('a recorded loss is that of its minibatch, also if a delayed phase shares its ops', async () => {
    const made = steps(({ a, b }, obs) => {
      const shared = obs.mean().square();
      return [
        { minimize: { a: a.detach().sub(a).add(shared) } },
        { minimize: { b: b.detach().sub(b) }, scalars: { shared: shared.add(0) }, every: 2 },
      ];
    });
    expect(await recorded(made, 'a')).to.deep.equal([1, 4, 9]);
  });

  it('a loss can be recorded without an earlier one that shares its ops', async () => {
    const made = steps(({ a, b }, obs) => {
      const shared = obs.mean().square();
      return [
        { minimize: { a: a.detach().sub(a).add(shared) } },
        { minimize: { b: b.detach().sub(b).add(shared) } },
      ];
    });
    expect(await recorded(made, 'b')).to.deep.equal([1, 4, 9]);
  });

  it('phases of other periods get the same gradient of one tdLoss()', async () => {
    const zeros = () => parameter({ shape: [3] });
    const made = rig.keep(
      learner(rig.device, {
        name: 'shared-loss',
        rows: 4,
        batch: { q: [3], actions: 'index', targets: [] },
        parameters: { a: zeros(), b: zeros() },
        optimizers: { a: sgd({ learningRate: 1 }), b: sgd({ learningRate: 1 }) },
        update(_, { q, actions, targets }, { a, b }) {
          const { loss } = tdLoss(q.add(a).add(b) as Expression, actions, targets, { delta: 0 });
          return [
            { minimize: { a: loss.mean() }, every: 2 },
            { minimize: { b: loss.mean() }, every: 3 },
          ];
        },
      }),
    );
    const q = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1];
    const batch = {
      q: rig.tensor([4, 3], Float32Array.from(q)),
      actions: rig.tensor([4], Float32Array.of(0, 1, 2, 0)),
      targets: rig.zeros(4),
    };
    made.update(rig.stream, batch, rig.zeros(1));
    // The slope of a square is 2 q, and the mean divides by 4 rows.
    for (const name of ['a', 'b'])
      expect([...(await made.weights(name).toArray())], name).to.deep.equal([-1, -2.5, -4.5]);
  });

  it('a loss can be recorded without the priorities that share its ops', async () => {
    const made = steps(({ b }, obs) => {
      const rows = obs.mean({ axis: 1 }).square().add(b.detach().sub(b));
      return { minimize: { b: rows.mean() }, priorities: rows };
    });
    expect(await recorded(made, 'b')).to.deep.equal([1, 4, 9]);
  });

  /** Updates with batches of ones, twos and threes, and returns the recorded losses. */
  async function recorded(made: DescribedLearner, event: string): Promise<number[]> {
    const [out, loss] = [rig.zeros(1), rig.zeros(1)];
    const seen: number[] = [];
    for (let x = 1; x <= 3; x++) {
      const obs = rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(x));
      made.update(rig.stream, { obs }, out, { record: { [event]: { loss } } });
      seen.push((await loss.toArray())[0]!);
    }
    return seen;
  }

  it('draws of a phase that does not run leave the generator as it is', async () => {
    const drawing = (every: number) =>
      steps(({ a, b }) => [
        { minimize: { a: a.neg() }, scalars: { own: normal([4]).mean() } },
        { minimize: { b: b.neg() }, scalars: { rare: uniform([8]).mean() }, every },
      ]);
    const [often, seldom] = [drawing(1), drawing(4)];
    await numbersOf(often, 4);
    await numbersOf(seldom, 4);
    const offsets = [await often.state(), await seldom.state()].map((state) =>
      Number((state.generator!.data as BigUint64Array)[1]),
    );
    const [ofPhase0, ofPhase1] = await offsetsOf(drawing(1));
    expect(offsets).to.deep.equal([4 * ofPhase0! + 4 * ofPhase1!, 4 * ofPhase0! + ofPhase1!]);
    expect(often.draws.map(({ name, shape }) => [name, shape])).to.deep.equal([
      ['normal.0', [4]],
      ['uniform.0', [8]],
    ]);
  });

  it('followers move after all phases: each time, with a phase, every nth time, or by copies', async () => {
    const made = rig.keep(
      learner(rig.device, {
        name: 'followers',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: {
          q: net(OBS, 1),
          slow: polyak('q', 0.5),
          rare: polyak('q', 1, { every: 3 }),
          paired: polyak('q', 1, { with: 'p' }),
          copy: copied('q', { every: 2 }),
        },
        parameters: { p: parameter() },
        optimizers: { q: sgd({ learningRate: 0.1 }), p: sgd() },
        update: ({ q }, { obs }, { p }) => [
          { minimize: { q: q(obs).mean() } },
          { minimize: { p }, every: 2 },
        ],
      }),
    );
    const all = async () => {
      const names = ['q', 'slow', 'rare', 'paired', 'copy'];
      const found = await Promise.all(names.map((name) => made.weights(name).toArray()));
      return found.map((weights) => weights.at(-1)!);
    };
    const q: number[] = [(await all())[0]!];
    const expected = { slow: q[0]!, rare: q[0]!, paired: q[0]!, copy: q[0]! };
    for (let k = 0; k < 7; k++) {
      await numbersOf(made);
      const [now, slow, rare, paired, copy] = await all();
      expected.slow = Math.fround(0.5 * now! + 0.5 * expected.slow);
      if (k % 3 === 0) expected.rare = now!;
      if (k % 2 === 0) expected.paired = now!;
      if ((k + 1) % 2 === 0) expected.copy = now!;
      expect({ slow, rare, paired, copy }, `minibatch ${k}`).to.deep.equal(expected);
    }
  });

  it('a copied follower counts the steps of an optimizer in all phases', async () => {
    const made = rig.keep(
      learner(rig.device, {
        name: 'copied',
        rows: 1,
        batch: { obs: [1] },
        networks: { q: new Network([linear(1, 1)]), target: copied('q', { every: 2 }) },
        optimizers: { q: sgd({ learningRate: 0.1 }) },
        update: ({ q }, { obs }) => [
          { minimize: { q: q(obs).mean() } },
          { every: 2, minimize: { q: q(obs).mean() } },
        ],
      }),
    );
    const obs = rig.zeros(1, 1);
    const copies: boolean[] = [];
    // The optimizer has done 2, 3, 5 and 6 steps after a minibatch.
    for (let k = 0; k < 4; k++) {
      made.weights('target').write(Float32Array.of(7, 7));
      made.update(rig.stream, { obs }, rig.zeros(1));
      copies.push((await made.weights('target').toArray())[0] !== 7);
    }
    expect(copies).to.deep.equal([true, false, false, true]);
  });

  it('schedules set the learning rate from the number of steps of the optimizer', async () => {
    const made = steps(
      ({ a, b }) => [{ minimize: { a: a.neg() } }, { minimize: { a: a.neg(), b: b.neg() } }],
      {
        optimizers: {
          a: sgd({ learningRate: linearSchedule({ from: 1, to: 0, steps: 4 }) }),
          b: sgd({ learningRate: (step) => step.mul(2).add(1) }),
        },
      },
    );
    await numbersOf(made, 3);
    // Rates of a: 1, 0.75, 0.5, 0.25, 0, 0. Rates of b: 1, 3, 5.
    expect([await value(made, 'a'), await value(made, 'b')]).to.deep.equal([2.5, 19]);
  });

  it('a subset of an ensemble has different members', async () => {
    const made = rig.keep(
      learner(rig.device, {
        name: 'subset',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: { critics: ensemble(net(OBS, 1), 6) },
        optimizers: { critics: adam() },
        update: ({ critics }, { obs }) => {
          const chosen = randomSubset(6, 3);
          const values = critics(obs).reshape([6, ROWS]).take(chosen);
          return {
            minimize: { critics: values.mean() },
            scalars: {
              a: chosen.slice(0, 0, 1).sum(),
              b: chosen.slice(0, 1, 2).sum(),
              c: chosen.slice(0, 2).sum(),
            },
          };
        },
      }),
    );
    const seen = new Set<number>();
    for (let i = 0; i < 20; i++) {
      const drawn = await numbersOf(made);
      expect(new Set(drawn).size).to.equal(3);
      for (const each of drawn) seen.add(each);
    }
    expect([...seen].sort()).to.deep.equal([0, 1, 2, 3, 4, 5]);
  });

  describe('captures', () => {
    const K = 4;
    async function states(made: readonly DescribedLearner[]) {
      const all = await Promise.all(made.map((each) => each.state()));
      for (const [i, state] of all.entries())
        for (const [key, { data }] of Object.entries(all[0]!))
          if (key !== 'numbers')
            expect(state[key]!.data, `learner ${i}: ${key}`).to.deep.equal(data);
    }

    it('of one minibatch, of whole cycles, and issued updates give the same bits', async function () {
      if (!ON_HOST) return this.skip();
      const [issued, single, whole, guarded] = Array.from({ length: 4 }, () =>
        rig.keep(tracedTd3(rig.device)),
      ) as [DescribedLearner, DescribedLearner, DescribedLearner, DescribedLearner];
      await Promise.all([issued, single, whole, guarded].map(({ ready }) => ready));
      const batch = rig.batch(K * ROWS, 'numbers');
      const fed = rig.batch(ROWS, 'numbers');
      const out = rig.zeros(4);
      const replayWhole = rig.captured((stream) => whole.update(stream, batch, out));
      const replayOne = rig.captured((stream) => guarded.update(stream, fed, out));
      for (let i = 0; i < 3; i++) {
        issued.update(rig.stream, batch, out);
        replayWhole();
        for (let k = 0; k < K; k++) {
          const part = rig.part(batch, k);
          single.update(rig.stream, part, out);
          for (const [name, tensor] of Object.entries(fed)) rig.stream.copy(tensor, part[name]!);
          replayOne();
        }
      }
      await states([issued, single, whole, guarded]);
    });

    it('of one minibatch go on from a loaded state', async function () {
      if (!ON_HOST) return this.skip();
      const [first, second, third] = Array.from({ length: 3 }, () =>
        rig.keep(tracedTd3(rig.device, 1)),
      ) as [DescribedLearner, DescribedLearner, DescribedLearner];
      await Promise.all([first, second, third].map(({ ready }) => ready));
      const batch = rig.batch(ROWS, 'numbers');
      const out = rig.zeros(4);
      const [one, two] = [first, second].map((each) =>
        rig.captured((stream) => each.update(stream, batch, out)),
      ) as [() => void, () => void];
      for (let i = 0; i < 3; i++) one();
      second.loadState(await first.state());
      third.loadState(await first.state());
      for (let i = 0; i < 4; i++) {
        one();
        two();
        third.update(rig.stream, batch, out);
      }
      await states([first, second, third]);
      expect((await first.state()).updates!.data[0]).to.equal(8);
    });

    it('of other numbers of minibatches are refused', async () => {
      const made = rig.keep(tracedTd3(rig.device));
      await made.ready;
      const out = rig.zeros(4);
      const batch = rig.batch(3 * ROWS, 'numbers');
      rig.stream.beginCapture();
      const { message } = refusal(() => made.update(rig.stream, batch, out));
      rig.stream.endCapture().close();
      expect(message).to.match(
        /^td3: a captured update must hold whole cycles: its number of minibatches must be (1 or )?a multiple of 2, the every of a phase, and it is 3 \(.*phases\.test/,
      );
    });
  });
});
