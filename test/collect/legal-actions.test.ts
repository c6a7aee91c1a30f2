/**
 * Tests acting among legal actions: random actions, the masks that policies get, and environments
 * that throw at an illegal action.
 */
import { expect } from 'chai';
import type { Random } from '../../src/base/random.ts';
import {
  type ActOptions,
  type Explore,
  evaluate,
  vectorCollector,
} from '../../src/entries/collect.ts';
import { CollectorPool, ReplayBuffer, Random as Seeded } from '../../src/index.ts';
import { isNeverRestarted, neverRestarted } from '../../src/run/collectors/never-restarted.ts';
import { Explorer } from '../../src/run/environments/explore.ts';
import { spacesOf } from '../../src/run/environments/spaces.ts';
import { rejection } from '../rig/refusal.ts';
import { contextOf } from './counting.ts';
import { ACTIONS, illegalPolicy, legalPolicy, Masked, type MaskedOptions } from './masked.ts';

const ENTRY = new URL('./masked.js', import.meta.url);

/** Creates an explorer of `count` environments with n actions, or with the actions of a box. */
function explorer(
  action: number | { shape: number[]; low: number; high: number },
  count: number,
  explore: Explore,
  how: { act?: (...given: unknown[]) => ArrayLike<number>; random?: Random; workers?: number } = {},
) {
  const actionSpace = typeof action === 'number' ? { n: action } : action;
  const spaces = spacesOf({ observationSpace: { shape: [1] }, actionSpace });
  const { act = () => new Float32Array(count), random = new Seeded(11, 1), workers = 1 } = how;
  const policy = { act: act as () => ArrayLike<number> };
  return new Explorer(spaces, count, { policy, explore, random, workers, steps: 0 });
}
const obs = (count: number) => new Float32Array(count);

/** Returns random numbers that are the lowest, and records the bounds of the draws. */
function lowest() {
  const bounds: number[] = [];
  const below = (bound: number) => {
    bounds.push(bound);
    return 0;
  };
  const random = { next: () => 0, below };
  return { bounds, random: random as unknown as Random };
}

