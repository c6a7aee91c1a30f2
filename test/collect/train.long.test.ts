/**
 * Tests train() as a whole: it learns, stops at its goal or limit, and leaves nothing open, however
 * it ends.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import CartPole from '../../examples/environments/cart-pole.ts';
import {
  type CurvePoint,
  evaluate,
  type TrainOptions,
  type TrainParts,
  train,
} from '../../src/entries/collect.ts';
import { ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { spacesOf } from '../../src/run/environments/spaces.ts';
import { checkedTrain } from '../../src/run/train/options.ts';
import { trainPlan } from '../../src/run/train/plan.ts';
import { inFolder } from '../formats/tensors.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Counting } from './counting.ts';
import type { TargetOptions } from './target.ts';

const target = new URL('./target.js', import.meta.url);
const own = (name: string) => new URL(`../../examples/environments/${name}.js`, import.meta.url);

const small = { actorHidden: [16], criticHidden: [16], batchSize: 32, gamma: 0 };
const fast = { actorOptimizer: { learningRate: 3e-3 }, criticOptimizer: { learningRate: 3e-3 } };
const learners = {
  dqn: { algorithm: 'dqn', hidden: [16], batchSize: 32, gamma: 0, learningRate: 3e-3 },
  td3: { algorithm: 'td3', ...small, ...fast },
  sac: { algorithm: 'sac', ...small, ...fast },
} as const;

/** Returns options for train() with the small environment of target.ts. */
const training = (change: Partial<TrainOptions> = {}, words?: Int32Array): TrainOptions => {
  const environmentOptions: TargetOptions = words ? { words } : {};
  const evaluation = { every: 500, episodes: 5, confirm: 20 };
  return {
    environment: target,
    environmentOptions,
    learner: learners.sac,
    device: TESTED,
    steps: 4000,
    warmUp: 200,
    environments: 2,
    evaluation,
    ...change,
  };
};
const words = () => new Int32Array(new SharedArrayBuffer(8));

