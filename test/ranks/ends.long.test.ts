/**
 * Tests how the runs of a learner group end: all at one exchange, and each rank learns which rank
 * ended the run and why.
 */
import { expect } from 'chai';
import { GroupRank } from '../../src/engine/group/group-rank.ts';
import { layOutGroup } from '../../src/engine/group/group-shared.ts';
import { Purpose } from '../../src/engine/group/letter.ts';
import { LearnerGroup } from '../../src/entries/ranks.ts';
import { Ending } from '../../src/shm/ending.ts';
import { RankState } from '../../src/shm/exchange-control.ts';
import { closeAll, filled } from '../pipeline/fixture.ts';
import { onlyOn, placements } from '../pipeline/placements.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import {
  average,
  closeGroups,
  expected,
  join,
  keep,
  learner,
  PARAMETERS,
  read,
  update,
  vector,
} from './learners.ts';

const updateAll = (values: readonly Float32Array[]) => {
  for (const [rank, each] of values.entries()) update(rank, each);
};

type Learner = Awaited<ReturnType<typeof learner>>;
const learners = async (
  ranks: number,
  every: number,
  more: Parameters<typeof learner>[2] = {},
): Promise<Learner[]> =>
  Promise.all((await join(ranks)).map((group) => learner(group, every, more)));
/** Resolves when this learner waits for another one. */
const waits = async ({ made }: Learner) => {
  while (!made.waitingFor().includes('learner group')) await new Promise(setImmediate);
};
const endings = (runs: readonly Promise<{ ended: unknown; ticks: number }>[]) =>
  Promise.all(runs).then((all) => all.map(({ ended, ticks }) => ({ ended, ticks })));