describe('random actions', () => {
  const explore = { randomSteps: 24, hold: 3, epsilon: { from: 0.9, to: 0.2, steps: 96 } };
  const acted = (mask?: Uint8Array) => {
    const made = explorer(5, 3, explore, { workers: 2 });
    return Array.from({ length: 24 }, () => [...(made.act(obs(3), 3, mask) as Float32Array)])
      .flat()
      .join('');
  };
  // The numbers were recorded before there were masks.
  const golden = '144144144302302302200200240040041101101100000000000000000000002002002000';

  it('are the same numbers without masks as before there were masks', () => {
    expect(acted()).to.equal(golden);
    const box = explorer({ shape: [1], low: -2, high: 2 }, 3, { randomSteps: 24, hold: 2 });
    const values = Array.from({ length: 4 }, () => [...(box.act(obs(3), 3) as Float32Array)]);
    expect(values.flat().map((value) => value.toFixed(3))).to.deep.equal(
      '-0.822,1.996,1.723,-0.822,1.996,1.723,0.543,-1.730,0.028,0.543,-1.730,0.028'.split(','),
    );
  });

  it('are the same numbers if all actions are legal', () => {
    expect(acted(new Uint8Array(15).fill(1))).to.equal(golden);
  });

  for (const [how, explore] of [
    ['the first steps', { randomSteps: 1e9 }],
    ['epsilon', { epsilon: { from: 1, to: 1, steps: 0 } }],
  ] as const)
    it(`are uniform among the legal ones, although the policy chooses an illegal one (${how})`, () => {
      const made = explorer(6, 2, explore, { act: () => [3, 3] });
      const mask = Uint8Array.of(1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0);
      const counts = new Array(6).fill(0);
      for (let step = 0; step < 3000; step++) {
        const [first, second] = made.act(obs(2), 2, mask) as unknown as [number, number];
        counts[first]++;
        expect(second).to.equal(1);
      }
      expect([counts[1], counts[3], counts[4]]).to.deep.equal([0, 0, 0]);
      for (const action of [0, 2, 5]) expect(counts[action]).to.be.within(900, 1100);
    });

  it('have the share epsilon, and are those of the policy otherwise', () => {
    const made = explorer(
      1000,
      1,
      { epsilon: { from: 0.3, to: 0.3, steps: 0 } },
      { act: () => [7] },
    );
    const mask = new Uint8Array(1000).fill(1);
    let random = 0;
    for (let step = 0; step < 5000; step++) if (made.act(obs(1), 1, mask)[0] !== 7) random++;
    expect(random / 5000).to.be.within(0.28, 0.32);
  });

  it('are held while they are legal, and drawn again for the steps that are left', () => {
    const { bounds, random } = lowest();
    const made = explorer(4, 1, { randomSteps: 1e9, hold: 4 }, { random });
    const act = (...mask: number[]) => made.act(obs(1), 1, Uint8Array.from(mask))[0];
    expect([act(0, 1, 1, 0), act(1, 1, 0, 0)]).to.deep.equal([1, 1]);
    expect([act(0, 0, 1, 1), act(1, 1, 1, 1)], 'another action, held').to.deep.equal([2, 2]);
    expect(bounds, 'draws among two legal actions each').to.deep.equal([2, 2]);
    expect([act(1, 1, 1, 1), act(1, 1, 1, 1)], 'after 4 steps').to.deep.equal([0, 0]);
    expect(bounds).to.deep.equal([2, 2, 4]);
  });

  it('are 0 without a legal action, and neither drawn nor counted for `hold`', () => {
    const { bounds, random } = lowest();
    const made = explorer(3, 1, { randomSteps: 1e9, hold: 2 }, { random });
    const act = (...mask: number[]) => made.act(obs(1), 1, Uint8Array.from(mask))[0];
    expect([act(0, 1, 1), act(0, 0, 0), act(0, 1, 1), act(0, 0, 1)]).to.deep.equal([1, 0, 1, 2]);
    expect(bounds).to.deep.equal([2, 1]);
  });
});

describe('Policy.act()', () => {
  it('gets masks only if there are any, as a copy', () => {
    const calls: unknown[][] = [];
    const act = (...given: unknown[]) => {
      const { mask } = (given[2] ?? {}) as ActOptions;
      calls.push([given.length, mask?.join('')]);
      mask?.fill(9);
      return [0];
    };
    const made = explorer(3, 1, { epsilon: { from: 1, to: 1, steps: 0 } }, { act });
    const mask = Uint8Array.of(0, 1, 0);
    made.act(obs(1), 1);
    expect(made.act(obs(1), 1, mask)[0]).to.equal(1);
    made.act(obs(1), 1, mask);
    expect(calls).to.deep.equal([
      [2, undefined],
      [3, '010'],
      [3, '010'],
    ]);
    expect([...mask]).to.deep.equal([0, 1, 0]);
  });
});

const fields = {
  ...contextOf().context.fields,
  actions: { dtype: 'float32', shape: [] },
  actionMask: { dtype: 'bool', shape: [ACTIONS] },
} as const;

/** Creates a collector of two environments, which throw at an illegal action. */
async function masked(
  options: MaskedOptions,
  explore: Explore,
  policy?: () => { act: ReturnType<typeof legalPolicy>['act']; load?(): void },
) {
  const made: Masked[] = [];
  const collector = await vectorCollector<MaskedOptions>({
    environments: 2,
    make({ index, options }) {
      made.push(new Masked(index, options));
      return made[index] as Masked;
    },
    explore,
    ...(policy && { policy }),
  })({ ...(contextOf().context as never as object), options, fields } as never);
  return { collector, made };
}

