/**
 * Tests learner groups in threads of one process, whose parameters stay equal: exchanges by the
 * caller, and pipelines that average.
 */
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { GroupRank } from '../../src/engine/group/group-rank.ts';
import { LETTER_BYTES, routeOf, strideOf } from '../../src/engine/group/group-shared.ts';
import { Purpose } from '../../src/engine/group/letter.ts';
import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import { openDevice, type ReplayPipeline, WeightMailbox } from '../../src/index.ts';
import { closeAll, pipeline } from '../pipeline/fixture.ts';
import { workersOf } from '../pipeline/inside.ts';
import { onlyOn, placements } from '../pipeline/placements.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import {
  closeGroups,
  expected,
  join,
  keep,
  learner,
  PARAMETERS,
  read,
  vector,
} from './learners.ts';

describe('LearnerGroup', function () {
  this.timeout(setting({ short: 60_000, all: 300_000 }));
  afterEach(async () => {
    await closeAll();
    closeGroups();
  });

  it('average() writes the mean of all ranks in each exchange', async () => {
    for (const ranks of [1, 2, 3, 4]) {
      const all = await join(ranks);
      const values = all.map(({ rank }) => vector(rank));
      for (let exchange = 1; exchange <= 5; exchange++) {
        await Promise.all(all.map((group, rank) => group.average(values[rank] as Float32Array)));
        const mean = Float32Array.from({ length: PARAMETERS }, (_, i) => 32 * (ranks - 1) + i);
        for (const each of values) expect(each).to.deep.equal(mean);
        expect(all.map((group) => group.exchanges)).to.deep.equal(all.map(() => exchange));
        for (const [rank, each] of values.entries()) each.set(vector(rank));
      }
    }
  });

  it('average() adds in the order of ranks, so that all ranks have the same bits', async () => {
    const all = await join(3, 1000);
    const values = all.map(({ rank }) =>
      Float32Array.from({ length: 1000 }, (_, i) => Math.sin(i * 7.1 + rank) * 10 ** ((i % 9) - 4)),
    );
    const expected = Float32Array.from({ length: 1000 }, (_, i) => {
      const [a, b, c] = values.map((each) => each[i] as number) as [number, number, number];
      return (a + b + c) / 3;
    });
    await Promise.all(all.map((group, rank) => group.average(values[rank] as Float32Array)));
    for (const each of values) expect(each).to.deep.equal(expected);
  });

  it('broadcast() returns the state of rank 0 for several dtypes and lengths', async () => {
    const all = await join(3, 4);
    const state = (rank: number) => ({
      weights: { dtype: 'float32' as const, shape: [9], data: vector(rank, 9) },
      count: { dtype: 'int32' as const, shape: [2], data: Int32Array.of(rank, -rank) },
      clock: { dtype: 'float64' as const, shape: [1], data: Float64Array.of(Math.PI * (rank + 1)) },
    });
    const got = await Promise.all(all.map((group, rank) => group.broadcast(state(rank))));
    for (const each of got) expect(each).to.deep.equal(state(0));
    expect(all[0]!.exchanges).to.equal(Math.ceil((4 * 9 + 8 + 8) / 4 / 4));
  });

  describe('in pipelines', () => {
    const device = () => openDevice(TESTED);

    for (const [name, placement] of Object.entries(placements))
      for (const [ranks, every] of [
        [2, 1],
        [4, 1],
        [2, 3],
      ] as const)
        (ranks + every === 3 ? it : onlyOn('inline', placement))(
          `${ranks} learners average every ${every} ticks across several runs (${name})`,
          async () => {
            const all = await Promise.all(
              (await join(ranks)).map((group) => learner(group, every, { placement })),
            );
            let ticks = 0;
            for (const more of [1, 4, 3]) {
              const summaries = await Promise.all(all.map(({ made }) => made.run({ ticks: more })));
              ticks += more;
              expect(summaries.map((summary) => summary.ticks)).to.deep.equal(all.map(() => more));
              expect(await read(all)).to.deep.equal(expected(ranks, ticks, every));
            }
          },
        );

    itLonger('learners publish the averaged weights', async () => {
      const boxes = [0, 1].map(() => WeightMailbox.create({ length: PARAMETERS }));
      const all = await Promise.all(
        (await join(2)).map((group, rank) => learner(group, 1, { mailbox: boxes[rank]! })),
      );
      await Promise.all(all.map(({ made }) => made.run({ ticks: 6, publishEvery: 2 })));
      for (const box of boxes) {
        expect(box.published).to.equal(3);
        const weights = new Float32Array(PARAMETERS);
        expect(box.read(weights)).to.equal(3);
        expect(weights).to.deep.equal(expected(2, 6, 1)[0]);
      }
    });

    itLonger('a learner that is alone in its group makes no exchange', async () => {
      const [group] = await join(1);
      const one = await learner(group!, 1);
      await one.made.run({ ticks: 5 });
      expect(group!.exchanges).to.equal(0);
      expect(await one.parameters.toArray()).to.deep.equal(expected(1, 5, 1)[0]);
    });

    itLonger('a learner waits for an absent rank, and waitingFor() names the rank', async () => {
      const [first, second] = await join(2);
      const [a, b] = await Promise.all([first!, second!].map((group) => learner(group, 1)));
      const running = a!.made.run({ ticks: 3 });
      while (
        a!.made.waitingFor() !== 'rank 1, which has not come to exchange 1 of the learner group'
      )
        await new Promise(setImmediate);
      expect(second!.waitingFor()).to.equal('');
      await Promise.all([running, b!.made.run({ ticks: 3 })]);
      expect(a!.made.waitingFor()).to.not.contain('group');
    });

    itLonger('an aborted run ends after the ticks that have slots are averaged', async () => {
      const all = await Promise.all((await join(2)).map((group) => learner(group, 1)));
      const [a, b] = all;
      const abort = new AbortController();
      const running = a!.made.run({ ticks: 1000, signal: abort.signal });
      const full = () => a!.made.inspect().slots.every(({ state }) => state !== 'Free');
      while (!a!.made.waitingFor().includes('rank 1') || !full()) await new Promise(setImmediate);
      abort.abort();
      const depth = a!.made.inspect().slots.length;
      expect((await b!.made.run({ ticks: depth })).ticks).to.equal(depth);
      expect(await running).to.include({ ticks: depth, aborted: true });
      expect(await read(all)).to.deep.equal(expected(2, depth, 1));
    });

    itLonger('run() rejects with the cause when another rank fails', async () => {
      const [a, b] = await Promise.all((await join(2)).map((group) => learner(group, 1)));
      await Promise.all([a!.made.run({ ticks: 3 }), b!.made.run({ ticks: 3 })]);
      const first = rejection(a!.made.run({ ticks: 1000 }));
      while (!a!.made.waitingFor().includes('rank 1')) await new Promise(setImmediate);
      b!.group.fail(new Error('out of eggs'));
      const error = await first;
      expect(error).to.include({ actor: 'poll' });
      expect(error.message).to.contain(
        'rank 1 of the learner group failed in exchange 3: out of eggs',
      );
      expect((await rejection(b!.made.run({ ticks: 1 }))).message).to.contain('out of eggs');
    });

    itLonger('close() ends a pipeline that waits for another rank', async () => {
      const [a] = await Promise.all((await join(2)).map((group) => learner(group, 1)));
      const running = rejection(a!.made.run({ ticks: 5 }));
      while (a!.made.waitingFor() === 'nothing') await new Promise(setImmediate);
      await a!.made.close();
      expect(await running).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
    });

    it('capture() throws and open() rejects when options do not fit a group', async () => {
      const [group] = await join(2);
      const on = device();
      const [few, many, doubles] = [
        on.allocate({ shape: [PARAMETERS] }),
        on.allocate({ shape: [PARAMETERS + 1] }),
        on.allocate({ shape: [2], dtype: 'float64' }),
      ];
      const placement = 'inline';
      const [alone, grouped] = [
        await pipeline({ placement }),
        await pipeline({ placement, group: group! }),
      ];
      const say = (made: ReplayPipeline, options: object) =>
        refusal(() => made.capture(() => {}, options)).message;
      expect(say(alone, { sync: 'parameters', parameters: [few] })).to.contain(
        'opened with a group',
      );
      expect(say(alone, { parameters: [few] })).to.contain(
        "the option parameters needs sync: 'parameters'",
      );
      expect(say(grouped, {})).to.contain("capture() takes sync: 'parameters'");
      expect(say(grouped, { sync: 'gradients' })).to.contain("sync can be 'parameters'");
      expect(say(grouped, { sync: 'parameters' })).to.contain('1 to 8 tensors');
      expect(say(grouped, { sync: 'parameters', parameters: [many] })).to.contain(
        '6 values, the group averages 5',
      );
      expect(say(grouped, { sync: 'parameters', parameters: [doubles] })).to.contain(
        'contiguous float32',
      );
      expect(say(grouped, { sync: 'parameters', parameters: [few], every: 0 })).to.contain('every');
      expect((await rejection(pipeline({ group: {} as never }))).message).to.contain(
        'must be a LearnerGroup',
      );
    });

    itLonger('run() rejects and names both ranks when the values of every differ', async () => {
      const made = await join(2);
      const all = await Promise.all(made.map((group, rank) => learner(group, rank + 1)));
      const errors = await Promise.all(all.map(({ made }) => rejection(made.run({ ticks: 4 }))));
      for (const error of errors)
        expect(error.message).to.match(
          /rank \d averages 5 parameters every \d ticks where rank \d averages 5 parameters/,
        );
    });

    itLonger(
      'a thread that ends at any moment is replaced, or both runs reject, and no average repeats',
      async function () {
        const came = { replaced: 0, told: 0 };
        for (let round = 0; round < setting({ short: 1, all: 4, long: 40 }); round++) {
          const made = await join(2);
          const all = await Promise.all(
            made.map((group) => learner(group, 1, { restart: 3, placement: 'auto' })),
          );
          const runs = all.map(({ made }) => made.run({ ticks: 300 }));
          const outcomes = Promise.allSettled(runs);
          await new Promise((resolve) => setTimeout(resolve, 5 + ((round * 7.3) % 40)));
          // Terminates the thread of the device roles, in which poll averages.
          await workersOf(all[0]!.made)[1]?.terminate();
          const [a, b] = await outcomes;
          expect(a!.status).to.equal(b!.status);
          if (a!.status === 'fulfilled') {
            came.replaced++;
            expect(made.map((group) => group.exchanges)).to.deep.equal([300, 300]);
            const [x, y] = await read(all);
            expect(x).to.deep.equal(y);
          } else {
            came.told++;
            for (const each of [a, b])
              expect(String((each as PromiseRejectedResult).reason)).to.match(
                /under way, or its thread ended in it/,
              );
          }
          await closeAll();
        }
        this.test!.title += `: ${came.replaced} replaced, ${came.told} told`;
      },
    );

    itLonger('learners keep equal parameters over many ticks', async () => {
      const made = await join(2);
      const all = await Promise.all(made.map((group) => learner(group, 1)));
      const ticks = setting({ short: 300, all: 2500, long: 5000 });
      await Promise.all(all.map(({ made }) => made.run({ ticks })));
      const [a, b] = await read(all);
      expect(a).to.deep.equal(b);
    });

    itAll('run() rejects at exchange 1000 when a device does not have the average', async () => {
      const runs = (await join(2)).map(async (group) => {
        const on = device();
        const [a, b, step] = [1, 2, 3].map((value) =>
          on.allocate({ shape: [1] }).write(Float32Array.of(value)),
        );
        await on.currentStream.synchronize();
        const made = await pipeline({ group });
        made.capture(
          (_, { stream }) => {
            stream.launch('axpby', { tensors: [a!, step!], wholes: [1], reals: [1, 0.5] });
          },
          // Rank 0 passes the same tensor twice, so it is averaged twice.
          { sync: 'parameters', parameters: group.rank === 0 ? [a!, a!] : [a!, b!] },
        );
        expect((await made.run({ ticks: 998 })).ticks).to.equal(998);
        return made.run({ ticks: 4 });
      });
      for (const error of await Promise.all(runs.map(rejection)))
        expect(error.message).to.match(
          /the mean before exchange 1000 was not the same for rank \d/,
        );
    });
  });

  describe('errors', () => {
    it('average() throws at exchange 1000 when two ranks have different bits', async () => {
      const shared = shareLearnerGroup({ ranks: 2, parameters: 2 });
      const joined = await Promise.all([0, 1].map((rank) => LearnerGroup.join({ shared, rank })));
      keep(...joined);
      const second = joined[1];
      const ranks = [0, 1].map((rank) => new GroupRank(shared, rank));
      const values = ranks.map(({ rank }) => Float32Array.of(rank, 1));
      const exchange = (between: () => void) => {
        for (const [rank, each] of ranks.entries()) each.start(Purpose.average, values[rank]!, 1);
        for (const each of ranks) expect(each.advance()).to.equal(true);
        between();
      };
      for (let n = 1; n < 1000; n++) {
        exchange(() => {
          // Changes the value that rank 1 sent to rank 0 after it was sent.
          const half = (2 * routeOf(2, 0, 1) + (n % 2)) * strideOf(2);
          if (n === 999)
            new Float32Array(shared.data.memory, shared.data.offset + half + LETTER_BYTES, 2)[1]! +=
              1e-3;
        });
        for (const [rank, each] of ranks.entries()) {
          each.average(values[rank]!);
          each.finish();
        }
      }
      expect(values[0]).to.not.deep.equal(values[1]);
      exchange(() => {});
      const [first] = ranks;
      expect(refusal(() => first!.average(values[0]!)).message).to.contain(
        'the mean before exchange 1000 was not the same for rank 1',
      );
      expect((await rejection(second!.average(values[1]!))).message).to.contain(
        'rank 0 of the learner group failed',
      );
    });

    it('average() rejects permanently after the thread of another rank has ended', async () => {
      const shared = shareLearnerGroup({ ranks: 2, parameters: 3 });
      const group = await LearnerGroup.join({ shared, rank: 0 });
      keep(group);
      const door = new URL('../../src/entries/ranks.js', import.meta.url).href;
      const worker = new Worker(
        `import { parentPort, workerData } from 'node:worker_threads';
         const { LearnerGroup } = await import(${JSON.stringify(door)});
         const group = await LearnerGroup.join({ shared: workerData, rank: 1 });
         const values = new Float32Array(3);
         for (;;) { await group.average(values); parentPort.postMessage(group.exchanges); }`,
        { eval: true, workerData: shared },
      );
      const values = Float32Array.of(2, 4, 6);
      await group.average(values);
      expect(values).to.deep.equal(Float32Array.of(1, 2, 3));
      const ended = rejection(
        (async () => {
          for (;;) await group.average(values);
        })(),
      );
      await worker.terminate();
      expect(await ended).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
      // Later calls also reject.
      expect(await rejection(group.average(values))).to.include({
        code: 'ERR_HOTSLOT_THREAD_LOST',
      });
    });

    it('average() rejects when another rank averages another length or broadcasts', async () => {
      const [a, b] = await join(2);
      const errors = await Promise.all([
        rejection(a!.average(new Float32Array(2))),
        rejection(b!.average(new Float32Array(3))),
      ]);
      for (const error of errors)
        expect(error.message).to.match(/rank \d averages [23] parameters .* where rank \d/);
      const [c, d] = await join(2);
      const data = Float32Array.of(1);
      const others = await Promise.all([
        rejection(c!.average(new Float32Array(1))),
        rejection(d!.broadcast({ x: { dtype: 'float32', shape: [1], data } })),
      ]);
      expect(others.some((error) => /broadcasts 1 parameters/.test(error.message))).to.equal(true);
    });

    it('an aborted average() fails the group', async () => {
      const [a, b] = await join(2);
      const waiting = rejection(a!.average(vector(0), { signal: AbortSignal.timeout(1) }));
      expect(await waiting).to.include({ name: 'TimeoutError' });
      expect((await rejection(b!.average(vector(1)))).message).to.contain(
        'rank 0 of the learner group failed in exchange 1',
      );
    });

    it('shareLearnerGroup(), join(), average() and broadcast() reject invalid arguments', async () => {
      expect(refusal(() => shareLearnerGroup({ ranks: 0, parameters: 1 })).message).to.contain(
        'ranks',
      );
      expect(
        refusal(() => shareLearnerGroup({ ranks: 2, parameters: 2 ** 30 })).message,
      ).to.contain('at most');
      expect(
        refusal(() => shareLearnerGroup({ ranks: 2, parameters: 1, rank: 0 } as never)).message,
      ).to.contain('rank');
      const shared = shareLearnerGroup({ ranks: 2, parameters: 1 });
      const group = await LearnerGroup.join({ shared, rank: 0 });
      keep(group);
      expect(await rejection(LearnerGroup.join({ shared, rank: 0 }))).to.include({
        code: 'ERR_HOTSLOT_STATE_BUSY',
      });
      expect((await rejection(LearnerGroup.join({ shared, rank: 2 }))).message).to.contain(
        'at most 1',
      );
      expect(
        (await rejection(LearnerGroup.join({ shared: {} as never, rank: 0 }))).message,
      ).to.contain('shareLearnerGroup()');
      expect((await rejection(group.average([1] as never))).message).to.contain('Float32Array');
      expect((await rejection(group.average(new Float32Array(2)))).message).to.contain(
        '1 parameters at most',
      );
      expect((await rejection(group.broadcast(null as never))).message).to.contain('state()');
      group.close();
      group.close();
      expect((await rejection(group.average(new Float32Array(1)))).message).to.contain('has left');
      expect(await rejection(LearnerGroup.join({ shared, rank: 0 }))).to.include({
        code: 'ERR_HOTSLOT_STATE_BUSY',
      });
    });
  });
});
