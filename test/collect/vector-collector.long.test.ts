/**
 * Tests vectorCollector(): each row must be the step that it claims to be, with episodes of
 * different lengths, asynchronous environments and every kind of buffer.
 */
import { expect } from 'chai';
import { evaluate, vectorCollector } from '../../src/entries/collect.ts';
import { CollectorPool, ReplayBuffer, TrajectoryBuffer, WeightMailbox } from '../../src/index.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { expectCounted, expectStacks } from './counted-rows.ts';
import { Counting, type CountingOptions, contextOf, counting } from './counting.ts';

const ENTRY = new URL('./counting.js', import.meta.url);

type Columns = Record<string, Float32Array>;
/** Returns a policy whose actions are 0.25, 0.5, … in turn. */
const playing = () => {
  let count = 0;
  return {
    act: (_: Float32Array, n: number) =>
      Float32Array.from({ length: 2 * n }, () => (++count % 7) / 4),
  };
};

describe('vectorCollector()', () => {
  for (const later of [false, true])
    it(`returns each step as one row${later ? ' from asynchronous environments' : ''}`, async () => {
      const { collector, made, told } = await counting({ options: { later } }, { policy: playing });
      const at = [0, 0];
      const episode = [1, 1];
      let played = 0;
      const acted = [0, 0];
      for (let step = 0; step < 40; step++) {
        const promised = collector.collect();
        expect(promised instanceof Promise).to.equal(later);
        const rows = (await promised) as Columns;
        for (const i of [0, 1]) {
          const mine = (name: string, width: number) => [
            ...rows[name]!.subarray(i * width, (i + 1) * width),
          ];
          const action = [(++played % 7) / 4, (++played % 7) / 4];
          expect(mine('actions', 2)).to.deep.equal(action);
          expect(mine('obs', 4)).to.deep.equal([i, episode[i], at[i], acted[i]]);
          at[i]!++;
          expect(mine('nextObs', 4)).to.deep.equal([i, episode[i], at[i], action[1]]);
          expect(rows.rewards![i]).to.equal(10 * i + at[i]!);
          const over = at[i] === 3 + i;
          expect([rows.dones![i], rows.truncated![i]]).to.deep.equal([
            Number(over),
            Number(over && episode[i]! % 2 === 0),
          ]);
          acted[i] = over ? 0 : action[1]!;
          if (over) [at[i], episode[i]] = [0, episode[i]! + 1];
        }
      }
      expect(told.steps).to.equal(80);
      expect(told.episodes).to.have.length(Math.floor(40 / 3) + Math.floor(40 / 4));
      expect(told.episodes[0]).to.deep.equal([1 + 2 + 3, 3]);
      expect(told.episodes[1]).to.deep.equal([11 + 12 + 13 + 14, 4]);
      expect(new Set([...made[0]!.seeds, ...made[1]!.seeds]).size).to.equal(
        made[0]!.seeds.length + made[1]!.seeds.length,
      );
      await collector.close?.();
      expect(made.map(({ closed }) => closed)).to.deep.equal([1, 1]);
    });

  it('passes the stacked observations of each environment to the policy, as evaluate() does', async () => {
    for (const [later, dtype, stack] of [
      [false, 'float32', 3],
      [true, 'float32', 2],
      [false, 'uint8', 4],
      [false, 'uint8', 1],
    ] as const) {
      let seen = 0;
      const act = (obs: Float32Array, n: number) => {
        expectStacks(obs, n, stack);
        seen++;
        return new Float32Array(2 * n).fill(1);
      };
      const of = { options: { later, dtype } };
      const { collector } = await counting(of, { environments: 3, stack, policy: () => ({ act }) });
      for (let step = 0; step < 40; step++) await collector.collect();
      expect(seen).to.equal(40);
      // All episodes have one length, so that no environment is idle while others play.
      const environments = [1, 1, 1].map((index) => new Counting(index, of.options));
      await evaluate({ environments, policy: { act }, stack, episodes: 9 });
      expect(seen).to.equal(40 + 3 * 4);
    }
  });

  it('derives seeds from the environment and the seed of the pool, not from the worker', async () => {
    const seeds = async (worker: number, environments: number, seed = 7) => {
      const { made } = await counting({ worker, seed, workers: 4 }, { environments });
      return made.map((environment) => environment.seeds[0]);
    };
    const [a, b] = [await seeds(0, 4), [...(await seeds(0, 2)), ...(await seeds(1, 2))]];
    expect(a).to.deep.equal(b);
    expect(new Set(a).size).to.equal(4);
    expect(await seeds(0, 4, 8)).not.to.deep.equal(a);
  });

  it('truncates episodes after maxEpisodeSteps of the environment', async () => {
    const limited = Object.assign(new Counting(2), { maxEpisodeSteps: 2 });
    const { collector, told } = await counting({}, { environments: 1, make: () => limited });
    const flags = [];
    for (let step = 0; step < 6; step++) {
      const { dones, truncated } = (await collector.collect()) as Columns;
      flags.push([dones![0], truncated![0]]);
    }
    expect(flags).to.deep.equal([
      [0, 0],
      [1, 1],
      [0, 0],
      [1, 1],
      [0, 0],
      [1, 1],
    ]);
    expect(told.episodes).to.deep.equal([
      [43, 2],
      [43, 2],
      [43, 2],
    ]);
  });

  it('samples random actions from the whole space, and decreases epsilon with the steps of all workers', async () => {
    const count = 500;
    const box = (await counting({}, { environments: count })).collector;
    const { actions } = (await box.collect()) as Columns;
    expect(Math.min(...actions!)).to.be.within(-2, -1.98);
    expect(Math.max(...actions!)).to.be.within(1.98, 2);
    expect(actions!.reduce((sum, action) => sum + action, 0) / actions!.length).to.be.within(
      -0.15,
      0.15,
    );

    const fields = {
      ...contextOf().context.fields,
      actions: { dtype: 'uint8', shape: [] },
    } as const;
    const policy = () => ({ act: (_: Float32Array, n: number) => new Float32Array(n) });
    const explore = { epsilon: { to: 0.1, steps: 4 * count } };
    const { collector } = await counting(
      { options: { discrete: 4 }, fields, workers: 2 },
      { environments: count, policy, explore },
    );
    const shares = [];
    for (let round = 0; round < 4; round++) {
      const { actions } = (await collector.collect()) as unknown as { actions: Uint8Array };
      shares.push(actions.filter((action) => action > 0).length / count);
    }
    // With two workers epsilon has fallen half of the way after one round, and all of it after two.
    // Three of four random actions differ from 0.
    for (const [round, share] of [1, 0.55, 0.1, 0.1].entries())
      expect(shares[round], `round ${round}`).to.be.within(
        0.75 * share - 0.06,
        0.75 * share + 0.06,
      );
  });

  it('plays other episodes after a restart, and counts earlier steps for exploration', async () => {
    const first = async (restarts: number) =>
      (await counting({ restarts })).made.map(({ seeds }) => seeds[0]!);
    const seeds = [await first(0), await first(1), await first(2)].flat();
    expect(new Set(seeds).size).to.equal(6);
    const act = () => new Float32Array(4).fill(1.5);
    const one = async (stepsBefore: number) => {
      const explore = { randomSteps: 100 };
      const { collector } = await counting(
        { stepsBefore, restarts: 1 },
        { policy: () => ({ act }), explore },
      );
      return ((await collector.collect()) as Columns).actions!;
    };
    expect([...(await one(100))]).to.deep.equal([1.5, 1.5, 1.5, 1.5]);
    expect([...(await one(90))]).not.to.include(1.5);
  });

  itAll(
    'repeats random actions for `hold` steps, and keeps the share of random steps',
    async () => {
      const fields = {
        ...contextOf().context.fields,
        actions: { dtype: 'float32', shape: [] },
      } as const;
      const policy = () => ({ act: (_: Float32Array, n: number) => new Float32Array(n) });
      const explore = { hold: 5, epsilon: { from: 0.5, to: 0.5, steps: 0 } };
      const how = { environments: 200, policy, explore };
      const { collector } = await counting({ options: { discrete: 1000 }, fields }, how);
      const acted = Array.from({ length: 400 }, () =>
        Array.from((collector.collect() as Columns).actions!),
      );
      const random = acted.flat().filter((action) => action > 0).length / (400 * 200);
      expect(random).to.be.within(0.48, 0.52);
      for (let i = 0; i < 200; i++) {
        const mine = acted.map((actions) => actions[i]!).join();
        // Each random action is repeated five times in a row. The last one may be cut off, and an
        // action that is drawn twice in a row counts as one run.
        for (const [run, action] of mine.matchAll(/(?<=^|,)([1-9]\d*)(?:,\1)*(?=,)/g))
          if (!mine.endsWith(run))
            expect(run.split(',').length % 5, `environment ${i}: ${action}`).to.equal(0);
      }
    },
  );

  it('acts at random until the first weights are loaded and during the first `randomSteps` steps', async () => {
    const loaded: number[] = [];
    const policy = () => ({
      load: (weights: Float32Array) => loaded.push(weights[0]!),
      act: (_: Float32Array, n: number) => new Float32Array(2 * n).fill(1.5),
    });
    const { collector } = await counting({ workers: 2 }, { policy, explore: { randomSteps: 9 } });
    const acted = async () =>
      [...((await collector.collect()) as Columns).actions!].every((action) => action === 1.5);
    expect(await acted()).to.equal(false);
    collector.load?.(Float32Array.of(3), 1);
    // Two workers with two environments each make four steps a round.
    expect([await acted(), await acted(), await acted(), await acted()]).to.deep.equal([
      false,
      false,
      true,
      true,
    ]);
    expect(loaded).to.deep.equal([3]);
  });

  it('returns columns in the dtypes of the buffer', async () => {
    const { context } = contextOf();
    const of = (dtype: string, shape: number[] = []) => ({ dtype, shape }) as never;
    const fields = {
      obs: of('uint8', [2, 2]),
      nextObs: of('float16', [4]),
      actions: of('int32'),
      rewards: of('float64'),
      dones: of('bool'),
      terminated: of('float32'),
    };
    const { collector } = await counting(
      { ...context, fields, options: { dtype: 'uint8', discrete: 9 } },
      { policy: () => ({ act: (_, n) => new Int32Array(n).fill(5) }) },
    );
    for (let round = 0; round < 3; round++) {
      const rows = (await collector.collect()) as Record<string, ArrayLike<number>>;
      expect(rows.obs).to.deep.equal(
        Uint8Array.of(0, 1, round, round && 5, 1, 1, round, round && 5),
      );
      expect(rows.nextObs).to.be.instanceOf(Uint16Array);
      expect(rows.nextObs![3]).to.equal(0x4500); // 5 in float16
      expect(rows.actions).to.deep.equal(Int32Array.of(5, 5));
      expect(rows.rewards).to.deep.equal(Float64Array.of(round + 1, round + 11));
      expect(rows.dones).to.deep.equal(Uint8Array.of(round === 2 ? 1 : 0, 0));
      expect(rows.terminated).to.deep.equal(Float32Array.of(round === 2 ? 1 : 0, 0));
    }
  });

  for (const later of [false, true])
    itAll(
      `fills a ReplayBuffer from two threads of a pool${later ? ' with asynchronous environments' : ''}`,
      async () => {
        const buffer = ReplayBuffer.offPolicy({ capacity: 1 << 15, obsDim: 4, actionDim: 2 });
        const options: CountingOptions = { environments: 3, later };
        await using pool = await CollectorPool.open({ entry: ENTRY, buffer, workers: 2, options });
        const width = buffer.rowBytes / 4;
        const read = (first: number, count: number) =>
          buffer.gather(
            Uint32Array.from({ length: count }, (_, i) => (first + i) % buffer.capacity),
            new Float32Array(count * width),
          );
        const seen = new Set<number>();
        await until('both have added', () => {
          if (buffer.ptr > 0) seen.add(read(buffer.ptr - 1, 1)[0]!);
          return seen.size === 2 && buffer.ptr > 6000;
        });
        await pool.close();
        const rows = read(buffer.ptr - 6000, 6000);
        expectCounted(rows, width);
        buffer.close();
      },
    );

  itAll('assigns one TrajectoryBuffer lane to each environment in a pool', async () => {
    const fields = { obs: { shape: [4], observation: true }, actions: { shape: [2] } } as const;
    const buffer = TrajectoryBuffer.create({ capacity: 5 << 12, lanes: 5, fields });
    await using pool = await CollectorPool.open({ entry: ENTRY, buffer, workers: 2, options: {} });
    await until('steps have come', () => buffer.ptr > 4000);
    await pool.close();
    const { obs, nextObs, rewards, discounts } = buffer.sample({
      view: buffer.transitions({ gamma: 0.5 }),
      seed: 3,
      count: 512,
    });
    for (let row = 0; row < 512; row++) {
      const [i, episode, count] = obs.subarray(4 * row);
      expect([...nextObs.subarray(4 * row, 4 * row + 3)]).to.deep.equal([i, episode, count! + 1]);
      expect(rewards[row]).to.equal(10 * i! + count! + 1);
      const terminated = count! + 1 === 3 + i! && episode! % 2 === 1;
      expect(discounts[row]).to.equal(terminated ? 0 : 0.5);
    }
    buffer.close();
  });

  it('loads the weights of a mailbox into the policy in a pool', async () => {
    const buffer = ReplayBuffer.offPolicy({ capacity: 1024, obsDim: 4, actionDim: 2 });
    const mailbox = WeightMailbox.create({ length: 2 });
    const entry = new URL('./acting.js', import.meta.url);
    await using pool = await CollectorPool.open({ entry, buffer, mailbox });
    mailbox.write(Float32Array.of(0.5, -1.25));
    const last = () =>
      buffer.gather(Uint32Array.of((buffer.ptr - 1) % 1024), new Float32Array(buffer.rowBytes / 4));
    await until(
      'it acts by them',
      () => buffer.ptr > 0 && last()[8] === 0.5 && last()[9] === -1.25,
    );
    await pool.close();
  });

  it('awaits an async make(), and closes the created environments when a later make() fails', async () => {
    const made: Counting[] = [];
    const make = async ({ index }: { index: number }) => {
      await Promise.resolve();
      if (index === 2) throw new Error('no third');
      made.push(new Counting(index));
      return made[index]!;
    };
    let failed: unknown;
    await Promise.resolve(vectorCollector({ make, environments: 3 })(contextOf().context)).catch(
      (error) => {
        failed = error;
      },
    );
    expect((failed as Error).message).to.equal('no third');
    expect(made.map(({ closed }) => closed)).to.deep.equal([1, 1]);
  });
});