describe('environments that throw at an illegal action', () => {
  const ways: [string, Explore, boolean][] = [
    ['random actions', {}, false],
    ['the first random steps', { randomSteps: 40 }, true],
    ['epsilon', { epsilon: { from: 1, to: 0.5, steps: 60 } }, true],
    ['hold', { randomSteps: 40, hold: 4, epsilon: { from: 0.7, to: 0.3, steps: 60 } }, true],
    ['a policy', {}, true],
  ];
  for (const [how, explore, acts] of ways)
    for (const later of [false, true])
      it(`are collected by ${how}${later ? ' from promises' : ''}`, async () => {
        const policy = legalPolicy();
        const { collector, made } = await masked(
          { later },
          explore,
          acts ? () => policy : undefined,
        );
        for (let step = 0; step < 60; step++) await collector.collect();
        expect(made.map(({ taken }) => taken)).to.deep.equal([60, 60]);
        expect(policy.calls > 0).to.equal(acts);
      });

  it('act at random among the legal actions until the policy has weights', async () => {
    let loaded = 0;
    const policy = { ...legalPolicy(), load: () => void loaded++ };
    const { collector, made } = await masked({}, {}, () => policy);
    for (let step = 0; step < 20; step++) await collector.collect();
    collector.load?.(new Float32Array(1), 1);
    for (let step = 0; step < 20; step++) await collector.collect();
    expect([loaded, made[0]!.taken]).to.deep.equal([1, 40]);
  });

  for (const later of [false, true])
    it(`are evaluated${later ? ' from promises' : ''}, also while some of them rest`, async () => {
      const made = [0, 1, 2, 3].map((index) => new Masked(index, { later }));
      const { lengths } = await evaluate({
        environments: made,
        policy: legalPolicy(),
        episodes: 7,
      });
      expect(lengths.reduce((sum, length) => sum + length)).to.equal(
        made.reduce((sum, { taken }) => sum + taken, 0),
      );
    });

  it('a policy without masks in mind fails the evaluation with the environment and the step', async () => {
    const environments = [new Masked(0), new Masked(1)];
    const policy = illegalPolicy();
    const error = await rejection(evaluate({ environments, policy }));
    expect(error).to.be.instanceOf(RangeError);
    expect(error.message).to.match(
      /^action \d+ for environment 0 of those that evaluate, in step 3 of its episode, is illegal: legal are /,
    );
    expect(environments.map(({ taken }) => taken)).to.deep.equal([2, 2]);
  });

  it("an illegal action stays the user's error as the cause of another one", () => {
    const illegal = neverRestarted(new RangeError('illegal'));
    const wrapped = new Error('my collector', { cause: new Error('my loop', { cause: illegal }) });
    const circular = new Error('a cycle');
    circular.cause = circular;
    expect([illegal, wrapped, circular, null, 'text'].map(isNeverRestarted)).to.deep.equal([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  it('an illegal action of a policy fails the pool, and restarts no collector', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const buffer = ReplayBuffer.create({
      capacity: 64,
      fields: { obs: { shape: [4] }, actions: { shape: [] } },
    });
    const heard: string[] = [];
    const hear = ({ name, message }: Error) =>
      void (name === 'CollectorWarning' && heard.push(message));
    process.on('warning', hear);
    const options: MaskedOptions = { policy: 'illegal', environments: 2, words };
    const pool = await CollectorPool.open({ entry: ENTRY, buffer, options, restart: 5 });
    const error = await rejection(pool.done);
    await pool.close();
    process.off('warning', hear);
    expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
    expect(error.message).to.match(
      /^collector 0 failed: action \d+ for environment 0, in step 3 of its episode, is illegal: /,
    );
    expect(error.cause).to.be.instanceOf(RangeError);
    expect([heard, Atomics.load(words, 2)]).to.deep.equal([[], 1]);
    expect(buffer.ptr).to.equal(4);
    buffer.close();
  });
});
