/** Descriptions of learners, and descriptions that must not compile. Only compiled, never run. */
import type { Device, Stream, Tensor } from 'hotslot';
import { Mlp } from 'hotslot/learner';
import {
  adam,
  bootstrap,
  copied,
  type DescribedLearner,
  discounts,
  type Expression,
  ensemble,
  type FieldDescription,
  huber,
  learner,
  linearSchedule,
  normal,
  parameter,
  polyak,
  sgd,
} from 'hotslot/trace';

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <T extends true>(_?: T): void => {};
declare const device: Device;

const q = new Mlp({ sizes: [4, 8, 6] });

// ---- shapes of a batch, networks and parameters -------------------------------------------------

const made = learner(device, {
  name: 'typed',
  rows: 32,
  batch: {
    obs: [4],
    image: { shape: [2, 3], dtype: 'uint8', scale: 1 / 255 },
    actions: 'index',
    rewards: [],
    mask: { mask: 6 },
    factors: { gamma: 0.97 },
    more: { gamma: undefined },
  },
  networks: {
    q,
    target: polyak('q', 0.005),
    critics: ensemble(q, 2),
    old: copied('critics', { every: 9 }),
  },
  parameters: { logAlpha: parameter(), table: parameter({ shape: [5, 2], initial: 1 }) },
  optimizers: {
    q: adam({ learningRate: linearSchedule({ from: 1e-3, steps: 100 }) }),
    critics: sgd({ momentum: 0.9 }),
    rest: adam({ of: ['logAlpha', 'table'] }),
  },
  update({ q: net, target, critics, old }, batch, { logAlpha, table }) {
    const { obs, image, actions, rewards, mask, factors, more } = batch;
    is<Equal<typeof obs, Expression<readonly [32, 4]>>>();
    is<Equal<typeof image, Expression<readonly [32, 2, 3]>>>();
    is<Equal<typeof actions, Expression<readonly [32]>>>();
    is<Equal<typeof rewards, Expression<readonly [32]>>>();
    is<Equal<typeof mask, Expression<readonly [32, 6]>>>();
    is<Equal<typeof factors, Expression<readonly [32]>>>();
    is<Equal<typeof more, Expression<readonly [32]>>>();
    is<Equal<typeof logAlpha, Expression<readonly []>>>();
    is<Equal<typeof table, Expression<readonly [5, 2]>>>();
    // A network keeps the leading dimensions. The number of its outputs is no type.
    const values = net(obs);
    is<Equal<typeof values, Expression<readonly [32, number]>>>();
    const next = target(obs.reshape([8, 4, 4]));
    is<Equal<typeof next, Expression<readonly [8, 4, number]>>>();
    const both = critics(obs);
    is<Equal<typeof both, Expression<readonly [number, 32, number]>>>();
    const older = old(obs);
    is<Equal<typeof older, Expression<readonly [number, 32, number]>>>();
    const chosen = values.pick(actions);
    is<Equal<typeof chosen, Expression<readonly [32]>>>();
    const goal = bootstrap(rewards, factors, target(obs).max({ axis: 1 }));
    const error = chosen.sub(goal.detach());
    const loss = huber(error).mean();
    is<Equal<typeof loss, Expression<readonly []>>>();
    // @ts-expect-error: a batch field that is not declared
    batch.dones;
    // @ts-expect-error: shapes that do not broadcast
    rewards.add(obs);
    // @ts-expect-error: a parameter of another shape
    table.add(obs);
    // @ts-expect-error: a network takes one expression
    net(obs, obs);
    // @ts-expect-error: a network takes no number
    net(1);
    // Phases may have different scalars, and each a loss for other optimizers.
    return [
      { minimize: { q: loss }, scalars: { loss, value: chosen.mean() }, priorities: error.abs() },
      { minimize: { critics: both.mean().add(older.mean()) }, every: 2 },
      {
        minimize: { rest: logAlpha.exp().mul(table.sum()) },
        scalars: { alpha: logAlpha.exp(), rest: normal([4]).mean() },
      },
    ];
  },
});
is<Equal<typeof made, DescribedLearner>>();
declare const stream: Stream;
declare const tensor: Tensor;
declare const out: Tensor<'float32'>;
made.update(stream, { obs: tensor, rewards: tensor }, out, { record: { q: { norm: out } } });
is<Equal<ReturnType<typeof made.weights>, Tensor<'float32'>>>();

// ---- one phase, and rows that are not known -----------------------------------------------------

declare const rows: number;
learner(device, {
  name: 'one',
  rows,
  batch: { obs: [4], dones: [], truncated: [] },
  networks: { q },
  optimizers: { q: adam() },
  update({ q: net }, batch) {
    is<Equal<typeof batch.obs, Expression<readonly [number, 4]>>>();
    const factor = discounts(batch, 0.9);
    is<Equal<typeof factor, Expression<readonly [number]>>>();
    return { minimize: { q: net(batch.obs).mean().mul(factor.mean()) } };
  },
});

// ---- descriptions that must not compile ---------------------------------------------------------

const common = { name: 'wrong', rows: 8, batch: { obs: [4] } } as const;
learner(device, {
  ...common,
  networks: { q },
  optimizers: { q: adam() },
  // @ts-expect-error: there is no optimizer 'actor'
  update: ({ q: net }, { obs }) => ({ minimize: { actor: net(obs).mean() } }),
});
learner(device, {
  ...common,
  networks: { q },
  optimizers: { q: adam() },
  // @ts-expect-error: update returns phases and no expression
  update: ({ q: net }, { obs }) => net(obs).mean(),
});
learner(device, {
  ...common,
  networks: { q },
  optimizers: { q: adam() },
  update: ({ q: net }, { obs }) => ({
    minimize: { q: net(obs).mean() },
    // @ts-expect-error: a scalar is an expression
    scalars: { five: 5 },
  }),
});
learner(device, {
  ...common,
  networks: { q },
  optimizers: { q: adam() },
  // @ts-expect-error: a network that is not declared
  update: ({ actor }, { obs }) => ({ minimize: { q: actor(obs).mean() } }),
});
// @ts-expect-error: a mask has a number of conditions
export const mask: FieldDescription = { mask: 'six' };
// @ts-expect-error: a discount is a number
export const factor: FieldDescription = { gamma: '0.9' };
// @ts-expect-error: a dtype that does not exist
export const image: FieldDescription = { shape: [2], dtype: 'int3' };
// @ts-expect-error: a schedule returns an expression
adam({ learningRate: () => 5 });
// @ts-expect-error: an option of sgd() that adam() lacks
adam({ momentum: 0.9 });
// @ts-expect-error: a follower needs a period
copied('q');
// @ts-expect-error: a shape of a parameter is an array
parameter({ shape: 5 });
