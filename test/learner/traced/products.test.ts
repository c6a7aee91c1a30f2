/**
 * Products of networks with what surrounds them, under the rules of each kind of device. The launches
 * run on the tested device, so the rules alone differ.
 */
import { expect } from 'chai';
import {
  hostRules,
  ownRules,
  type ProductRules,
  vendorRules,
} from '../../../src/device/products.ts';
import {
  conv2d,
  elu,
  gelu,
  layerNorm,
  linear,
  Network,
  relu,
  sigmoid,
  silu,
  tanh,
} from '../../../src/entries/learner.ts';
import {
  adam,
  bootstrap,
  concat,
  describeLearner,
  type Expression,
  ensemble,
  huber,
  polyak,
  TracedLearner,
} from '../../../src/entries/trace.ts';
import { numbers, OBS, Rig, ROWS } from './rig.ts';

/** A library that multiplies everything. */
const vendor = vendorRules('a library', { multiplyAdds: 0, terms: 0, source: 'this test' });
/** A library that multiplies some layers, and others only backward. */
const mixed = vendorRules('a library', {
  multiplyAdds: ROWS * 8 * 6,
  terms: 7,
  source: 'this test',
});
const apart: ProductRules = { ...ownRules, twoPlaces: false, joins: false };
const all: Readonly<Record<string, ProductRules>> = { own: ownRules, apart, vendor, mixed };

const small = (inputs: number, outputs: number, ...end: ReturnType<typeof tanh>[]): Network =>
  new Network([linear(inputs, 8), relu(), linear(8, 7), tanh(), linear(7, outputs), ...end]);

/** Double DQN, whose online network runs on two inputs. */
const dqn = (q: Network) =>
  describeLearner({
    name: 'dqn',
    rows: ROWS,
    batch: { obs: [OBS], nextObs: [OBS], actions: 'index', rewards: [], discounts: [] },
    networks: { q, target: polyak('q', 0.1) },
    optimizers: { q: adam({ learningRate: 1e-2 }) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts }) {
      const best = (q(nextObs) as Expression).argmax();
      const next = (target(nextObs) as Expression).pick(best);
      const error = (q(obs) as Expression)
        .pick(actions)
        .sub(bootstrap(rewards, discounts, next).detach());
      return { minimize: { q: huber(error).mean() }, scalars: { error: error.abs().mean() } };
    },
  });

/** Critics of observations and actions, and an actor that climbs their first member or all of them. */
const critics = (n: number, read: number, critic = small(OBS + 3, 1)) =>
  describeLearner({
    name: 'critics',
    rows: ROWS,
    batch: { obs: [OBS], nextObs: [OBS], actions: [3], rewards: [] },
    networks: {
      actor: small(OBS, 3, tanh()),
      critics: ensemble(critic, n),
      targets: polyak('critics', 0.1),
    },
    optimizers: { actor: adam({ learningRate: 1e-2 }), critics: adam({ learningRate: 1e-2 }) },
    update({ actor, critics, targets }, { obs, nextObs, actions, rewards }) {
      const value = (of: typeof critics, x: Expression, a: Expression): Expression =>
        (of(concat(1, x, a) as Expression<readonly [number, number]>) as Expression).reshape([
          n,
          ROWS,
        ]);
      const next = value(targets, nextObs, actor(nextObs) as Expression).min({ axis: 0 });
      const error = value(critics, obs, actions).sub(rewards.add(next.mul(0.9)).detach());
      const climbed = value(critics, obs, actor(obs) as Expression).slice(0, 0, read);
      return [
        { minimize: { critics: error.square().mean() }, scalars: { error: error.square().mean() } },
        { minimize: { actor: climbed.mean().neg() }, scalars: { value: climbed.mean() } },
      ];
    },
  });

const cases: Readonly<Record<string, () => ReturnType<typeof describeLearner>>> = {
  'double DQN': () => dqn(small(OBS, 3)),
  'double DQN with one layer': () => dqn(new Network([linear(OBS, 3)])),
  'double DQN with an activation at its end': () => dqn(small(OBS, 3, elu())),
  'double DQN with activations whose slopes need their input': () =>
    dqn(
      new Network([
        ...[linear(OBS, 8), silu(), linear(8, 7), gelu(), linear(7, 6), sigmoid()],
        linear(6, 3),
      ]),
    ),
  'double DQN with layer norms': () =>
    dqn(
      new Network([
        ...[linear(OBS, 8), layerNorm(8), silu(), linear(8, 7), layerNorm(7)],
        linear(7, 3),
      ]),
    ),
  'double DQN with convolutions': () =>
    dqn(
      new Network([
        conv2d([1, 1, OBS], 2, { kernel: 1 }),
        relu(),
        linear(2 * OBS, 6),
        relu(),
        linear(6, 3),
      ]),
    ),
  'double DQN that begins with an activation': () => dqn(new Network([tanh(), linear(OBS, 3)])),
  'one critic': () => critics(1, 1),
  'two critics': () => critics(2, 2),
  'the first of two critics': () => critics(2, 1),
  'two of five critics': () => critics(5, 2),
  'two critics with layer norms': () =>
    critics(
      2,
      2,
      new Network([linear(OBS + 3, 8), layerNorm(8), relu(), linear(8, 7), silu(), linear(7, 1)]),
    ),
};

describe('products with what surrounds them', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  /** Makes a learner under rules, and runs three updates. */
  async function ran(
    description: ReturnType<typeof describeLearner>,
    products: ProductRules,
    options: object = {},
  ) {
    const made = rig.keep(new TracedLearner(rig.device, description, { products, ...options }));
    const shapes: Record<string, number[]> = {
      ...{ obs: [ROWS, OBS], nextObs: [ROWS, OBS], rewards: [ROWS], discounts: [ROWS] },
      actions: description.batch && 'discounts' in description.batch ? [ROWS] : [ROWS, 3],
    };
    const out = rig.zeros(made.scalars.length);
    const scalars: number[] = [];
    await made.ready;
    for (let k = 0; k < 3; k++) {
      const batch = Object.fromEntries(
        Object.entries(shapes)
          .filter(([name]) => name in description.batch)
          .map(([name, shape], i) => {
            const size = shape.reduce((n, length) => n * length, 1);
            const values = numbers(size, 10 * k + i);
            const isIndex = name === 'actions' && shape.length === 1;
            return [name, rig.tensor(shape, isIndex ? values.map((_, at) => at % 3) : values)];
          }),
      );
      made.update(rig.stream, batch as never, out);
      scalars.push(...(await out.toArray()));
    }
    return { made, scalars, weights: await made.parameters.toArray() };
  }

  for (const [name, describe] of Object.entries(cases))
    it(`${name}: each kind of device computes the same learner`, async () => {
      const wanted = await ran(describe(), hostRules);
      for (const [kind, rules] of Object.entries(all)) {
        const found = await ran(describe(), rules, { poison: true });
        for (const part of ['scalars', 'weights'] as const)
          for (const [i, value] of wanted[part].entries())
            expect(found[part][i], `${kind}: ${part}[${i}]`).to.be.closeTo(value, 4e-6);
        expect(found.weights.some((w) => w !== 0)).to.equal(true);
      }
    });

  it('the rules of the host give the bits of products apart from their surroundings', async () => {
    for (const describe of Object.values(cases)) {
      const wanted = await ran(describe(), vendor);
      const found = await ran(describe(), hostRules, { poison: true });
      expect(found.weights).to.deep.equal(wanted.weights);
    }
  });
});