describe('train()', () => {
  for (const [name, learner] of Object.entries(learners))
    (name === 'dqn' ? it : itAll)(
      `reaches its goal with ${name}, stops there, and returns the learned policy`,
      async () => {
        const discrete = name === 'dqn';
        const count = words();
        const points: CurvePoint[] = [];
        const result = await train(
          training({
            learner,
            goal: discrete ? 4.9 : -0.05,
            onPoint: (point) => points.push(point),
            environmentOptions: { discrete, words: count },
          }),
        );
        expect(result.solved, JSON.stringify(result.curve)).to.equal(true);
        expect(result.meanReturn).to.be.at.least(discrete ? 4.9 : -0.05);
        expect(result.interrupted).to.equal(false);
        expect(result.curve.at(-1)).to.include({ episodes: 20, meanReturn: result.meanReturn });
        // onPoint received the evaluation that reached the goal. The confirming evaluation replaces
        // it in the curve.
        expect(points.at(-1)).to.equal(result.curve.at(-1));
        for (const [i, { steps }] of result.curve.entries())
          if (i > 0) expect(steps).to.be.greaterThan(result.curve[i - 1]!.steps);
        const [high, low] = [0.8, -0.8].map((x) => result.policy.act(Float32Array.of(x, 1), 1)[0]!);
        if (discrete) expect([high, low]).to.deep.equal([1, 0]);
        else expect(Math.max(Math.abs(high! - 0.4), Math.abs(low! + 0.4))).to.be.below(0.2);
        expect([count[0], count[1]], 'made and closed').to.deep.equal([12, 12]);
      },
    );

  itAll('learns from n-step returns with prioritized replay', async () => {
    const learner = { ...learners.dqn, gamma: 0.5, double: true, dueling: true };
    const { updates, steps, curve } = await train(
      training({
        learner,
        nStep: 3,
        prioritized: true,
        environmentOptions: { discrete: true },
        steps: 2000,
      }),
    );
    expect(steps).to.be.within(2000, 2200);
    expect(updates).to.equal(1800);
    expect(curve.at(-1)!.meanReturn).to.be.greaterThan(3.5);
  });

  itAll(
    'learns from stacked images with convolutions, and returns a policy of stacked images',
    async () => {
      const convolutions = [{ filters: 4, kernel: 3, padding: 1, stride: 2 }];
      const learner = {
        algorithm: 'dqn',
        convolutions,
        hidden: [16],
        batchSize: 32,
        gamma: 0,
        learningRate: 1e-2,
      } as const;
      const environment = new URL('./remembered.js', import.meta.url);
      const one = { learner, environment, environmentOptions: undefined, warmUp: 200 };
      const images = (change: Partial<TrainOptions>) => train(training({ ...one, ...change }));
      const two = await images({ stack: 2, nStep: 1, goal: 4.9, steps: 6000 });
      expect(two.solved, JSON.stringify(two.curve)).to.equal(true);
      // Bytes of two images, the newer one last. The bright column is on the left in the older one
      // and on the right in the newer one, or the reverse.
      const image = (column: number) =>
        Array.from({ length: 16 }, (_, i) => (i % 4 === column ? 255 : 0));
      for (const [before, now, action] of [
        [0, 3, 0],
        [3, 0, 1],
      ] as const)
        expect(two.policy.act(Float32Array.from([...image(before), ...image(now)]), 1)[0]).to.equal(
          action,
        );
      // A single image does not show the right action, so about half of the five actions are right.
      const single = await images({ steps: 1500 });
      expect(single.meanReturn).to.be.within(1, 4);
    },
  );

  itAll('reaches its goal with SAC on stacked observations', async () => {
    const { solved, curve } = await train(training({ stack: 3, goal: -0.05 }));
    expect(solved, JSON.stringify(curve)).to.equal(true);
  });

  itAll('keeps updatesPerStep with several minibatches per tick and several workers', async () => {
    const { updates, steps } = await train(
      training({
        updatesPerStep: 0.5,
        minibatches: 4,
        workers: 2,
        steps: 3000,
        evaluation: { confirm: 1 },
      }),
    );
    expect(updates).to.equal(1400);
    expect(steps).to.be.within(2900, 3100);
  });

  itAll(
    'ends after its steps and returns the last meanReturn when the goal is not reached',
    async () => {
      const { solved, meanReturn, curve } = await train(training({ goal: 1, steps: 1000 }));
      expect([solved, meanReturn]).to.deep.equal([false, curve.at(-1)!.meanReturn]);
      expect(curve.at(-1)!.episodes).to.equal(20);
    },
  );

  itAll(
    'ends at its seconds or when its signal aborts, and returns the results so far',
    async () => {
      const timed = await train(training({ steps: 10_000_000, seconds: 0.5 }));
      expect(timed.seconds).to.be.within(0.4, 5);
      expect(timed.interrupted).to.equal(false);
      const stop = new AbortController();
      const count = words();
      const stopped = await train(
        training({ steps: 10_000_000, signal: stop.signal, onPoint: () => stop.abort() }, count),
      );
      expect(stopped.interrupted).to.equal(true);
      expect(stopped.meanReturn).to.equal(stopped.curve[0]!.meanReturn);
      expect(count[0]).to.equal(count[1]);
      const before = await train(training({ signal: AbortSignal.abort() }));
      expect(before).to.deep.include({
        interrupted: true,
        meanReturn: null,
        curve: [],
        solved: false,
      });
    },
  );

  itAll('writes the collected rows or trajectories to `dump`, unless its signal aborted', () =>
    inFolder(
      async (folder) => {
        const file = (name: string) => join(folder, name);
        const short = { steps: 600, evaluation: { confirm: 1 } };
        const { steps } = await train(training({ ...short, dump: file('rows.npz') }));
        const buffer = ReplayBuffer.offPolicy({ capacity: 1000, obsDim: 2, actionDim: 1 });
        expect(await buffer.load(file('rows.npz'))).to.equal(Math.min(steps, 600));
        const learner = { ...learners.dqn, gamma: 0.5 };
        const ordered = { ...short, learner, nStep: 2, environmentOptions: { discrete: true } };
        await train(training({ ...ordered, dump: pathToFileURL(file('steps.npz')) }));
        const fields = {
          obs: { shape: [2], observation: true },
          actions: { shape: [] },
        } as const;
        const lanes = TrajectoryBuffer.create({ capacity: 2000, lanes: 2, fields });
        expect(await lanes.load(file('steps.npz'))).to.be.within(400, 600);
        await train(training({ ...short, dump: file('none.npz'), signal: AbortSignal.abort() }));
        const nowhere = await rejection(train(training({ dump: file('no/folder.npz') })));
        expect([nowhere.code, nowhere.message]).to.deep.equal([
          'ERR_HOTSLOT_UNAVAILABLE',
          nowhere.message,
        ]);
        expect(nowhere.message).to.match(/^dump: '.*folder\.npz' cannot be written: ENOENT/);
        expect((await rejection(train(training({ dump: 3 as never })))).message).to.equal(
          'dump takes a path or a file: URL, got 3',
        );
      },
      ['rows.npz', 'steps.npz'],
    ),
  );
  itAll(
    'awaits onOpen before the first tick, and rejects with the error that onOpen throws',
    async () => {
      const count = words();
      const seen: unknown[] = [];
      let parts: TrainParts | undefined;
      const onOpen = async (given: TrainParts) => {
        parts = given;
        seen.push(given.pipeline.inspect().finished, given.collectors.workers);
        await new Promise(setImmediate);
        seen.push(given.pipeline.inspect().finished);
      };
      const { updates } = await train(training({ steps: 1000, onOpen }));
      expect(seen).to.deep.equal([0, 1, 0]);
      expect([updates, parts?.pipeline.inspect().finished]).to.deep.equal([800, 800]);
      const broken = train(
        training(
          {
            onOpen: () => {
              throw new Error('no port today');
            },
          },
          count,
        ),
      );
      expect((await rejection(broken)).message).to.equal('no port today');
      expect(count[0]).to.equal(count[1]);
      expect((await rejection(train(training({ onOpen: 3 as never })))).message).to.equal(
        'onOpen must be a function, got 3',
      );
    },
  );

  itAll(
    'rejects and closes all environments when one throws in a collector or in an evaluation',
    async () => {
      const count = words();
      const environmentOptions = { failAt: 700, words: count };
      const error = await rejection(train(training({ environmentOptions, steps: 1_000_000 })));
      expect(error.message).to.match(/environment \d broke \(target\.[jt]s:\d+:\d+\)$/);
      expect(count[0]).to.equal(count[1]);
      // Hotslot rejects the environment's reward, so the error contains no stack lines of Hotslot.
      const wrong = { failAt: 700, words: count, wrong: true };
      const refused = await rejection(
        train(training({ environmentOptions: wrong, steps: 1_000_000 })),
      );
      expect(refused.message).to.match(
        /reward must be a number .* in step \d+ of its episode \(target\.js\)$/,
      );
      const here = await rejection(
        train(
          training({
            environmentOptions: { failAt: 30, words: count },
            warmUp: 10,
            evaluation: { every: 15, episodes: 10 },
          }),
        ),
      );
      expect(here.message).to.match(/environment \d broke/);
      expect(count[0]).to.equal(count[1]);
    },
  );

  it('uses defaults for undefined options and for omitted fields of `explore`', () => {
    const spaces = spacesOf({ observationSpace: { shape: [2] }, actionSpace: { n: 2 } });
    const base = { ...training({ learner: learners.dqn }), environmentOptions: undefined };
    const planned = (change: object) =>
      trainPlan(checkedTrain({ ...base, ...change } as TrainOptions), spaces);
    const plain = planned({});
    const nothing = Object.fromEntries(
      [
        'seconds',
        'goal',
        'signal',
        'onPoint',
        'onOpen',
        'device',
        'noise',
        'minibatches',
        'capacity',
        'explore',
      ].map((name) => [name, undefined]),
    );
    const same = planned({
      ...nothing,
      device: undefined,
      evaluation: { ...base.evaluation, confirm: undefined },
    });
    expect(same.evaluation).to.deep.equal({ ...plain.evaluation, confirm: 100 });
    expect([same.device, same.seconds, same.goal, same.noise]).to.deep.equal([
      'auto',
      Infinity,
      Infinity,
      0.1,
    ]);
    expect(same.explore).to.deep.equal({ randomSteps: 200, epsilon: { to: 0.05, steps: 4000 } });
    expect(planned({ explore: { hold: 4 } }).explore).to.deep.equal({ ...same.explore, hold: 4 });
    expect(planned({ explore: { randomSteps: 0, epsilon: undefined } }).explore).to.deep.equal({
      ...same.explore,
      randomSteps: 0,
    });
  });

  itAll('applies all updates with 64 environments and returns of 8 steps', async () => {
    const learner = { ...learners.dqn, gamma: 0.9 };
    const how = {
      learner,
      nStep: 8,
      environments: 64,
      steps: 3000,
      warmUp: 700,
      evaluation: { confirm: 1 },
    };
    const { updates } = await train(
      training({ ...how, environmentOptions: { discrete: true, length: 40 } }),
    );
    expect(updates).to.equal(2300);
  });

  itAll(
    'ends when its signal aborts during endless episodes or while environments never answer',
    async () => {
      const endless = { environmentOptions: { length: Infinity }, evaluation: { every: 300 } };
      const looking = await train(
        training({ ...endless, steps: 2000, signal: AbortSignal.timeout(1500) }),
      );
      expect(looking).to.deep.include({ interrupted: true, meanReturn: null, curve: [] });
      const never = { environmentOptions: { late: Infinity }, signal: AbortSignal.timeout(100) };
      expect(await train(training(never))).to.deep.include({
        interrupted: true,
        steps: 0,
        meanReturn: null,
      });
    },
  );

  itAll('rejects when a collector fails during the evaluation of an endless episode', async () => {
    const environmentOptions = { length: Infinity, failAt: 900 };
    const evaluation = { every: 300, episodes: 1, confirm: 1 };
    const error = await rejection(
      train(training({ environmentOptions, evaluation, environments: 1, steps: 100_000 })),
    );
    expect(error.message).to.match(/environment \d broke/);
  });

  itAll('gives each environment its own index, and accepts a seed beyond 32 bits', async () => {
    const count = new Int32Array(new SharedArrayBuffer(4 * 20));
    const seed = 1_780_000_000_000;
    await train(
      training(
        { seed, environments: 3, workers: 2, steps: 600, evaluation: { every: 100, confirm: 3 } },
        count,
      ),
    );
    expect([...count.subarray(2)]).to.deep.equal([...new Array(16).fill(1), 0, 0]);
  });

  it('rejects options that are invalid or do not fit the environment', async () => {
    const cases: [Partial<TrainOptions>, RegExp][] = [
      [
        { environment: './target.js' as never },
        /^environment must be the URL of its module, .* got '.\/target.js'$/,
      ],
      [{ environment: new URL('./no-environment.js', import.meta.url) }, /Cannot find module/],
      [
        { environment: new URL('../rig/until.js', import.meta.url) },
        /must export an environment's class as its default/,
      ],
      [
        { learner: { algorithm: 'ppo' } as never },
        /^learner must be \{ algorithm: 'dqn' \| 'td3' \| 'sac', … \}, got 'ppo'$/,
      ],
      [
        { learner: learners.dqn },
        /^dqn is for \{ n \} actions; the environment has observations 2 float32, actions 1$/,
      ],
      [
        { learner: { ...learners.sac, obsDim: 3 } as never },
        /^learner: 'obsDim' cannot be given here/,
      ],
      [{ learner: { ...learners.sac, lr: 3 } as never }, /^SacLearner: unknown option 'lr'/],
      [
        { learner: { ...learners.td3, actorEvery: 3 }, minibatches: 2 },
        /^minibatches must be a multiple of 3/,
      ],
      [{ steps: 100 }, /^steps must be more than warmUp, got 100 and 200$/],
      [{ updatesPerStep: 0 }, /^updatesPerStep must be a number above 0, got 0$/],
      [{ workers: 17 }, /^workers must be a whole number of at least 1 and at most 16/],
      [
        { learner: { ...learners.sac, seed: 3 } as never },
        /^learner: seed is an option of train\(\) itself$/,
      ],
      [{ noise: 0.2 }, /^noise is an option of td3; sac explores by its own deviations/],
      [{ capacity: 100 }, /^capacity must be at least 200, as warmUp requires; got 100$/],
      [
        { nStep: 8, environments: 64 },
        /^warmUp must be at least 640, for 64 environments with windows of 8; got 200$/,
      ],
      [
        { environmentOptions: { make() {} } },
        /^environmentOptions go to threads, .* cannot be cloned/,
      ],
      [{ evaluation: { evry: 3 } as never }, /^evaluation: unknown option 'evry'/],
      [{ stack: 0 }, /^stack must be a whole number of at least 1/],
      [
        { environment: new URL('./remembered.js', import.meta.url), learner: learners.dqn },
        /^observations of bytes, 4×4, are images; give the learner convolutions/,
      ],
      [
        {
          environment: new URL('./remembered.js', import.meta.url),
          learner: { ...learners.dqn, convolutions: [{ filters: 4, kernel: 9 }] },
        },
        /^conv2d: a kernel of 9 × 9 is larger/,
      ],
      [
        {
          environment: new URL('./remembered.js', import.meta.url),
          environmentOptions: { shape: [96, 80, 3] },
          learner: { ...learners.dqn, convolutions: [{ filters: 4, kernel: 2 }] },
        },
        /^convolutions take images as \[channels, height, width\], and observations of \[96,80,3\] look like \[height, width, channels\]: transpose them to \[3, 96, 80\]; of Gymnasium .*TransformObservation/,
      ],
      [
        { learner: { ...learners.dqn, convolutions: [] }, environmentOptions: { discrete: true } },
        /^convolutions are for images, .*; observations are \[2\]$/,
      ],
      [{ gaol: 3 } as never, /^train: unknown option 'gaol'/],
      [{ explore: { epsilon: { to: 0, steps: 3 } } }, /^explore.epsilon needs discrete actions/],
      [{ device: 'gpu:9' }, /unknown device/],
      [{ learner: learners.td3, noise: -1 }, /^noise must be a number of at least 0/],
      [{ seconds: Number.NaN }, /^seconds must be a number above 0/],
    ];
    for (const [change, says] of cases)
      expect((await rejection(train(training(change)))).message).to.match(says);
  });

  itAll('solves Pendulum with SAC within 60 s', async () => {
    const hidden = { actorHidden: [64, 64], criticHidden: [64, 64] };
    const rates = {
      actorOptimizer: { learningRate: 1e-3 },
      criticOptimizer: { learningRate: 1e-3 },
    };
    const { solved, meanReturn, seconds } = await train({
      environment: own('pendulum'),
      learner: { algorithm: 'sac', ...hidden, ...rates },
      device: TESTED,
      seed: 3,
      environments: 4,
      steps: 20_000,
      seconds: 60,
      goal: -200,
      evaluation: { every: 1000 },
    });
    expect(solved, `${meanReturn} in ${seconds} s`).to.equal(true);
  });
});

