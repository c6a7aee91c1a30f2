/**
 * Tests the action masks of environment sets: their time steps, their sources, and the errors for
 * wrong masks and for illegal actions.
 */
import { expect } from 'chai';
import type { AnyEnvironment, EnvironmentSet, Step } from '../../src/entries/collect.ts';
import type { TypedArray } from '../../src/index.ts';
import { EnvironmentList } from '../../src/run/environments/vector-environment.ts';
import { rejection } from '../rig/refusal.ts';
import { ACTIONS, legalOf, Masked, storedMask } from './masked.ts';

const rows = (mask: Uint8Array | null, count: number) =>
  Array.from({ length: count }, (_, i) => [...mask!.subarray(i * ACTIONS, (i + 1) * ACTIONS)]);
const stateOf = (obs: TypedArray, i: number) =>
  Array.from({ length: 4 }, (_, at) => Number(obs[4 * i + at]));

/** Returns the first legal action of each environment. */
const firstLegal = (mask: Uint8Array, count: number) =>
  Array.from({ length: count }, (_, i) => Math.max(0, mask.indexOf(1, i * ACTIONS) - i * ACTIONS));

const good = { obs: [0], reward: 0, terminated: false, truncated: false };
/** Creates an environment with four actions. `change` replaces its members. */
const like = (change: object): AnyEnvironment =>
  ({
    observationSpace: { shape: [1] },
    actionSpace: { n: 4 },
    reset: () => [0],
    step: () => good,
    actionMask: () => [0, 1, 1, 0],
    ...change,
  }) as unknown as AnyEnvironment;

/** Returns the error of begin(), or of one of three steps with action 1. */
const refused = (...environments: AnyEnvironment[]) =>
  rejection(async () => {
    const set = new EnvironmentList(environments).play({ nextSeed: () => 1 });
    await set.begin();
    for (let step = 0; step < 3; step++) await set.step(environments.map(() => 1));
  });

/** Gives a mask in the third step. */
const third = (mask: unknown, more: Partial<Step> = {}) => {
  let count = 0;
  return like({
    actionMask: undefined,
    reset: () => ({ obs: [0], actionMask: [1, 1, 0, 0] }),
    step: () =>
      ++count === 3
        ? { ...good, ...more, actionMask: mask }
        : { ...good, actionMask: [1, 1, 0, 0] },
  });
};

