/**
 * Tests that collectors reject invalid environments, policies and buffers. The error names the
 * environment, the step and the rule.
 */
import { expect } from 'chai';
import {
  type AnyEnvironment,
  type Step,
  type VectorCollectorOptions,
  vectorCollector,
} from '../../src/entries/collect.ts';
import { type CollectorContext, CollectorPool, ReplayBuffer } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { Counting, type CountingOptions, contextOf, counting } from './counting.ts';

const good: Step = { obs: [1, 2, 3, 4], reward: 1, terminated: false, truncated: false };
const like = (change: object): AnyEnvironment =>
  ({
    observationSpace: { shape: [4] },
    actionSpace: { shape: [2], low: -1, high: 1 },
    reset: () => [0, 0, 0, 0],
    step: () => good,
    ...change,
  }) as unknown as AnyEnvironment;

/** Returns the error of creating a collector or of one of its first three steps. */
async function refused(
  options: Partial<VectorCollectorOptions<CountingOptions>>,
  change: Partial<CollectorContext<CountingOptions>> = {},
) {
  return rejection(async () => {
    const { collector } = await counting(change, options);
    for (let step = 0; step < 3; step++) await collector.collect();
  });
}
const third = (change: object) => {
  let count = 0;
  return like({ step: () => (++count === 3 ? { ...good, ...change } : good) });
};
const acts = (actions: unknown) => ({ policy: () => ({ act: () => actions as number[] }) });