describe('the end of a run in a learner group', function () {
  this.timeout(300_000);
  afterEach(async () => {
    await closeAll();
    closeGroups();
  });

  for (const [name, placement] of Object.entries(placements)) {
    describe(name, () => {
      const rest = onlyOn('inline', placement);
      rest(
        'all ranks end with equal parameters after the fewest ticks that a rank requested',
        async () => {
          const all = await learners(3, 1, { placement });
          const runs = [7, 3, 5].map((ticks, rank) => all[rank]!.made.run({ ticks }));
          expect(await endings(runs)).to.deep.equal([
            { ended: { rank: 1, why: 'ticks' }, ticks: 3 },
            { ended: 'ticks', ticks: 3 },
            { ended: { rank: 1, why: 'ticks' }, ticks: 3 },
          ]);
          expect(await read(all)).to.deep.equal(expected(3, 3, 1));
          // The batches after the end were returned. The next run begins with the next tick and
          // applies its updates.
          expect(await endings(all.map(({ made }) => made.run({ ticks: 2 })))).to.deep.equal(
            all.map(() => ({ ended: 'ticks', ticks: 2 })),
          );
          expect(await read(all)).to.deep.equal(expected(3, 5, 1));
          const ids: number[][] = all.map(() => []);
          for (const [rank, { made }] of all.entries())
            made.on('tick', ({ tickId }) => ids[rank]!.push(tickId));
          await Promise.all(all.map(({ made }) => made.run({ ticks: 1 })));
          expect(ids).to.deep.equal(all.map(() => [5]));
        },
      );

      rest(
        'other ranks continue to their next average when a rank ends between two averages',
        async () => {
          const all = await learners(2, 3, { placement });
          const values = [0, 1].map(() => vector(0));
          expect(
            await endings([all[0]!.made.run({ ticks: 4 }), all[1]!.made.run({ ticks: 9 })]),
          ).to.deep.equal([
            { ended: 'ticks', ticks: 4 },
            { ended: { rank: 0, why: 'ticks' }, ticks: 6 },
          ]);
          for (let tick = 0; tick < 3; tick++) updateAll(values);
          average(values);
          update(0, values[0]!);
          for (let tick = 0; tick < 3; tick++) update(1, values[1]!);
          average(values);
          expect(await read(all)).to.deep.equal(values);
          // The next average is three ticks later.
          await endings(all.map(({ made }) => made.run({ ticks: 3 })));
          for (let tick = 0; tick < 3; tick++) updateAll(values);
          average(values);
          expect(await read(all)).to.deep.equal(values);
        },
      );

      it('all ranks end with equal parameters when the signal of a rank aborts', async () => {
        const all = await learners(2, 1, { placement });
        const abort = new AbortController();
        const runs = all.map(({ made }, rank) =>
          made.run(rank === 1 ? { signal: abort.signal } : {}),
        );
        while (all[0]!.made.inspect().finished < 5) await new Promise(setImmediate);
        abort.abort();
        const [a, b] = await endings(runs);
        expect([a!.ended, b!.ended]).to.deep.equal([{ rank: 1, why: 'aborted' }, 'aborted']);
        // Rank 1 may have no free slot for the last tick of rank 0. Both still average after that
        // tick.
        expect(a!.ticks - b!.ticks).to.be.within(0, 1);
        const [x, y] = await read(all);
        expect(x).to.deep.equal(y);
      });

      onlyOn(
        'inline',
        placement,
        itLonger,
      )('both ranks end when the signal that they share aborts', async () => {
        for (let round = 0; round < setting({ short: 1, all: 8, long: 30 }); round++) {
          const all = await learners(2, 1, { placement });
          const abort = new AbortController();
          const runs = all.map(({ made }) => made.run({ signal: abort.signal }));
          while (all[0]!.made.inspect().finished < 1 + round) await new Promise(setImmediate);
          abort.abort();
          const [a, b] = await Promise.all(runs);
          for (const { ended } of [a!, b!])
            expect(typeof ended === 'string' ? ended : ended.why, JSON.stringify(ended)).to.equal(
              'aborted',
            );
          const [x, y] = await read(all);
          if (a!.ticks === b!.ticks) expect(x).to.deep.equal(y);
          await closeAll();
        }
      });

      rest('a manual tick of one rank is not counted and ends no run', async () => {
        const all = await learners(2, 3, { placement });
        await endings(all.map(({ made }) => made.run({ ticks: 1 })));
        await all[0]!.made.sampleLargeBatch(1, 16);
        all[0]!.made.afterTick();
        expect(await endings(all.map(({ made }) => made.run({ ticks: 2 })))).to.deep.equal(
          all.map(() => ({ ended: 'ticks', ticks: 2 })),
        );
        expect(await read(all)).to.deep.equal(expected(2, 3, 3));
      });
    });
  }

  itLonger(
    'a waiting rank ends when its signal aborts, and the next average makes parameters equal',
    async () => {
      const [a, b] = await learners(2, 1);
      const abort = new AbortController();
      const running = a!.made.run({ signal: abort.signal });
      await waits(a!);
      abort.abort();
      expect(await running).to.deep.include({ ticks: 1, ended: 'aborted', aborted: true });
      expect(a!.group.waitingFor()).to.equal('');
      // The other rank reaches the exchange that was ended.
      expect(await b!.made.run({ ticks: 9 })).to.deep.include({
        ticks: 1,
        ended: { rank: 0, why: 'aborted' },
      });
      const values = [vector(0), vector(0)];
      updateAll(values);
      expect(await read([a!, b!])).to.deep.equal(values);
      // The next average makes the parameters equal again.
      expect(await endings([a!, b!].map(({ made }) => made.run({ ticks: 1 })))).to.deep.equal(
        [a!, b!].map(() => ({ ended: 'ticks', ticks: 1 })),
      );
      updateAll(values);
      average(values);
      expect(await read([a!, b!])).to.deep.equal(values);
    },
  );

  itLonger(
    'a rank that waits for an average after its last tick ends when its signal aborts',
    async () => {
      const [a, b] = await learners(2, 3);
      const abort = new AbortController();
      const running = a!.made.run({ ticks: 2, signal: abort.signal });
      await waits(a!);
      abort.abort();
      expect(await running).to.deep.include({ ticks: 2, ended: 'ticks', aborted: false });
      expect(await b!.made.run({ ticks: 7 })).to.deep.include({
        ticks: 3,
        ended: { rank: 0, why: 'ticks' },
      });
    },
  );

  itLonger(
    'a run whose signal was aborted before the call ends the runs of other ranks',
    async () => {
      const [a, b] = await learners(2, 1);
      expect(await a!.made.run({ signal: AbortSignal.abort() })).to.deep.include({
        ticks: 0,
        ended: 'aborted',
      });
      expect(await b!.made.run({ ticks: 3 })).to.deep.include({
        ticks: 1,
        ended: { rank: 0, why: 'aborted' },
      });
      await endings([a!, b!].map(({ made }) => made.run({ ticks: 2 })));
      const [x, y] = await read([a!, b!]);
      expect(x).to.deep.equal(y);
    },
  );

  itLonger(
    'closing a pipeline ends the runs of other ranks, whether the pipeline waits or ticks',
    async () => {
      for (const wait of [true, false]) {
        const [a, b] = await learners(2, 1);
        const first = rejection(a!.made.run());
        let second: Promise<unknown> | undefined;
        if (wait) await waits(a!);
        else {
          second = b!.made.run();
          while (a!.made.inspect().finished < 5) await new Promise(setImmediate);
        }
        await a!.made.close();
        expect(await first).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
        expect(await (second ?? b!.made.run())).to.deep.include({
          ended: { rank: 0, why: 'stopped' },
        });
      }
    },
  );

  itLonger('closing the group of either rank ends the runs of both ranks', async () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const all = await learners(2, 1);
      const runs = all.map(({ made }) => made.run());
      while (all[0]!.made.inspect().finished < 5) await new Promise(setImmediate);
      all[order[0]!]!.group.close();
      const [a, b] = await Promise.all(runs);
      expect([a, b][order[0]!]!.ended).to.equal('stopped');
      expect([a, b][order[1]!]!.ended).to.deep.equal({ rank: order[0], why: 'stopped' });
      expect(await rejection(all[order[1]!]!.made.run({ ticks: 3 }))).to.include({
        code: 'ERR_HOTSLOT_STATE_CLOSED',
      });
      all[order[1]!]!.group.close();
    }
  });

  itLonger(
    'a listener that throws rejects its own run and ends the runs of other ranks',
    async () => {
      const [a, b] = await learners(2, 1);
      a!.made.on('tick', ({ tickId }) => {
        if (tickId === 3) throw new Error('out of eggs');
      });
      const [error, other] = await Promise.all([rejection(a!.made.run()), b!.made.run()]);
      expect(error.message).to.equal('out of eggs');
      expect(other.ended).to.deep.equal({ rank: 0, why: 'stopped' });
      const [x, y] = await read([a!, b!]);
      expect(x).to.deep.equal(y);
    },
  );

  itLonger('LearnerGroup.fail() rejects the runs of all ranks with the cause', async () => {
    const [a, b] = await learners(2, 1);
    b!.made.on('error', () => {});
    const errors = [a!, b!].map(({ made }) => rejection(made.run()));
    while (a!.made.inspect().finished < 5) await new Promise(setImmediate);
    b!.group.fail(new Error('out of eggs'));
    for (const error of await Promise.all(errors)) expect(error.message).to.contain('out of eggs');
  });

  itLonger('all ranks end when the signal of a rank that waits for rows aborts', async () => {
    const [group, other] = await join(2);
    const [a, b] = [await learner(group!, 1), await learner(other!, 1, { buffer: filled(0) })];
    const [first, second] = [new AbortController(), new AbortController()];
    const runs = [a.made.run({ signal: first.signal }), b.made.run({ signal: second.signal })];
    await waits(a);
    second.abort();
    expect(await endings(runs)).to.deep.equal([
      { ended: { rank: 1, why: 'aborted' }, ticks: 1 },
      { ended: 'aborted', ticks: 0 },
    ]);
    const [x, y] = await read([a, b]);
    expect(x).to.deep.equal(y);
  });

  itLonger('exchange numbers continue past 2³¹ and 2³²', async () => {
    for (const number of setting({
      short: [2 ** 31, 2 ** 32],
      all: [2 ** 30, 2 ** 31, 2 ** 32, 2 ** 40],
    })) {
      const before = number - 4;
      const shared = layOutGroup({ ranks: 2, parameters: PARAMETERS }, null, before);
      const groups = await Promise.all([0, 1].map((rank) => LearnerGroup.join({ shared, rank })));
      keep(...groups);
      const all = await Promise.all(groups.map((group) => learner(group, 1)));
      await endings(all.map(({ made }) => made.run({ ticks: 9 })));
      expect(groups.map(({ exchanges }) => exchanges)).to.deep.equal([before + 9, before + 9]);
      const [x, y] = await read(all);
      expect(x).to.deep.equal(y);
      await closeAll();
    }
  });

  /** Makes two ranks of one thread, and a function that starts a run's exchange for one of them. */
  function twoRanks() {
    const shared = layOutGroup({ ranks: 2, parameters: 1 }, null);
    const ranks = [0, 1].map((rank) => new GroupRank(shared, rank));
    for (const { words, rank } of ranks) words.claim(rank);
    const start = (each: GroupRank) => each.start(Purpose.average, Float32Array.of(each.rank), 1);
    const [a, b] = ranks as [GroupRank, GroupRank];
    return { ranks, a, b, start };
  }

  it('a group that another thread closes during an exchange ends the run without a failure', () => {
    const moments = ['before settle()', 'before start()', 'before look()'] as const;
    for (const moment of moments) {
      const { a, b, start } = twoRanks();
      const closing = (now: string) => moment === now && a.words.leave(a.rank, RankState.closed);
      const stopped = { rank: 0, why: Ending.stopped };
      closing('before settle()');
      const settled = a.settle(true);
      if (moment === 'before settle()') expect(settled).to.deep.equal(stopped);
      else {
        expect(settled).to.equal(true);
        closing('before start()');
        start(a);
        closing('before look()');
        expect(a.advance()).to.equal(true);
        expect(a.outcome()).to.deep.equal({ averages: false, ended: stopped });
      }
      start(b);
      expect(b.advance()).to.equal(true);
      expect(b.outcome(), moment).to.deep.equal({ averages: false, ended: stopped });
      expect(refusal(() => a.start(Purpose.average, Float32Array.of(0), 0)).message).to.include(
        'rank 0 has left',
      );
    }
  });

  it('no rank averages an ended exchange, and endExchange() returns false for a taken exchange', () => {
    const { ranks, a, b, start } = twoRanks();
    start(a);
    expect(a.advance()).to.equal(false);
    expect(a.endExchange(1, 2)).to.equal(true);
    start(b);
    for (const each of ranks) {
      expect(each.advance()).to.equal(true);
      expect(each.outcome()).to.deep.equal({ averages: false, ended: { rank: 0, why: 2 } });
      each.leave();
      expect(each.settle(true)).to.equal(true);
      start(each);
    }
    expect(b.advance()).to.equal(true);
    expect(a.endExchange(2, 2)).to.equal(false);
    expect(a.advance()).to.equal(true);
    for (const each of ranks) expect(each.outcome()).to.deep.equal({ averages: true, ended: null });
  });
});
