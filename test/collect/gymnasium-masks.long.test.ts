/**
 * Tests the action masks of environments that Python steps: each source of masks in each autoreset
 * mode, and the errors for wrong masks. The environments raise an error at an illegal action.
 */
import { expect } from 'chai';
import { type EnvironmentSet, evaluate, vectorCollector } from '../../src/entries/collect.ts';
import { givesMasks } from '../../src/run/environments/gives-masks.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { counted, needGymnasium, needNumpy } from './bridged.ts';
import { contextOf } from './counting.ts';
import { ACTIONS, legalOf, legalPolicy, storedMask } from './masked.ts';

const COUNT = 5;
const opened = (entry: string, kwargs: object, count = COUNT): Promise<EnvironmentSet> =>
  counted({ entry: `masked_envs:${entry}` }).open({ count, options: kwargs });

const field = (dtype: string, shape: number[] = []) => ({ dtype, shape });
const fields = {
  obs: field('float32', [4]),
  nextObs: field('float32', [4]),
  actions: field('uint8'),
  terminated: field('bool'),
  truncated: field('bool'),
  actionMask: field('bool', [ACTIONS]),
  nextActionMask: field('bool', [ACTIONS]),
};

/** Collects rows, and checks that each mask is that of its observation. */
async function checkRows(entry: string, kwargs: object, lastOf = storedMask): Promise<void> {
  const { told, context } = contextOf({ fields: fields as never });
  const make = { open: ({ count }: { count: number }) => opened(entry, kwargs, count) };
  const explore = { randomSteps: 100, hold: 3, epsilon: { to: 0.3, steps: 200 } };
  const collector = await vectorCollector({
    make,
    environments: COUNT,
    policy: legalPolicy,
    explore,
  })(context);
  const ends = { terminated: 0, truncated: 0 };
  for (let step = 0; step < 60; step++) {
    const columns = (await collector.collect()) as Record<string, Float32Array> | null;
    const n = columns?.actions?.length ?? 0;
    for (let row = 0; row < n; row++) {
      const of = (key: string, size: number) => [
        ...columns![key]!.subarray(size * row, size * (row + 1)),
      ];
      const [obs, nextObs] = [of('obs', 4), of('nextObs', 4)];
      const terminated = columns!.terminated![row] === 1;
      ends.terminated += columns!.terminated![row]!;
      ends.truncated += columns!.truncated![row]!;
      const [action] = of('actions', 1);
      expect(nextObs).to.deep.equal([obs[0], obs[1], obs[2]! + 1, action]);
      const mask = of('actionMask', ACTIONS);
      expect([mask, mask[action!]]).to.deep.equal([[...legalOf(obs)], 1]);
      expect(of('nextActionMask', ACTIONS), `after ${nextObs}`).to.deep.equal([
        ...lastOf(nextObs, terminated),
      ]);
    }
  }
  await collector.close?.();
  expect(told.steps).to.be.above(200);
  expect([ends.terminated > 15, ends.truncated > 15]).to.deep.equal([true, true]);
}

/** Evaluates while some environments rest, which Python steps with the others. */
async function checkEvaluation(entry: string, kwargs: object): Promise<void> {
  const set = await opened(entry, kwargs);
  expect(await givesMasks(set)).to.equal(true);
  for (const episodes of [1, 7]) {
    const policy = legalPolicy();
    const { lengths } = await evaluate({ environments: set, policy, episodes });
    expect([...lengths].every((length) => length >= 3 && length <= 7)).to.equal(true);
  }
  await set.close();
}

const zerosOf = (state: ArrayLike<number>, terminated: boolean) =>
  terminated ? new Uint8Array(ACTIONS) : legalOf(state);
const modes = ['Disabled', 'SameStep', 'NextStep'];