describe('action masks of environments', () => {
  for (const later of [false, true])
    for (const from of ['method', 'result', 'both'] as const)
      it(`are those of obs and nextObs (${from}${later ? ', asynchronous' : ''})`, async () => {
        const made = Array.from({ length: 5 }, (_, i) => new Masked(i, { later, from }));
        const set = new EnvironmentList(made).play({ nextSeed: () => 1 });
        expect([set.actionMask, set.nextActionMask]).to.deep.equal([null, null]);
        const begun = set.begin();
        expect(begun instanceof Promise).to.equal(later);
        await begun;
        let ends = 0;
        for (let step = 0; step < 60; step++) {
          const masks = rows(set.actionMask, 5);
          for (const [i, mask] of masks.entries())
            expect(mask, `step ${step}, environment ${i}`).to.deep.equal([
              ...legalOf(stateOf(set.obs, i)),
            ]);
          await set.step(firstLegal(set.actionMask!, 5));
          for (const [i, mask] of rows(set.nextActionMask, 5).entries()) {
            const terminated = set.terminated[i] === 1;
            if (terminated || set.truncated[i]) ends++;
            expect(mask, `after step ${step}, environment ${i}`).to.deep.equal([
              ...storedMask(stateOf(set.nextObs, i), terminated),
            ]);
          }
        }
        expect(ends).to.equal([3, 4, 5, 6, 7].reduce((sum, n) => sum + Math.floor(60 / n), 0));
        expect(made.map(({ taken }) => taken)).to.deep.equal([60, 60, 60, 60, 60]);
      });

  it('are null for environments that give none, and reset() may return a bare observation', async () => {
    for (const change of [{ actionMask: undefined }, { actionMask: () => undefined }]) {
      const set = new EnvironmentList([like(change)]).play({ nextSeed: () => 1 });
      await set.begin();
      await set.step([3]);
      expect([set.actionMask, set.nextActionMask]).to.deep.equal([null, null]);
    }
  });

  it('are zero for an environment that rests, whose action is then ignored', async () => {
    const made = [new Masked(0), new Masked(1)];
    const seeds = [1, 2];
    const set = new EnvironmentList(made).play({ nextSeed: () => seeds.shift() ?? null });
    await set.begin();
    for (let step = 0; step < 3; step++) await set.step(firstLegal(set.actionMask!, 2));
    expect(set.going).to.equal(1);
    expect(rows(set.actionMask, 2)).to.deep.equal([
      Array(ACTIONS).fill(0),
      [...legalOf([1, 1, 3])],
    ]);
    // A policy without a legal action may return anything, such as −1 of a search.
    const [, legal] = firstLegal(set.actionMask!, 2);
    await set.step([-1, legal!]);
    expect(made.map(({ taken }) => taken)).to.deep.equal([3, 4]);
    expect(set.going).to.equal(0);
  });

  it('accept whatever ArrayLike of numbers and booleans, and are copied at once', async () => {
    const mask: { [at: number]: unknown; length: number } = {
      0: -0.5,
      1: true,
      2: -0,
      3: false,
      length: 4,
    };
    const set = new EnvironmentList([like({ actionMask: () => mask })]).play({ nextSeed: () => 1 });
    await set.begin();
    mask[0] = 0;
    expect([...set.actionMask!]).to.deep.equal([1, 1, 0, 0]);
    await set.step([0]);
    expect([...set.actionMask!]).to.deep.equal([0, 1, 0, 0]);
  });

  const giving = (mask: unknown, more = {}) => like({ actionMask: () => mask, ...more });
  const at = ', in step 3 of its episode';
  const after = 'environment 0: the action mask after';
  const cases: [string, string | RegExp, ...AnyEnvironment[]][] = [
    [
      'too few entries',
      `${after} reset() has 3 entries, but the environment has 4 actions`,
      giving([1, 1, 1]),
    ],
    ['no entries', `${after} reset() has 0 entries, but the environment has 4 actions`, giving([])],
    ['a number', `${after} reset() must be an array of 4 numbers or booleans, got 15`, giving(15)],
    [
      'a string',
      `${after} reset() must be an array of 4 numbers or booleans, got '1111'`,
      giving('1111'),
    ],
    [
      'a promise',
      `${after} reset() must be an array of 4 numbers or booleans, got a Promise`,
      giving(Promise.resolve([1, 1, 1, 1])),
    ],
    [
      'a string as an entry',
      `${after} reset() has 'x' as entry 2; entries are numbers or booleans`,
      giving([1, 1, 'x', 1]),
    ],
    [
      'NaN',
      `${after} reset() has NaN as entry 0; entries are numbers or booleans`,
      giving([Number.NaN, 1, 1, 1]),
    ],
    [
      'a hole',
      `${after} reset() has undefined as entry 3; entries are numbers or booleans`,
      giving(Object.assign([1, 1, 1], { length: 4 })),
    ],
    [
      'bigints',
      `${after} reset() has 1 as entry 0; entries are numbers or booleans`,
      giving(BigInt64Array.of(1n, 1n, 1n, 1n)),
    ],
    [
      'no legal action at first',
      `${after} reset() has no legal action; allow one, such as a pass`,
      giving([0, 0, 0, 0]),
    ],
    [
      'no legal action in a state that goes on',
      `${after} step() has no legal action${at}; allow one, such as a pass, or return terminated: true`,
      third([0, 0, 0, 0]),
    ],
    [
      'no legal action after a truncation',
      `${after} step() has no legal action${at}; allow one, such as a pass, or return terminated: true`,
      third([false, false, false, false], { truncated: true }),
    ],
    [
      'no legal action after maxEpisodeSteps',
      `${after} step() has no legal action${at}; allow one, such as a pass, or return terminated: true`,
      Object.assign(third([0, 0, 0, 0]), { maxEpisodeSteps: 3 }),
    ],
    [
      'another length later',
      `${after} step() has 5 entries, but the environment has 4 actions${at}`,
      third([1, 1, 1, 1, 1]),
    ],
    [
      'another length after a terminated step',
      `${after} step() has 3 entries, but the environment has 4 actions${at}`,
      third([0, 0, 0], { terminated: true }),
    ],
    [
      'an empty mask in a state that goes on',
      `${after} step() has 0 entries, but the environment has 4 actions${at}`,
      third([]),
    ],
    [
      'no mask later',
      `environment 0: no action mask after step()${at}, but an earlier reset() gave one; give a mask after each reset() and each step()`,
      third(undefined),
    ],
    [
      'no mask after a truncation',
      `environment 0: no action mask after step()${at}, but an earlier reset() gave one; give a mask after each reset() and each step()`,
      third(null, { truncated: true }),
    ],
    [
      'a mask of step() only',
      `${after} step() is its first one, in step 1 of its episode; give a mask after each reset() and each step(), or never`,
      like({ actionMask: undefined, step: () => ({ ...good, actionMask: [1, 1, 1, 1] }) }),
    ],
    [
      'a box',
      `${after} reset() cannot apply: its actions are a box, and masks are for an actionSpace of { n }; leave the mask out`,
      like({ actionSpace: { shape: [4], low: 0, high: 1 } }),
    ],
    [
      '5,000 actions',
      `${after} reset() is for 5,000 actions, and at most 4,096 actions can have masks; leave the mask out`,
      like({ actionSpace: { n: 5000 }, actionMask: () => new Uint8Array(5000).fill(1) }),
    ],
    [
      'a set in which only the first gives masks',
      'environment 0 gives action masks, and environment 1 gives none; all environments of a set give masks, or none of them does',
      like({}),
      like({ actionMask: undefined }),
    ],
    [
      'a set in which only the second gives masks',
      'environment 1 gives action masks, and environment 0 gives none; all environments of a set give masks, or none of them does',
      like({ actionMask: undefined }),
      like({}),
    ],
  ];
  for (const [name, text, ...environments] of cases)
    it(`reject ${name}`, async () => {
      const error = await refused(...environments);
      expect(error.message).to.equal(text);
      expect(error).to.be.instanceOf(
        /must be an array|entries are|box/.test(error.message) ? TypeError : RangeError,
      );
    });

  it('reject a second episode without a mask, and a second one that is the first with a mask', async () => {
    const episodes = (...masks: unknown[]) =>
      like({
        actionMask: undefined,
        reset: () => ({ obs: [0], actionMask: masks.shift() }),
        step: () => ({ ...good, terminated: true }),
      });
    expect((await refused(episodes([1, 1, 1, 1], undefined))).message).to.equal(
      'environment 0: no action mask after reset(), but an earlier reset() gave one; give a mask after each reset() and each step()',
    );
    expect((await refused(episodes(undefined, [1, 1, 1, 1]))).message).to.equal(
      `${after} reset() is its first one; give a mask after each reset() and each step(), or never`,
    );
  });

  it('allow 4,096 actions', async () => {
    const mask = new Uint8Array(4096);
    mask[4095] = 1;
    const set = new EnvironmentList([like({ actionSpace: { n: 4096 }, actionMask: () => mask })]);
    const playing = set.play({ nextSeed: () => 1 });
    await playing.begin();
    await playing.step([4095]);
    expect(playing.actionMask).to.deep.equal(mask);
  });

  it('step() rejects an illegal action before any environment takes it', async () => {
    const made = [new Masked(0), new Masked(1)];
    const play = (set: EnvironmentSet) => set.play({ nextSeed: () => 1 });
    const set = play(new EnvironmentList(made));
    await set.begin();
    for (let step = 0; step < 2; step++) await set.step(firstLegal(set.actionMask!, 2));
    const [first, second] = firstLegal(set.actionMask!, 2);
    const legal = [...legalOf([1, 1, 2]).keys()].filter((a) => legalOf([1, 1, 2])[a] === 1);
    const error = await rejection(() => set.step([first!, second! + 1]));
    expect(error).to.be.instanceOf(RangeError);
    expect(error.message).to.equal(
      `action ${second! + 1} for environment 1, in step 3 of its episode, is illegal: legal are ${legal.slice(0, 8).join(', ')} and 3 more; a policy gets them as act(obs, n, { mask }), n × 33 bytes`,
    );
    expect(made.map(({ taken }) => taken)).to.deep.equal([2, 2]);
    expect((await rejection(() => set.step([first!, ACTIONS]))).message).to.equal(
      'action 33 for environment 1: its actions are 0 to 32',
    );
    await set.step([first!, second!]);
    expect(made.map(({ taken }) => taken)).to.deep.equal([3, 3]);
  });

  it('ignore a reset that arrives after another play() has begun', async () => {
    const resets: ((obs: number[]) => void)[] = [];
    let asked = 0;
    const late = like({
      reset: () => new Promise((resolve) => resets.push(resolve)),
      actionMask: () => {
        asked++;
        return [1, 0, 0, 0];
      },
    });
    const list = new EnvironmentList([late]);
    const first = list.play({ nextSeed: () => 1 });
    const begun = first.begin();
    const second = list.play({ nextSeed: () => 1 });
    const begunAgain = second.begin();
    resets[0]!([0]);
    await begun;
    expect([first.actionMask, asked]).to.deep.equal([null, 0]);
    resets[1]!([0]);
    await begunAgain;
    expect([[...second.actionMask!], asked]).to.deep.equal([[1, 0, 0, 0], 1]);
  });
});
