/** Tests train() with learners and policies of the caller: results, batches, closing and errors. */
import { expect } from 'chai';
import {
  type LearnerContext,
  type LearnerFactory,
  type OwnLearner,
  type OwnTrainOptions,
  type PolicyChoice,
  type PolicyNetwork,
  type TrainOptions,
  train,
} from '../../src/entries/collect.ts';
import { encodeOnnx } from '../../src/entries/formats.ts';
import {
  DiscreteSacLearner,
  DqnLearner,
  Mlp,
  MlpPolicy,
  QrDqnLearner,
} from '../../src/entries/learner.ts';
import { adam, bootstrap, learner, polyak } from '../../src/entries/trace.ts';
import { openDevice } from '../../src/index.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import type { OwnPolicyOptions } from './own-policy.ts';

const module = new URL('./own-policy.js', import.meta.url);
const sizes = [2, 16, 2];

/** Returns a DQN of losses. It writes priorities, unless `silent` is true. */
const dqn = (
  { device, obsDim, seed }: Pick<LearnerContext, 'device' | 'obsDim' | 'seed'>,
  { gamma, silent = false }: { gamma?: number; silent?: boolean } = {},
) =>
  learner(device, {
    name: 'dqn-of-losses',
    rows: 32,
    seed,
    batch: {
      obs: [obsDim],
      nextObs: [obsDim],
      actions: 'index',
      rewards: [],
      discounts: { gamma },
      weights: [],
    },
    networks: { q: new Mlp({ sizes: [obsDim, 16, 2] }), target: polyak('q', 0.05) },
    optimizers: { q: adam({ learningRate: 3e-3 }) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts, weights }) {
      const next = target(nextObs).max({ axis: 1 });
      const error = q(obs)
        .pick(actions)
        .sub(bootstrap(rewards, discounts, next).detach());
      const loss = error.square().mul(weights).mean();
      return {
        minimize: { q: loss },
        scalars: { loss },
        ...(!silent && { priorities: error.abs() }),
      };
    },
  });
const words = () => new Int32Array(new SharedArrayBuffer(8));

const training = <C extends PolicyChoice = PolicyNetwork>(
  change: Partial<OwnTrainOptions<C>> = {},
  count?: Int32Array,
): OwnTrainOptions<C> => ({
  environment: new URL('./target.js', import.meta.url),
  environmentOptions: { discrete: true, ...(count && { words: count }) },
  learner: (context) => dqn(context, { gamma: 0 }),
  policy: { network: 'q' } as C,
  steps: 4000,
  warmUp: 200,
  environments: 2,
  evaluation: { every: 500, episodes: 5, confirm: 20 },
  ...(change.learner === undefined || typeof change.learner === 'function'
    ? { device: TESTED }
    : {}),
  ...change,
});