describe('evaluate()', () => {
  it('returns the same episodes for any number of environments', async () => {
    const policy = {
      act: (obs: Float32Array, n: number) =>
        Array.from({ length: n }, (_, i) => Number(obs[4 * i + 2]! > 0)),
    };
    const poles = (count: number) => Array.from({ length: count }, () => new CartPole());
    const [one, four] = [
      await evaluate({ environments: poles(1), policy, episodes: 9, seed: 4 }),
      await evaluate({ environments: poles(4), policy, episodes: 9, seed: 4 }),
    ];
    expect(one.returns).to.deep.equal(four.returns);
    expect(one.lengths).to.deep.equal(one.returns);
    expect(new Set(one.returns).size).to.be.greaterThan(3);
    const mean = one.returns.reduce((sum, value) => sum + value) / 9;
    expect(one.meanReturn).to.be.closeTo(mean, 1e-9);
    expect(one.deviation ** 2).to.be.closeTo(
      one.returns.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 9,
      1e-6,
    );
    expect(
      (await evaluate({ environments: poles(4), policy, episodes: 9, seed: 5 })).returns,
    ).not.to.deep.equal(one.returns);
  });

  it('plays asynchronous environments, and rejects when its signal aborts or an option is invalid', async () => {
    const environments = [0, 1].map((index) => new Counting(index, { later: true }));
    const policy = { act: (_: Float32Array, n: number) => new Float32Array(2 * n) };
    const { returns, lengths } = await evaluate({ environments, policy, episodes: 4 });
    expect([...lengths]).to.deep.equal([3, 4, 3, 4]);
    expect([...returns]).to.deep.equal([6, 50, 6, 50]);
    const silent = Object.assign(new Counting(0), { reset: () => new Promise<number[]>(() => {}) });
    const soon = { environments: [silent], policy, signal: AbortSignal.timeout(20) };
    expect((await rejection(evaluate(soon))).name).to.equal('TimeoutError');
    expect(
      await rejection(evaluate({ environments, policy, signal: AbortSignal.abort('no') })),
    ).to.equal('no');
    const endless = Object.assign(new Counting(1e9, {}));
    const stop = AbortSignal.timeout(20);
    expect(
      (await rejection(evaluate({ environments: [endless], policy, signal: stop }))).name,
    ).to.equal('TimeoutError');
    for (const [change, says] of [
      [{ environments: [] }, /^environments must be an array with an environment at least/],
      [{ policy: {} }, /^policy must be something with act/],
      [{ episodes: 0 }, /^episodes must be a whole number of at least 1/],
      [{ epsiodes: 3 }, /^evaluate: unknown option 'epsiodes'/],
    ] as const)
      expect(
        (await rejection(evaluate({ environments, policy, ...change } as never))).message,
      ).to.match(says);
  });
});