describe('vectorCollector(): errors', () => {
  const cases: [string, RegExp, AnyEnvironment][] = [
    [
      'an observationSpace that is a number',
      /observationSpace must be \{ shape: \[numbers\], low\?, high\?, dtype\? \}, got 4$/,
      like({ observationSpace: 4 }),
    ],
    [
      'no observationSpace',
      /observationSpace must be .* got undefined$/,
      like({ observationSpace: undefined }),
    ],
    [
      'a dimension of 0',
      /observationSpace.shape\[1\] must be a whole number of at least 1/,
      like({ observationSpace: { shape: [2, 0] } }),
    ],
    [
      'observations of int64',
      /observationSpace.dtype must be one of float32.* got 'int64'$/,
      like({ observationSpace: { shape: [4], dtype: 'int64' } }),
    ],
    [
      'observations larger than memory',
      /^1099511627776 elements of float32 need 4398046511104 bytes, which the engine could not allocate/,
      like({ observationSpace: { shape: [2 ** 20, 2 ** 20], low: 0, high: 1 } }),
    ],
    [
      'more than 16,777,216 numbers in an action',
      /^actionSpace.shape \[5000,5000\] has 25000000 numbers, and the maximum is 16777216$/,
      like({ actionSpace: { shape: [5000, 5000], low: 0, high: 1 } }),
    ],
    [
      'an unknown key in a space',
      /observationSpace: unknown option 'hihg'; it takes shape/,
      like({ observationSpace: { shape: [4], hihg: 1 } }),
    ],
    [
      'box actions without a lower bound',
      /actionSpace needs low and high, .* got -Infinity and 1: an actor scales/,
      like({ actionSpace: { shape: [2], high: 1 } }),
    ],
    [
      'lower bounds of another length',
      /actionSpace.low must hold 2 numbers, got 3$/,
      like({ actionSpace: { shape: [2], low: [0, 0, 0], high: 1 } }),
    ],
    [
      'a lower bound above the upper bound',
      /actionSpace: low must be below high, got 1 and 0 for number 1$/,
      like({ actionSpace: { shape: [2], low: [0, 1], high: [1, 0] } }),
    ],
    [
      'an action space of 0 actions',
      /actionSpace.n must be a whole number of at least 1/,
      like({ actionSpace: { n: 0 } }),
    ],
    [
      'an actionSpace that is a string',
      /actionSpace must be .* or \{ n \} for one of n actions, got 'left'$/,
      like({ actionSpace: 'left' }),
    ],
    ['no step()', /an environment must have step\(\), it is undefined$/, like({ step: undefined })],
    [
      'a number in place of an object',
      /an environment must be an object with reset\(\) and step\(\), got 7$/,
      7 as never,
    ],
    [
      'maxEpisodeSteps of 0',
      /maxEpisodeSteps must be a whole number of at least 1/,
      like({ maxEpisodeSteps: 0 }),
    ],
    [
      'reset() without an observation',
      /environment 0: reset\(\) must return an observation, an array of numbers; it returned undefined$/,
      like({ reset: () => undefined }),
    ],
    [
      'reset() with an observation of another length',
      /environment 0: reset\(\) returned an observation of 3 numbers, but its space is \[4\]/,
      like({ reset: () => [1, 2, 3] }),
    ],
    [
      'reset() with NaN',
      /environment 0: reset\(\) returned NaN as number 1 of an observation/,
      like({ reset: () => ({ obs: [1, Number.NaN, 3, 4] }) }),
    ],
    [
      'step() that returns null',
      /environment 0: step\(\) must return \{ obs, reward, terminated, truncated \}, it returned null$/,
      like({ step: () => null }),
    ],
    [
      'step() with an observation of another length',
      /environment 0: step\(\) returned an observation of 5 numbers, but its space is \[4\], in step 3 of its episode$/,
      third({ obs: [1, 2, 3, 4, 5] }),
    ],
    [
      'step() with NaN in its observation',
      /environment 0: step\(\) returned NaN as number 2 of an observation, in step 3/,
      third({ obs: [1, 2, Number.NaN, 4] }),
    ],
    [
      'step() with Infinity in its observation',
      /step\(\) returned Infinity as number 0/,
      third({ obs: [Infinity, 2, 3, 4] }),
    ],
    [
      'step() with a string in its observation',
      /step\(\) returned '2' as number 1/,
      third({ obs: [1, '2', 3, 4] }),
    ],
    [
      'step() with a reward of NaN',
      /environment 0: reward must be a number that is finite in single precision, got NaN, in step 3/,
      third({ reward: Number.NaN }),
    ],
    [
      'step() with a reward beyond float32',
      /reward must be .* in single precision, got 1e\+39/,
      third({ reward: 1e39 }),
    ],
    [
      'step() with an observation beyond float32',
      /step\(\) returned 1e\+39 as number 1/,
      third({ obs: [1, 1e39, 3, 4] }),
    ],
    [
      'step() without a reward',
      /reward must be a number that is finite in single precision, got undefined/,
      third({ reward: undefined }),
    ],
    [
      'step() with a number as terminated',
      /terminated must be a boolean, got 1, in step 3/,
      third({ terminated: 1 }),
    ],
    [
      'step() with a string as truncated',
      /truncated must be a boolean, got 'no', in step 3/,
      third({ truncated: 'no' }),
    ],
    [
      'step() with 256 in an observation of uint8',
      /returned 256 as number 3 of an observation, which uint8 cannot hold, in step 1/,
      like({
        observationSpace: { shape: [4], dtype: 'uint8' },
        step: () => ({ ...good, obs: [1, 2, 3, 256] }),
      }),
    ],
  ];
  for (const [what, says, environment] of cases)
    it(`rejects an environment: ${what}`, async () => {
      const { message, code } = await refused({ make: () => environment, environments: 1 });
      expect(message).to.match(says);
      expect(code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE|MEMORY)$/);
    });

  it('rejects with the error of an environment that throws or rejects', async () => {
    const broken = new Error('the arm fell off');
    const throws = like({
      step() {
        throw broken;
      },
    });
    expect(await refused({ make: () => throws })).to.equal(broken);
    const rejects = like({ step: () => Promise.reject(broken) });
    expect(await refused({ make: () => rejects })).to.equal(broken);
    // One environment throws while the promise of the other is pending. That promise rejects later
    // and must not count as unhandled.
    let count = 0;
    const both = () =>
      count++ === 0 ? like({ step: async () => Promise.reject(new Error('late')) }) : throws;
    expect(await refused({ make: both })).to.equal(broken);
    await new Promise(setImmediate);
  });

  it('rejects environments with different spaces', async () => {
    const make = ({ index }: { index: number }) =>
      index === 0 ? new Counting(0) : new Counting(1, { discrete: 3 });
    expect((await refused({ make })).message).to.equal(
      'environments of one set have the same spaces; environment 1 has others: observations 4 float32, 3 actions, not observations 4 float32, actions 2',
    );
  });

  it('rejects actions outside the action space', async () => {
    const says = async (actions: unknown, options: CountingOptions = {}) =>
      (await refused(acts(actions), { options, ...(options.discrete ? discreteFields : {}) }))
        .message;
    const fields = {
      ...contextOf().context.fields,
      actions: { dtype: 'float32', shape: [] },
    } as const;
    const discreteFields = { fields };
    expect(await says([0, 0, 0, 2.5])).to.equal(
      'action 2.5 for environment 1: number 1 of its actions is -2 to 2',
    );
    expect(await says([0, Number.NaN, 0, 0])).to.equal(
      'action NaN for environment 0: number 1 of its actions is -2 to 2',
    );
    expect(await says([0, 0])).to.equal(
      'actions must be 4 numbers, 2 for each of 2 environments; got an array of 2',
    );
    expect(await says(undefined)).to.match(/^actions must be 4 numbers/);
    expect(await says([0, 3], { discrete: 3 })).to.equal(
      'action 3 for environment 1: its actions are 0 to 2',
    );
    expect(await says([0.5, 0], { discrete: 3 })).to.equal(
      'action 0.5 for environment 0: its actions are 0 to 2',
    );
  });

  it('rejects buffer fields that do not fit the environments', async () => {
    const { fields } = contextOf().context;
    const says = async (change: object, options: CountingOptions = {}) =>
      (await refused({}, { fields: { ...fields, ...change }, options })).message;
    const of = (dtype: string, shape: number[] = []) => ({ dtype, shape });
    expect(await says({ goal: of('float32') })).to.equal(
      "the buffer has a field 'goal', which environments do not return; they return obs, nextObs, actions, rewards, dones, terminated, truncated, actionMask, nextActionMask",
    );
    expect(await says({ obs: of('float32', [3]) })).to.equal(
      "the buffer's obs are [3], but environments return 4 numbers",
    );
    expect(await says({ obs: of('uint8', [4]) })).to.equal(
      "the buffer's obs are uint8, which cannot hold what the environments return: float32",
    );
    expect(await says({ actions: of('int32', [2]) })).to.match(
      /actions are int32, which cannot hold/,
    );
    expect(await says({ actions: of('int64') }, { discrete: 3 })).to.match(
      /actions are int64: take int32/,
    );
    expect(await says({ actions: of('uint8') }, { discrete: 257 })).to.equal(
      "257 actions do not fit 'uint8'",
    );
    expect(await says({ actions: of('float32', [2]) }, { discrete: 2 })).to.match(
      /the buffer's actions are \[2\]/,
    );
    const far = { make: () => like({ step: () => ({ ...good, reward: 70_000 }) }) };
    const small = { fields: { ...fields, rewards: of('float16') } } as never;
    expect((await refused(far, small)).message).to.equal(
      "the buffer's rewards are float16, which has no 70000",
    );
  });

  it('closes its environments when the buffer does not fit, and ignores steps that resolve after close()', async () => {
    const made: Counting[] = [];
    const make = ({ index }: { index: number }) => {
      made.push(new Counting(index));
      return made[index]!;
    };
    const fields = {
      ...contextOf().context.fields,
      obs: { dtype: 'float32', shape: [5] },
    } as const;
    await refused({ make }, { fields });
    expect(made.map(({ closed, seeds }) => [closed, seeds.length])).to.deep.equal([
      [1, 0],
      [1, 0],
    ]);

    let answer: (step: Step) => void = () => {};
    const seeds: number[] = [];
    const slow = like({
      reset(seed: number) {
        seeds.push(seed);
        return [0, 0, 0, 0];
      },
      step: () =>
        new Promise<Step>((resolve) => {
          answer = resolve;
        }),
    });
    const { collector, told } = await counting({}, { make: () => slow, environments: 1 });
    const open = collector.collect();
    await collector.close?.();
    answer({ ...good, terminated: true });
    await open;
    expect([seeds.length, told.episodes.length]).to.deep.equal([1, 0]);
  });

  it('rejects with the error of one environment while another never answers', async () => {
    const broken = new Error('gone');
    const make = ({ index }: { index: number }) =>
      like({ step: () => (index === 0 ? new Promise(() => {}) : Promise.reject(broken)) });
    expect(await refused({ make })).to.equal(broken);
  });

  it('rejects invalid options', async () => {
    const make = () => new Counting(0);
    const refusals: [object, RegExp][] = [
      [
        { make: 3 },
        /^make must be a function that makes an environment, or of gymnasium\(\); got 3$/,
      ],
      [{ make, policy: {} }, /^policy must be a function that makes a policy, got an object$/],
      [{ make, environments: 0 }, /^environments must be a whole number of at least 1/],
      [{ make, polcy: make }, /^vectorCollector: unknown option 'polcy'; it takes make/],
    ];
    for (const [options, says] of refusals)
      expect(() => vectorCollector(options as never)).to.throw(says);
    const later: [object, RegExp][] = [
      [{ policy: () => 3 }, /^policy must return an object with act\(obs, n\), it returned 3$/],
      [{ explore: { epsilon: { to: 0, steps: 1 } } }, /^explore.epsilon needs discrete actions/],
      [
        { explore: { epsilon: { to: 2, steps: 1 } } },
        /^explore.epsilon.to must be a number from 0 to 1, got 2$/,
      ],
      [{ explore: { epsilon: { to: 0 } } }, /^explore.epsilon.steps must be a number/],
      [
        { explore: { randomSteps: -1 } },
        /^explore.randomSteps must be a whole number of at least 0/,
      ],
      [{ explore: { epsilo: 1 } }, /^explore: unknown option 'epsilo'/],
    ];
    for (const [options, says] of later) expect((await refused(options)).message).to.match(says);
  });

  it('CollectorPool.open() rejects with the error of the collector and its index', async () => {
    const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 3, actionDim: 2 });
    const entry = new URL('./counting.js', import.meta.url);
    const { message } = await rejection(CollectorPool.open({ entry, buffer, options: {} }));
    expect(message).to.match(
      /^collector 0 failed: the buffer's obs are \[3\], but environments return 4 numbers/,
    );
    buffer.close();
  });
});
