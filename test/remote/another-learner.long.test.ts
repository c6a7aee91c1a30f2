/**
 * Tests a learner that is killed and the next learner of its run: from which rows it continues, and
 * which learners a host accepts.
 */
import { expect } from 'chai';
import { type ReplayBuffer, WeightMailbox } from '../../src/index.ts';
import { differenceOf, type RunInfo } from '../../src/net/remote/info.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { layoutText } from '../../src/net/remote/layout.ts';
import type { RemoteStatistics } from '../../src/net/remote/reports.ts';
import { withFastFolder } from '../rig/fast-folder.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import {
  bufferOf,
  host,
  learn,
  leash,
  newRun,
  RunChild,
  sharedServer,
  untilAsked,
} from './runs.ts';

describe('the next learner of a run', () => {
  const shared = sharedServer();

  itAll(
    'restores the checkpoint of a killed learner, repeats no row and counts the lost rows',
    () =>
      withFastFolder(async (folder) => {
        const run = newRun();
        const first = await RunChild.open('learner', { url: shared.url, run, folder });
        const { entry, to } = leash();
        to(1000);
        const names = ['ann', 'bob'];
        const machines = await Promise.all(
          names.map((name) =>
            host({ url: shared.url, run, entry, name, flushBytes: 1024, outboxBytes: 2 ** 14 }),
          ),
        );
        const told = () => machines.map((machine) => machine.statistics());
        const reached = (rows: number) =>
          untilAsked('rows come', () => told().every(({ acknowledged }) => acknowledged >= rows));
        await reached(300);
        await first.ask('save');
        await reached(1000);
        // The learner is killed while further rows arrive.
        to(20_000);
        await reached(1500);
        first.signal('SIGKILL');
        await untilAsked('it is gone', () => first.process.signalCode !== null);
        // Deletes the killed learner's lease, as if it had expired.
        await shared.client.del(keysOf(run).learner);
        const second = await RunChild.open('learner', { url: shared.url, run, folder });
        await reached(20_000);
        const numbers = await second.ask<Map<string, number[]>>('numbers');
        expect(numbers.size).to.equal(2);
        let lost = 0;
        for (const [who, found] of numbers) {
          const kept = found.findIndex((number, at) => number !== at);
          const base = found[kept]!;
          expect(kept, `rows of ${who} in the checkpoint`).to.be.within(300, 1000);
          expect(base, `first row of ${who} after it`).to.be.at.least(1500);
          const all = [
            ...Array(kept).keys(),
            ...Array.from({ length: 20_000 - base }, (_, i) => base + i),
          ];
          expect(found, who).to.deep.equal(all);
          lost += base - kept;
        }
        const counted = () => second.ask<RemoteStatistics>('statistics');
        await untilAsked('it is told', async () => (await counted()).lost > 0);
        expect(await counted()).to.include({ lost, refused: 0, stale: 0 });
      }),
  );

  itAll('ends a host that was opened for weights of another length', async () => {
    const run = newRun();
    const buffer = bufferOf('rows') as ReplayBuffer;
    const first = await learn({
      url: shared.url,
      run,
      buffer,
      mailbox: WeightMailbox.create({ length: 4 }),
    });
    const { entry, to } = leash();
    to(10);
    const machine = await host({ url: shared.url, run, entry });
    await untilAsked('its rows are in', () => machine.statistics().acknowledged === 10);
    await first.close();
    await learn({ url: shared.url, run, buffer, mailbox: WeightMailbox.create({ length: 5 }) });
    to(20);
    const error = await rejection(machine.done);
    expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
    expect(error.message).to.equal(
      'another learner has the run: it has weights of length 5, and this host was opened for 4; restart this host',
    );
  });

  it('differs by differenceOf() in layout, shards or options, but not in epoch or seed', () => {
    const [rows, steps] = [bufferOf('rows'), bufferOf('steps')].map((buffer) =>
      layoutText(buffer),
    ) as [string, string];
    const mine: RunInfo = {
      epoch: 1,
      layout: rows,
      weights: 4,
      options: { a: 1 },
      seed: 0,
      shards: 1,
    };
    const to = (more: Partial<RunInfo>) => differenceOf(mine, { ...mine, ...more });
    expect(to({ epoch: 2, seed: 5, options: { a: 1 } })).to.equal(null);
    expect(to({ layout: steps })).to.match(/^it has rows of obs .* opened for value float64\[4\]$/);
    expect(to({ shards: 2 })).to.equal('it has shards: 2, and this host was opened for 1');
    expect(to({ options: { a: 2 } })).to.equal(
      'it has options {"a":2}, and this host was opened for {"a":1}',
    );
    expect(to({ options: { a: 'x'.repeat(900) } })!.length).to.be.below(300);
  });

  itAll(
    'opens from `resume` with the same `shards`, and rejects another number of shards',
    async () => {
      const buffer = bufferOf('rows');
      const resume = { kind: 'hotslot.RemoteCollectors.state', shards: 2, marks: [] };
      const error = await rejection(
        learn({ url: shared.url, run: newRun(), buffer, resume, shards: 3 }),
      );
      expect(error).to.include({ code: 'ERR_HOTSLOT_RANGE' });
      expect(error.message).to.match(
        /^shards must be 2, as in the run that resume is from, got 3$/,
      );
      await learn({ url: shared.url, run: newRun(), buffer, resume, shards: 2 });
    },
  );
});
