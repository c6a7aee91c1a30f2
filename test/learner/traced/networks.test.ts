/**
 * Tests networks as ops of a trace: the device's gradients against float64, those of the float64
 * interpreter against central differences, and layers of one's own.
 */
import { expect } from 'chai';
import {
  conv2d,
  dueling,
  expectation,
  type Layer,
  layerNorm,
  linear,
  Network,
  ops,
  quantileMean,
  relu,
  silu,
  tanh,
} from '../../../src/entries/learner.ts';
import {
  adam,
  checkGradients,
  constant,
  describeLearner,
  type Expression,
  ensemble,
  learner,
  TracedLearner,
} from '../../../src/entries/trace.ts';
import { expressionOf, nodeFrom } from '../../../src/learn/trace/expression.ts';
import { gradientsOf } from '../../../src/learn/trace/gradient.ts';
import { evaluate } from '../../../src/learn/trace/interpreter.ts';
import type { Node } from '../../../src/learn/trace/tape.ts';
import { refusal } from '../../rig/refusal.ts';
import { net, numbers, OBS, Rig, ROWS } from './rig.ts';

/** A layer that a user wrote: y = 2 · x · weight, element by element. */
const scaled = (n: number, hosted: boolean): Layer => ({
  name: `scaled(${n})`,
  inputs: n,
  outputs: () => n,
  parameters: () => [{ name: 'weight', shape: [n], initial: { value: 0.5 } }],
  scratch: () => n,
  forward(stream, { parameters: [weight], x, y }) {
    ops.mul(stream, y, x, weight!);
    ops.mul(stream, y, y, 2);
  },
  backward(stream, { parameters: [weight], x, dy, dx, gradients, scratch }) {
    ops.mul(stream, scratch!, dy, x);
    ops.mul(stream, scratch!, scratch!, 2);
    if (gradients)
      stream.launch('column_sums', {
        tensors: [gradients[0]!, scratch!],
        wholes: [dy.shape[0]!, n, n],
        reals: [1, 0],
      });
    if (!dx) return;
    ops.mul(stream, dx, dy, weight!);
    ops.mul(stream, dx, dx, 2);
  },
  ...(hosted && {
    run(x, rows, y, [weight]) {
      for (let i = 0; i < rows * n; i++) y[i] = 2 * x[i]! * weight![i % n]!;
    },
  }),
});

const networks: Readonly<Record<string, () => Network>> = {
  'linear layers with relu and tanh': () =>
    new Network([linear(OBS, 6), relu(), linear(6, 4), tanh(), linear(4, 3)]),
  'layer norms with activations': () =>
    new Network([linear(OBS, 6), layerNorm(6), silu(), layerNorm(6), linear(6, 2)]),
  'a convolution': () => {
    const images = conv2d([1, 5, 1], 2, { kernel: [3, 1] });
    return new Network([images, relu(), linear(6, 2)]);
  },
  'dueling and expectation': () =>
    new Network([
      linear(OBS, 12),
      dueling(2, { atoms: 4 }),
      expectation(2, { atoms: 4, min: -1, max: 2 }),
    ]),
  'means of quantiles': () => new Network([linear(OBS, 6), quantileMean(3, 2)]),
  "a layer of one's own": () =>
    new Network([linear(OBS, 4), scaled(4, true), relu(), linear(4, 2)]),
};

/** Returns the network op from which an expression was reshaped. */
function networkIn(y: Expression): Node {
  let node = nodeFrom(y);
  while (node.op !== 'network') node = node.inputs[0]!;
  return node;
}

/** Returns how many members run the layer linear(7, 2) forward, and how many backward. */
const membersOf = (plan: string): number[] =>
  ['linear_act', 'linear_gradients'].map((kernel) => {
    const launches = plan.matchAll(new RegExp(`${kernel} .*linear\\(7, 2\\)(?: × (\\d+))?`, 'g'));
    return [...launches].reduce((sum, [, count = '1']) => sum + Number(count), 0);
  });

