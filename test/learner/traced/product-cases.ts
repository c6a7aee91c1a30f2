/**
 * Learners whose products are launched under the rules of each kind of device. The launches run on the
 * tested device, so the rules alone differ.
 */
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
  type Layer,
  layerNorm,
  linear,
  Network,
  ops,
  relu,
  sigmoid,
  silu,
  tanh,
} from '../../../src/entries/learner.ts';
import {
  bootstrap,
  concat,
  describeLearner,
  type Expression,
  ensemble,
  huber,
  polyak,
  sgd,
  TracedLearner,
} from '../../../src/entries/trace.ts';
import { numbers, OBS, Rig, ROWS } from './rig.ts';

/** A library that multiplies everything. */
export const vendor = vendorRules('a library', { multiplyAdds: 0, terms: 0 });
/** A library that multiplies some layers, and others only backward. */
const mixed = vendorRules('a library', {
  multiplyAdds: ROWS * 8 * 6,
  terms: 7,
});
const apart: ProductRules = { ...ownRules, twoPlaces: false, joins: false };
export const all: Readonly<Record<string, ProductRules>> = { own: ownRules, apart, vendor, mixed };

const small = (inputs: number, outputs: number, ...end: ReturnType<typeof tanh>[]): Network =>
  new Network([linear(inputs, 8), relu(), linear(8, 7), tanh(), linear(7, outputs), ...end]);

/** A layer of a user that computes x² and overwrites what it kept. */
const squared = (): Layer => ({
  name: 'squared()',
  outputs: (inputs) => inputs,
  parameters: () => [],
  keeps: (inputs) => inputs,
  forward(stream, { x, y, kept }) {
    ops.mul(stream, kept!, x, 2);
    ops.mul(stream, y, x, x);
  },
  backward(stream, { kept, dy, dx }) {
    ops.mul(stream, kept!, kept!, dy);
    if (dx) ops.convert(stream, dx, kept!);
  },
});

/** Double DQN, whose online network runs on two inputs. */
const dqn = (q: Network) =>
  describeLearner({
    name: 'dqn',
    rows: ROWS,
    batch: { obs: [OBS], nextObs: [OBS], actions: 'index', rewards: [], discounts: [] },
    networks: { q, target: polyak('q', 0.1) },
    optimizers: { q: sgd({ learningRate: 0.05 }) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts }) {
      const best = (q(nextObs) as Expression).argmax();
      const next = (target(nextObs) as Expression).pick(best);
      const error = (q(obs) as Expression)
        .pick(actions)
        .sub(bootstrap(rewards, discounts, next).detach());
      return { minimize: { q: huber(error).mean() }, scalars: { error: error.abs().mean() } };
    },
  });

/** Critics of observations and actions, and an actor that climbs the value of some of them. */
const critics = (n: number, [from, to]: readonly [number, number], critic = small(OBS + 3, 1)) =>
  describeLearner({
    name: 'critics',
    rows: ROWS,
    batch: { obs: [OBS], nextObs: [OBS], actions: [3], rewards: [] },
    networks: {
      actor: small(OBS, 3, tanh()),
      critics: ensemble(critic, n),
      targets: polyak('critics', 0.1),
    },
    optimizers: { actor: sgd({ learningRate: 0.05 }), critics: sgd({ learningRate: 0.05 }) },
    update({ actor, critics, targets }, { obs, nextObs, actions, rewards }) {
      const value = (of: typeof critics, x: Expression, a: Expression): Expression =>
        (of(concat(1, x, a) as Expression<readonly [number, number]>) as Expression).reshape([
          n,
          ROWS,
        ]);
      const next = value(targets, nextObs, actor(nextObs) as Expression).min({ axis: 0 });
      const error = value(critics, obs, actions).sub(rewards.add(next.mul(0.9)).detach());
      const climbed = value(critics, obs, actor(obs) as Expression).slice(0, from, to);
      return [
        { minimize: { critics: error.square().mean() }, scalars: { error: error.square().mean() } },
        { minimize: { actor: climbed.mean().neg() }, scalars: { value: climbed.mean() } },
      ];
    },
  });