describe('action masks of gymnasium()', () => {
  before(function () {
    needNumpy(this);
  });

  for (const source of ['info', 'dict', 'method', 'wrapped'])
    it(`are those of obs and nextObs (${source}, one by one)`, async () => {
      // Hotslot does not call the method in a terminated state.
      const isMethod = source === 'method' || source === 'wrapped';
      await checkRows('masked', { source }, isMethod ? zerosOf : storedMask);
      await checkEvaluation('masked', { source });
    });

  // The method of a vector environment in same-step mode does not know the last masks.
  for (const mode of modes)
    for (const source of ['info', 'dict', 'method'])
      if (mode !== 'SameStep' || source !== 'method')
        itAll(`are those of obs and nextObs (${source}, ${mode})`, async () => {
          await checkRows('masked_vector', { mode, source });
          await checkEvaluation('masked_vector', { mode, source });
        });

  it('reject a truncated episode whose last mask an automatic reset has replaced', async () => {
    const set = await opened('masked_vector', { mode: 'SameStep', source: 'method' });
    const error = await rejection(
      evaluate({ environments: set, policy: legalPolicy(), episodes: 50 }),
    );
    expect(error.message).to.match(
      /^environment 0 of those that evaluate: step\(\) returned no action mask of the last state before an automatic reset: with autoreset_mode SAME_STEP, give masks as info\['action_mask'\] or in a Dict of observations, in step 3 of its episode$/,
    );
    await set.close();
  });

  describe("of Gymnasium's vector environments", () => {
    before(function () {
      needGymnasium(this);
    });
    for (const kind of ['Sync', 'Async'])
      for (const mode of ['DISABLED', 'SAME_STEP', 'NEXT_STEP'])
        for (const source of ['info', 'dict', 'method'])
          if (source !== 'method' || (kind === 'Sync' && mode !== 'SAME_STEP'))
            itAll(`are those of obs and nextObs (${kind}, ${mode}, ${source})`, async () => {
              const kwargs = { kind, mode, source };
              const isMethod = source === 'method';
              await checkRows('gymnasium_vector', kwargs, isMethod ? zerosOf : storedMask);
              await checkEvaluation('gymnasium_vector', { ...kwargs, wraps: true });
            });
    itAll('are asked of an AsyncVectorEnv, also in terminated states', async () => {
      const kwargs = { kind: 'Async', mode: 'NEXT_STEP', source: 'lenient' };
      await checkRows('gymnasium_vector', kwargs);
      await checkEvaluation('gymnasium_vector', kwargs);
    });
  });

  /** Returns the error of begin(), or of one of the steps. */
  const refused = async (kwargs: object, entry = 'returned') => {
    const set = await opened(entry, kwargs, 1);
    try {
      const steps = set.play({ nextSeed: () => 1 });
      return await rejection(async () => {
        await steps.begin();
        for (let step = 0; step < 3; step++) await steps.step([1]);
      });
    } finally {
      await set.close();
    }
  };
  const all = [1, 1, 1, 1];
  const [first, at] = [', in step 1 of its episode', ', in step 2 of its episode'];
  const cases: [string, object, string][] = [
    [
      'of another length',
      { first: [1, 1, 1], steps: [] },
      `environment 0: reset() returned an action mask of shape [3]: its actions are 4${first}`,
    ],
    [
      'of another shape',
      { first: [all], steps: [] },
      `environment 0: reset() returned an action mask of shape [1, 4]: its actions are 4${first}`,
    ],
    [
      'of strings',
      { first: ['a', 'b', 'c', 'd'], steps: [] },
      `environment 0: reset() returned ['a', 'b', 'c', 'd'] as action mask, which must be numbers or booleans${first}`,
    ],
    [
      'with NaN',
      { first: all, steps: [all, [1, Number.NaN, 1, 1]] },
      `environment 0: step() returned [1, nan, 1, 1] as action mask, which must be numbers or booleans${at}`,
    ],
    [
      'without a legal action at first',
      { first: [0, 0, 0, 0], steps: [] },
      'environment 0: the action mask after reset() has no legal action; allow one, such as a pass',
    ],
    [
      'without a legal action in a state that goes on',
      { first: all, steps: [all, [0, 0, 0, 0]] },
      `environment 0: the action mask after step() has no legal action${at}; allow one, such as a pass, or return terminated: true`,
    ],
    [
      'that are missing later',
      { first: all, steps: [all, null] },
      `environment 0: no action mask after step()${at}, but an earlier reset() gave one; give a mask after each reset() and each step()`,
    ],
    [
      'that are empty after a truncation',
      { first: all, steps: [all, []], ends: [null, 'truncated'] },
      `environment 0: no action mask after step()${at}, but an earlier reset() gave one; give a mask after each reset() and each step()`,
    ],
    [
      'of a step only',
      { first: null, steps: [null, all] },
      `environment 0: the action mask after step() is its first one${at}; give a mask after each reset() and each step(), or never`,
    ],
    [
      'for a box',
      { first: all, steps: [], box: true },
      `environment 0: reset() returned an action mask, but its actions are a Box: masks are for Discrete, so leave it out${first}`,
    ],
    [
      'of 5,000 actions',
      { first: 'all', steps: [], actions: 5000 },
      `environment 0: reset() returned an action mask, but it has 5,000 actions: at most 4,096 can have masks, so leave it out${first}`,
    ],
  ];
  for (const [name, kwargs, text] of cases)
    it(`reject masks ${name}`, async () => {
      const error = await refused(kwargs);
      expect(error.message).to.equal(text);
      expect(error).to.be.instanceOf(RangeError);
    });

  it('allow 4,096 actions, and an illegal action throws', async () => {
    const set = await opened('returned', { first: 'all', steps: ['all'], actions: 4096 }, 1);
    const steps = set.play({ nextSeed: () => 1 });
    await steps.begin();
    await steps.step([4095]);
    expect(steps.actionMask).to.deep.equal(new Uint8Array(4096).fill(1));
    await set.close();
    expect((await refused({ first: [1, 0, 1, 0], steps: [] })).message).to.equal(
      'action 1 for environment 0, in step 1 of its episode, is illegal: legal are 0, 2; a policy gets them as act(obs, n, { mask }), n × 4 bytes',
    );
  });

  it('are null for environments without masks', async () => {
    const set = await opened('returned', { first: null, steps: [null, null, null] }, 1);
    expect(await givesMasks(set)).to.equal(false);
    await set.close();
  });

  it('reject a Dict of other entries, and an observation that is no such Dict', async () => {
    const dict = async (entries: object) =>
      (await rejection(opened('returned', { first: null, steps: [], entries }, 1))).message;
    expect(await dict({ a: 'box', b: 'box' })).to.match(
      /: Hotslot takes Box; wrap the environment/,
    );
    expect(await dict({ a: 'box', b: 'box', action_mask: 'mask' })).to.match(
      /: next to action_mask, Hotslot takes one entry, a Box; wrap the environment by gymnasium.wrappers.TransformObservation/,
    );
    expect(await dict({ a: 'discrete', action_mask: 'mask' })).to.match(
      /the observation's entry 'a' is .*: Hotslot takes Box; wrap the environment by gymnasium.wrappers.TransformObservation/,
    );
    expect((await refused({ shows: [0] }, 'mapped')).message).to.equal(
      "environment 0: reset() returned [0], its space is a Dict of 'observation' and 'action_mask', in step 1 of its episode",
    );
    expect(
      (await refused({ shows: { observation: [0], action_mask: [1, 1] } }, 'mapped')).message,
    ).to.equal(
      `environment 0: reset() returned an action mask of shape [2]: its actions are 4${first}`,
    );
  });
});