describe('networks as ops of a trace', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  for (const [name, network] of Object.entries(networks))
    for (const members of [1, 2])
      it(`${name}, ${members} of them and used twice: gradients agree with float64`, async () => {
        const q = network();
        const values = new Map<string, Float64Array>();
        let exact: Float64Array | undefined;
        let error = Number.NaN;
        /** Makes the learner. `look` sees its loss, the parameters and the observations. */
        const make = (look: (loss: Expression, flat: Node, obs: Expression) => void) =>
          rig.keep(
            learner(rig.device, {
              name: 'network',
              rows: ROWS,
              batch: { obs: [OBS], nextObs: [OBS] },
              networks: { q: members === 1 ? q : ensemble(q, members) },
              optimizers: { q: adam() },
              update: ({ q: net }, { obs, nextObs }) => {
                const again = (net as (x: Expression) => Expression)(nextObs.tanh().mul(obs));
                const y = (net as (x: Expression) => Expression)(obs);
                const loss = y.square().add(again).mul(y.sin()).mean();
                look(loss, networkIn(y).inputs[1]!, obs);
                return { minimize: { q: loss } };
              },
            }),
          );
        const made = make((loss, flat, obs) => {
          if (members === 1) ({ error } = checkGradients(loss, [expressionOf(flat), obs]));
        });
        const batch = rig.batch(ROWS, 'index');
        values.set('obs', Float64Array.from(await batch.obs!.toArray(), Number));
        values.set('nextObs', Float64Array.from(await batch.nextObs!.toArray(), Number));
        values.set('q', Float64Array.from(await made.weights('q').toArray()));
        const gradient = rig.zeros(members * q.parameterCount);
        const norm = rig.zeros(1);
        made.update(rig.stream, { obs: batch.obs, nextObs: batch.nextObs }, rig.zeros(1), {
          record: { q: { gradient, norm } },
        });
        // The same loss again, with the values of this learner.
        make((loss, flat) => {
          const found = gradientsOf(nodeFrom(loss), [flat], () => 'none');
          exact = evaluate(
            found,
            (node) => values.get((node.attributes as { name: string }).name)!,
          )[0] as Float64Array;
        });
        const got = await gradient.toArray();
        const most = exact!.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
        for (const [i, value] of got.entries())
          expect(Math.abs(value - exact![i]!), `element ${i}`).to.be.at.most(2e-5 * most);
        expect((await norm.toArray())[0]).to.be.closeTo(Math.hypot(...exact!), 1e-4 * most);
        if (members === 1) expect(error).to.be.at.most(1e-6);
      });

  it('two gradients through one pass are right, although layers overwrite what they kept', async () => {
    const q = new Network([linear(OBS, 6), layerNorm(6), tanh(), linear(6, 2)]);
    const gradients = await Promise.all(
      [true, false].map(async (twice) => {
        const made = rig.keep(
          learner(rig.device, {
            name: 'kept',
            rows: ROWS,
            batch: { obs: [OBS] },
            networks: { q },
            optimizers: { q: adam() },
            update: ({ q: net }, { obs }) => {
              const loss = () => net(obs).square().mean();
              return { minimize: { q: twice ? loss().add(loss().mul(2)) : loss().mul(3) } };
            },
          }),
        );
        const gradient = rig.zeros(q.parameterCount);
        const { obs } = rig.batch(ROWS, 'index');
        made.update(rig.stream, { obs }, rig.zeros(1), { record: { q: { gradient } } });
        return gradient.toArray();
      }),
    );
    const [one, other] = gradients as [Float32Array, Float32Array];
    for (const [i, value] of one.entries()) expect(value).to.be.closeTo(other[i]!, 1e-6);
  });

  it('a layer without run() trains, and checkGradients() names it', async () => {
    const q = new Network([linear(OBS, 4), scaled(4, false), linear(4, 1)]);
    const describe = (check: boolean) =>
      learner(rig.device, {
        name: 'own',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: { q },
        optimizers: { q: adam() },
        update: ({ q: net }, { obs }) => {
          const loss = net(obs).square().mean();
          if (check) checkGradients(loss, [obs]);
          return { minimize: { q: loss }, scalars: { loss } };
        },
      });
    const made = rig.keep(describe(false));
    const out = rig.zeros(1);
    const { obs } = rig.batch(ROWS, 'index');
    made.update(rig.stream, { obs }, out);
    const [before] = await out.toArray();
    for (let i = 0; i < 50; i++) made.update(rig.stream, { obs }, out);
    expect((await out.toArray())[0]).to.be.below(before!);
    expect(refusal(() => describe(true)).message).to.match(
      /^checkGradients: scaled\(4\) has no run\(\)/,
    );
  });

  it('a network applies to rows along the last dimension, and to whole images', async () => {
    const q = new Network([linear(6, 4)]);
    const shapes: unknown[] = [];
    const made = rig.keep(
      learner(rig.device, {
        name: 'shapes',
        rows: ROWS,
        batch: { x: [3, 6], image: [2, 3], one: [6] },
        networks: { q, twins: ensemble(q, 2) },
        optimizers: { q: adam(), twins: adam() },
        update: ({ q: net, twins }, { x, image, one }) => {
          const all = [net(x), net(image), net(one), twins(x), twins(one)];
          shapes.push(...all.map(({ shape }) => shape));
          return { minimize: { q: net(x).mean(), twins: twins(one).mean() } };
        },
      }),
    );
    expect(shapes).to.deep.equal([
      [8, 3, 4],
      [8, 4],
      [8, 4],
      [2, 8, 3, 4],
      [2, 8, 4],
    ]);
    const batch = {
      x: rig.tensor([ROWS, 3, 6], numbers(ROWS * 18, 1)),
      image: rig.zeros(ROWS, 2, 3),
      one: rig.zeros(ROWS, 6),
    };
    made.update(rig.stream, batch, rig.zeros(1));
    expect(await made.weights('twins.1').toArray()).to.deep.equal(
      (await made.weights('twins').toArray()).slice(q.parameterCount),
    );
    expect(made.policy('twins.0').network).to.equal(q);
    expect((await made.weights('q').toArray()).some((w, i) => w !== q.initialize(0)[i])).to.equal(
      true,
    );
  });

  it('an ensemble runs only the members that are read, and the others have a gradient of 0', async () => {
    const description = (read: (values: Expression) => Expression) =>
      describeLearner({
        name: 'part',
        rows: ROWS,
        batch: { obs: [OBS] },
        networks: { actor: net(OBS, OBS), critics: ensemble(net(OBS, 2), 3) },
        optimizers: { actor: adam(), critics: adam() },
        update({ actor, critics }, { obs }) {
          const values = critics(actor(obs)) as Expression;
          const loss = read(values).square().sum();
          return { minimize: { actor: loss, critics: loss }, scalars: { loss } };
        },
      });
    const make = (read: (values: Expression) => Expression) =>
      rig.keep(new TracedLearner(rig.device, description(read), { poison: true }));
    const part = make((values) => values.slice(0, 1, 2));
    const whole = make((values) => values.mul(constant([0, 1, 0], [3, 1, 1])) as Expression);
    const passes = (made: TracedLearner) => membersOf(String(made.plan));
    expect([passes(part), passes(whole)]).to.deep.equal([
      [1, 1],
      [3, 3],
    ]);
    const before = await part.weights('critics').toArray();
    const { obs } = rig.batch(2 * ROWS, 'index');
    const outs = [part, whole].map((made) => {
      const out = rig.zeros(1);
      made.update(rig.stream, { obs }, out);
      return out;
    });
    expect(await part.parameters.toArray()).to.deep.equal(await whole.parameters.toArray());
    expect(await outs[0]!.toArray()).to.deep.equal(await outs[1]!.toArray());
    const after = await part.weights('critics').toArray();
    const size = after.length / 3;
    const changed = [0, 1, 2].map((j) =>
      after.subarray(j * size, (j + 1) * size).some((w, i) => w !== before[j * size + i]),
    );
    expect(changed).to.deep.equal([false, true, false]);
  });

  it('an ensemble runs all members that any op or result reads', async () => {
    const passes = (
      read: (values: Expression) => Expression,
      also: (values: Expression) => object,
    ) => {
      const made = rig.keep(
        learner(rig.device, {
          name: 'all',
          rows: ROWS,
          batch: { obs: [OBS] },
          networks: { critics: ensemble(net(OBS, 2), 3) },
          optimizers: { critics: adam() },
          update({ critics }, { obs }) {
            const values = critics(obs) as Expression;
            const scalars = also(values) as Record<string, Expression>;
            return { minimize: { critics: read(values).square().sum() }, scalars };
          },
        }),
      );
      return membersOf(String(made.plan));
    };
    const first = (values: Expression) => values.slice(0, 0, 1);
    const last = (values: Expression) => values.slice(0, 2, 3);
    expect(passes(first, () => ({}))).to.deep.equal([1, 1]);
    expect(passes(first, (values) => ({ other: last(values).mean() }))).to.deep.equal([2, 1]);
    expect(passes(first, (values) => ({ mean: values.mean() }))).to.deep.equal([3, 1]);
    expect(
      passes(
        (values) => first(values).add(last(values)),
        () => ({}),
      ),
    ).to.deep.equal([3, 3]);
    expect(
      passes(
        (values) => values.slice(1, 0, 1),
        () => ({}),
      ),
    ).to.deep.equal([3, 3]);
  });

  it('poisoned memory changes no bit of a learner', async () => {
    const q = networks['layer norms with activations']!();
    const description = () =>
      describeLearner({
        name: 'poison',
        rows: ROWS,
        batch: { obs: [OBS], nextObs: [OBS] },
        networks: { q, p: ensemble(q, 2) },
        optimizers: { q: adam(), p: adam() },
        update: ({ q: one, p }, { obs, nextObs }) => [
          {
            minimize: {
              q: one(obs)
                .sub(p(nextObs).min({ axis: 0 }).detach())
                .square()
                .mean(),
            },
            every: 2,
          },
          { minimize: { p: p(obs).sub(one(nextObs).detach()).square().mean() } },
        ],
      });
    const both = [false, true].map((poison) =>
      rig.keep(new TracedLearner(rig.device, description(), { poison })),
    );
    const { obs, nextObs } = rig.batch(3 * ROWS, 'index');
    for (const made of both) made.update(rig.stream, { obs, nextObs }, rig.zeros(1));
    const [one, two] = await Promise.all(both.map(({ parameters }) => parameters.toArray()));
    expect(two).to.deep.equal(one);
    expect(one!.every(Number.isFinite)).to.equal(true);
  });
});