export const cases: Readonly<Record<string, () => ReturnType<typeof describeLearner>>> = {
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
  'one critic': () => critics(1, [0, 1]),
  'two critics': () => critics(2, [0, 2]),
  'the first of two critics': () => critics(2, [0, 1]),
  'two of five critics': () => critics(5, [1, 3]),
  'two critics that begin with an activation': () =>
    critics(2, [0, 2], new Network([silu(), linear(OBS + 3, 6), relu(), linear(6, 1)])),
  'the second of two critics with an activation of its own at the end': () =>
    critics(2, [1, 2], new Network([linear(OBS + 3, 6), squared(), linear(6, 1), squared()])),
  'a layer that overwrites what it kept, in two backward passes': () =>
    describeLearner({
      name: 'again',
      rows: ROWS,
      batch: { obs: [OBS] },
      networks: {
        actor: new Network([linear(OBS, 4), relu()]),
        critics: ensemble(new Network([linear(4, 6), squared(), linear(6, 1)]), 3),
      },
      optimizers: { actor: sgd({ learningRate: 0.05 }), critics: sgd({ learningRate: 0.05 }) },
      update({ actor, critics: all }, { obs }) {
        const values = all(actor(obs)) as Expression;
        const climbed = values.slice(0, 1, 2).mean();
        const loss = values.sub(1).square().mean();
        return { minimize: { actor: climbed.neg(), critics: loss }, scalars: { climbed, loss } };
      },
    }),
  'two losses through one activation': () =>
    describeLearner({
      name: 'losses',
      rows: ROWS,
      batch: { obs: [OBS] },
      networks: { a: new Network([linear(OBS, 3)]), q: new Network([linear(3, 2), elu()]) },
      optimizers: { a: sgd({ learningRate: 0.05 }), q: sgd({ learningRate: 0.05 }) },
      update({ a, q }, { obs }) {
        const y = q(a(obs)) as Expression;
        const [square, mean] = [y.square().mean(), y.exp().mean()];
        return { minimize: { a: mean, q: square }, scalars: { square, mean } };
      },
    }),
  'two inputs of one activation': () =>
    describeLearner({
      name: 'inputs',
      rows: ROWS,
      batch: { obs: [OBS], nextObs: [OBS] },
      networks: { q: new Network([linear(OBS, 2), silu()]) },
      optimizers: { q: sgd({ learningRate: 0.05 }) },
      update({ q }, { obs, nextObs }) {
        const next = q(nextObs.reshape([ROWS, OBS])) as Expression;
        const loss = (q(obs) as Expression).square().mean().add(next.abs().mean());
        return { minimize: { q: loss }, scalars: { loss } };
      },
    }),
  'two critics with layer norms': () =>
    critics(
      2,
      [0, 2],
      new Network([linear(OBS + 3, 8), layerNorm(8), relu(), linear(8, 7), silu(), linear(7, 1)]),
    ),
};

interface Ran {
  readonly scalars: readonly number[];
  readonly weights: Float32Array;
}

/** Makes a learner under rules, and runs three updates. */
export async function ran(
  description: ReturnType<typeof describeLearner>,
  products: ProductRules,
  options: object = {},
): Promise<Ran> {
  const rig = new Rig();
  try {
    const made = rig.keep(new TracedLearner(rig.device, description, { products, ...options }));
    const { batch: fields } = description;
    const shapes: Record<string, number[]> = {
      ...{ obs: [ROWS, OBS], nextObs: [ROWS, OBS], rewards: [ROWS], discounts: [ROWS] },
      actions: 'discounts' in fields ? [ROWS] : [ROWS, 3],
    };
    const out = rig.zeros(made.scalars.length);
    const scalars: number[] = [];
    await made.ready;
    for (let k = 0; k < 3; k++) {
      const used = Object.entries(shapes).filter(([name]) => name in fields);
      const batch = Object.fromEntries(
        used.map(([name, shape], i) => {
          const size = shape.reduce((n, length) => n * length, 1);
          const values = numbers(size, 10 * k + i);
          const isIndex = name === 'actions' && shape.length === 1;
          return [name, rig.tensor(shape, isIndex ? values.map((_, at) => at % 3) : values)];
        }),
      );
      made.update(rig.stream, batch as never, out);
      scalars.push(...(await out.toArray()));
    }
    return { scalars, weights: await made.parameters.toArray() };
  } finally {
    rig.close();
  }
}

/** Returns what a learner computes under the rules of the CPU device. */
export const onHost = (name: string): Promise<Ran> => ran(cases[name]!(), hostRules);

/** Returns how a learner differs from `wanted` under the rules of a kind of device, or null. */
export async function wrongIn(name: string, wanted: Ran): Promise<string | null> {
  const describe = cases[name]!;
  for (const [kind, rules] of Object.entries({ host: hostRules, ...all })) {
    const found = await ran(describe(), rules, { poison: true });
    for (const part of ['scalars', 'weights'] as const)
      for (const [i, value] of wanted[part].entries())
        if (!(Math.abs(found[part][i]! - value) <= 4e-6))
          return `${kind}: ${part}[${i}] is ${found[part][i]}, and the host has ${value}`;
  }
  return null;
}