describe('train() with a learner of the caller', () => {
  it('trains a learner that a function makes, acts by its network, and closes it', async () => {
    const count = words();
    let made: (OwnLearner & { closed: boolean }) | undefined;
    let given: LearnerContext | undefined;
    const { solved, policy, curve, best } = await train(
      training(
        {
          seed: 3,
          deterministic: true,
          goal: 4.9,
          learner: (context) => {
            given = context;
            made = dqn(context, { gamma: 0 });
            return made;
          },
        },
        count,
      ),
    );
    expect(solved, JSON.stringify(curve)).to.equal(true);
    expect([0.8, -0.8].map((x) => policy.act(Float32Array.of(x, 1), 1)[0])).to.deep.equal([1, 0]);
    expect(policy).to.be.instanceOf(MlpPolicy);
    expect(encodeOnnx(policy).length).to.be.greaterThan(100);
    expect(best!.policy).to.be.instanceOf(MlpPolicy);
    const { device, spaces, ...others } = given!;
    expect(others).to.deep.equal({ obsDim: 2, actionMask: false, seed: 3 });
    expect(spaces.action).to.include({ kind: 'discrete', n: 2 });
    expect([made!.closed, device.closed]).to.deep.equal([true, true]);
    expect(count[0]).to.equal(count[1]);
  });

  itAll(
    'trains a learner that the caller made, which stays open, with a policy in a module',
    async () => {
      using device = openDevice(TESTED);
      using own = new QrDqnLearner(device, {
        obsDim: 2,
        actions: 2,
        hidden: [16],
        quantiles: 4,
        batchSize: 32,
        gamma: 0,
        learningRate: 3e-3,
      });
      const made = words();
      const options: OwnPolicyOptions = { sizes: [2, 16, 8], quantiles: 4, made };
      const result = await train(
        training({
          learner: own,
          policy: { module, options, weights: 'q' },
          steps: 600,
          workers: 2,
        }),
      );
      expect(result.weights).to.deep.equal(await own.weights('q').toArray());
      expect(result.updates).to.equal(400);
      // The evaluator's policy and that of `best`, and one policy for each worker.
      expect([...made]).to.deep.equal([2, 2]);
      expect([own.closed, device.closed]).to.deep.equal([false, false]);
      // Its best network has the mean of quantiles as its output.
      const { policy } = await train(
        training({
          learner: own,
          policy: { network: 'q' },
          steps: 2000,
          deterministic: true,
          goal: 4.9,
        }),
      );
      expect([0.8, -0.8].map((x) => policy.act(Float32Array.of(x, 1), 1)[0])).to.deep.equal([1, 0]);
    },
  );

  itAll('trains any object with the members of a learner', async () => {
    using device = openDevice(TESTED);
    using inner = new DqnLearner(device, {
      obsDim: 2,
      actions: 2,
      hidden: [16],
      batchSize: 32,
      gamma: 0,
      learningRate: 3e-3,
    });
    await inner.ready;
    const { batchSize, scalars, parameters } = inner;
    const plain: OwnLearner = {
      device,
      batchSize,
      scalars,
      parameters,
      update: (stream, batch, out) => inner.update(stream, batch, out),
    };
    const policy = { module, options: { sizes } };
    const result = await train(
      training({ learner: plain, policy, deterministic: true, goal: 4.9 }),
    );
    expect(result.solved, JSON.stringify(result.curve)).to.equal(true);
    const saved = rejection(
      train(training({ learner: plain, policy, checkpoint: { folder: '/nowhere' } })),
    );
    expect((await saved).message).to.match(
      /^checkpoint: this learner has no state\(\) and loadState\(\), .*; add both/,
    );
    const ignoring = { ...plain, update: () => {} };
    expect(
      (await rejection(train(training({ learner: ignoring, policy, prioritized: true })))).message,
    ).to.match(/^prioritized: update\(\) of this learner ignores batch\.priorities; write/);
  });

  itAll('gives batches of steps in order their discounts, weights and priorities', async () => {
    const seen: Record<string, unknown>[] = [];
    const { solved, curve } = await train(
      training({
        learner: (context) => {
          const own = dqn(context);
          const update = own.update.bind(own);
          own.update = (stream, batch, out) => {
            const shapes = Object.entries(batch as Record<string, { shape: number[] }>).map(
              ([name, tensor]) => [name, tensor?.shape],
            );
            seen.push(Object.fromEntries(shapes));
            update(stream, batch, out);
          };
          return own;
        },
        gamma: 0.5,
        nStep: 3,
        prioritized: true,
        deterministic: true,
        goal: 4.5,
      }),
    );
    expect(solved, JSON.stringify(curve)).to.equal(true);
    expect(seen[0]).to.deep.include({
      obs: [32, 2],
      rewards: [32],
      discounts: [32],
      weights: [32],
      priorities: [32],
    });
    const silent = await rejection(
      train(training({ learner: (context) => dqn(context, { silent: true }), prioritized: true })),
    );
    expect(silent.message).to.match(/the batch wants priorities, which update does not return/);
  });

  itAll('gives batches the bytes and stacks that the buffer stores', async () => {
    let shapes: unknown;
    const { updates } = await train(
      training({
        environment: new URL('./remembered.js', import.meta.url),
        environmentOptions: undefined,
        stack: 2,
        gamma: 0,
        steps: 400,
        evaluation: { confirm: 1 },
        learner: ({ device, obsDim }) => {
          expect(obsDim).to.equal(32);
          const bytes = { shape: [2, 4, 4], dtype: 'uint8', scale: 1 / 255 } as const;
          return learner(device, {
            name: 'bytes',
            rows: 16,
            batch: { obs: bytes, actions: 'index', rewards: [] },
            networks: { q: new Mlp({ sizes: [32, 8, 2] }) },
            optimizers: { q: adam() },
            update({ q }, { obs, actions, rewards }) {
              shapes = obs.shape;
              const error = q(obs.reshape([16, 32]))
                .pick(actions)
                .sub(rewards);
              return { minimize: { q: error.square().mean() } };
            },
          });
        },
        policy: { module, options: { sizes: [32, 8, 2] }, weights: 'q' },
      } as Partial<OwnTrainOptions>),
    );
    expect(shapes).to.deep.equal([16, 2, 4, 4]);
    expect(updates).to.equal(200);
  });

  itAll('gives learners of the library each stack of observations as a row of floats', async () => {
    const options = { actions: 2, hidden: [8], batchSize: 16 };
    const policy = { module, options: { sizes: [4, 8, 2] } };
    const short = { stack: 2, steps: 400, evaluation: { confirm: 1 } };
    const dqn = await train(
      training<PolicyChoice>({
        ...short,
        learner: ({ device, obsDim }) => new DqnLearner(device, { ...options, obsDim }),
        policy,
      }),
    );
    const qr = await train(
      training({
        ...short,
        learner: ({ device, obsDim }) => new QrDqnLearner(device, { ...options, obsDim }),
      }),
    );
    expect([dqn.updates, qr.updates]).to.deep.equal([200, 200]);
    expect(qr.policy.network.inputs).to.equal(4);
  });

  itAll('saves and resumes a learner of the caller, and rejects a different one', () =>
    withFolder(async (folder) => {
      const checkpoint = { folder };
      const short = { checkpoint, steps: 400, evaluation: { confirm: 1 } };
      const first = await train(training(short));
      const again = await train(training(short));
      expect(again.updates).to.equal(200);
      expect(again.weights).to.deep.equal(first.weights);
      expect(again.best!.weights).to.deep.equal(first.best!.weights);
      // `environments` and `warmUp` are saved.
      const { environment, environmentOptions, learner: made, policy } = training();
      const kept = { environment, environmentOptions, learner: made, policy, checkpoint };
      const more = await train({ ...kept, steps: 600, device: TESTED });
      expect(more.updates).to.equal(400);
      const other = await rejection(
        train(training({ ...short, learner: (context) => dqn(context, { gamma: 0.5 }) })),
      );
      expect(other.message).to.match(/learner\.settings\.batch\.discounts\.gamma/);
      const builtIn = { algorithm: 'dqn', hidden: [16], batchSize: 32 } as const;
      const { policy: _, ...others } = training(short);
      const options = { ...others, learner: builtIn } as TrainOptions;
      expect((await rejection(train(options))).message).to.match(/learner\.kind/);
    }),
  );

  it('closes everything and rejects with the error when a part of the caller throws', async () => {
    const count = words();
    const open: { closed: boolean }[] = [];
    const failing = (change: Partial<OwnTrainOptions<PolicyChoice>>) =>
      rejection(
        train(
          training<PolicyChoice>(
            {
              steps: 1000,
              evaluation: { every: 250, episodes: 1, confirm: 1 },
              ...change,
              learner: async (context) => {
                open.push(context.device as unknown as { closed: boolean });
                const make = (change.learner as LearnerFactory | undefined) ?? training().learner;
                const made = await (make as LearnerFactory)(context);
                open.push(made as unknown as { closed: boolean });
                return made;
              },
            },
            count,
          ),
        ),
      );
    const throwing = (made: OwnLearner, name: 'update' | 'state') =>
      Object.assign(made, {
        [name]() {
          throw new Error(`no ${name} today`);
        },
      });
    const place = /train-own\.long\.test\.[jt]s/;
    const update = await failing({ learner: (c: LearnerContext) => throwing(dqn(c), 'update') });
    expect(update.message).to.match(/no update today/);
    expect((update.cause as Error).stack).to.match(place);
    const factory = await failing({
      learner: () => {
        throw new Error('no learner today');
      },
    });
    expect([factory.message, place.test(factory.stack!)]).to.deep.equal(['no learner today', true]);
    const policy = (fails: 'make' | 'act') => ({ module, options: { sizes, fails }, weights: 'q' });
    for (const [fails, says] of [
      ['make', /^collector 0 failed: no policy today \(own-policy\.[jt]s:\d+:\d+\)$/],
      ['act', /^collector 0 failed: no action today \(own-policy\.[jt]s:\d+:\d+\)$/],
    ] as const)
      expect((await failing({ policy: policy(fails) })).message).to.match(says);
    const point = () => {
      throw new Error('no point today');
    };
    expect((await failing({ onPoint: point })).message).to.equal('no point today');
    expect((await failing({ evaluation: point as never })).message).to.equal('no point today');
    await withFolder(async (folder) => {
      const saving = failing({
        checkpoint: { folder },
        learner: (c: LearnerContext) => throwing(dqn(c, { gamma: 0 }), 'state'),
      });
      expect((await saving).message).to.match(/no state today/);
    });
    const failed = open.length;
    const closing = await failing({
      policy: { network: 'p' },
      learner: (c: LearnerContext) => {
        const made = dqn(c);
        const { close } = made;
        return Object.assign(made, {
          close() {
            close.call(made);
            throw new Error('no close today');
          },
        });
      },
    });
    expect(closing.message).to.equal('no close today');
    expect(open.length).to.equal(failed + 2);
    expect(count[0], 'environments that were made and closed').to.equal(count[1]);
    expect(open.length).to.be.greaterThan(10);
    expect(open.filter(({ closed }) => !closed)).to.deep.equal([]);
  });

  itAll('rejects once if a collector fails while onOpen() runs', async () => {
    const unhandled: unknown[] = [];
    const listen = (error: unknown) => unhandled.push(error);
    process.on('unhandledRejection', listen);
    try {
      const error = await rejection(
        train(
          training({
            environmentOptions: { discrete: true, failAt: 3 },
            onOpen: () => new Promise((resolve) => setTimeout(resolve, 500)),
          }),
        ),
      );
      expect(error.message).to.match(/^collector 0 failed: environment 0 broke/);
    } finally {
      process.off('unhandledRejection', listen);
    }
    expect(unhandled).to.deep.equal([]);
  });

  it('rejects options that are invalid or do not fit each other', async () => {
    using device = openDevice(TESTED);
    const mine = (change: object): OwnLearner => ({
      device,
      batchSize: 4,
      scalars: [],
      parameters: device.allocate({ shape: [3] }),
      update: () => {},
      ...change,
    });
    const cases: [object, RegExp][] = [
      [{ policy: undefined }, /^a learner of your own needs the option policy: pass the URL/],
      [{ policy: './policy.js' }, /^policy: pass the URL of its module, .*; got '\.\/policy\.js'$/],
      [{ policy: { modul: module } }, /^policy: unknown option 'modul'/],
      [{ policy: { module: 'x' } }, /^policy: pass the URL .*; got 'x'$/],
      [{ policy: { network: 'q', module } }, /^policy with a network: unknown option 'module'/],
      [{ policy: { network: 3 } }, /^policy\.network must be a name, got 3$/],
      [{ policy: { module, options: { f() {} } } }, /^policy\.options go to threads, .*be cloned/],
      [{ policy: { network: 'p' } }, /^policy: 'p' is not declared; declared: q, target/],
      [{ policy: { module, weights: 'p' } }, /^weights: 'p' is not declared/],
      [
        { policy: { network: 'q' }, environmentOptions: {} },
        /^policy\.network takes the largest output .*; make the policy in a module$/,
      ],
      [
        { policy: new URL('./no-policy.js', import.meta.url) },
        /must return an object with act\(obs, n\) and load\(weights\), it returned an object$/,
      ],
      [
        { policy: new URL('../rig/until.js', import.meta.url) },
        /^policy: .*until\.js must export a function that makes a policy as its default, .*undefined$/,
      ],
      [{ policy: new URL('./missing.js', import.meta.url) }, /Cannot find module/],
      [{ gamma: 2 }, /^gamma must be a number from 0 to 1, got 2$/],
      [{ gamma: 0.5 }, /^gamma is for rows with discounts: .*omit the option$/],
      [{ noise: 0.1 }, /^noise is an option of td3/],
      [{ learner: mine({}), device: 'host:0' }, /^device: this learner is on its own device, '/],
      [{ learner: () => 3 }, /^learner: the function must return a learner .*returned 3$/],
      [{ learner: { algorithm: 'dqn' } }, /^policy is for a learner of your own; .*DqnLearner/],
      [
        { learner: { algorithm: 'dqn' }, policy: undefined, gamma: 0.9 },
        /^gamma is an option of the learner here/,
      ],
      [{ learner: {} }, /^policy is for a learner/],
      [
        { learner: {}, policy: undefined },
        /^learner must be \{ algorithm: .*, a learner with update\(\), or a function .* got an object$/,
      ],
      [{ learner: mine({ device: {} }) }, /^learner\.device takes an opened device/],
      [{ learner: mine({ batchSize: 0 }) }, /^learner\.batchSize must be a whole number/],
      [{ learner: mine({ scalars: 'loss' }) }, /^learner\.scalars must be an array of names/],
      [
        { learner: mine({ parameters: [1] }), policy: module },
        /^learner\.published or \.parameters must be the contiguous float32 vector/,
      ],
      [
        { learner: mine({}), policy: { module, weights: 'q' } },
        /^policy\.weights: 'q' is a part of a learner that has weights\(name\)/,
      ],
      [
        {
          learner: ({ device, obsDim }: LearnerContext) =>
            new DiscreteSacLearner(device, { obsDim, actions: 2, hidden: [4], batchSize: 4 }),
          policy: { network: 'actor' },
        },
        /^policy\.network: policy\('actor'\) of this learner throws: .*; make the policy in a module$/,
      ],
      [
        { learner: mine({}), policy: { network: 'q' } },
        /^policy\.network is for learners whose policy\('q'\) takes the largest output/,
      ],
    ];
    for (const [change, says] of cases)
      expect(
        (await rejection(train(training(change as Partial<OwnTrainOptions<PolicyNetwork>>))))
          .message,
      ).to.match(says);
  });
});
