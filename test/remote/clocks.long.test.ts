/**
 * Tests wall clocks that are wrong or jump. Rows must arrive once, live hosts must count as live,
 * and dead hosts must soon count as silent.
 */
import { expect } from 'chai';
import type { RemoteStatistics } from '../../src/net/remote/reports.ts';
import { WatchedHosts } from '../../src/net/remote/watched-hosts.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';
import { keys, MemoryHost, MemoryLearner } from './protocol.ts';
import { host, leash, newRun, RunChild, sharedServer, untilAsked } from './runs.ts';

const HOUR = 3_600_000;

describe('wall clocks of learner and hosts', () => {
  it('a host stays live when the wall clock of its learner jumps by an hour', async () => {
    const server = new MemoryServer();
    const learner = new MemoryLearner(server, { epoch: 3, capacity: 100 });
    const machine = new MemoryHost(server, 0);
    const link = new MemoryLink(server);
    const { now } = Date;
    try {
      await link.connect({});
      machine.outbox.make(4);
      await until('its rows are in', () => machine.done);
      const hosts = new WatchedHosts({ link, keys, ingest: learner.ingest });
      const begin = now();
      for (const ahead of [0, HOUR, -HOUR]) {
        Date.now = () => now() + ahead;
        expect(await hosts.read(), `${ahead} ms ahead`).to.equal(1);
        const [{ state, silentMs, since } = {}] = hosts.status();
        expect([state, silentMs! >= 0 && silentMs! < HOUR / 60]).to.deep.equal(['live', true]);
        // `since` follows the wall clock after the jump.
        expect(since! - begin - ahead).to.be.within(-HOUR / 60, HOUR / 60);
      }
    } finally {
      Date.now = now;
      await link.close();
      await machine.close();
      await learner.end();
    }
  });

  describe('in separate processes', () => {
    const shared = sharedServer();

    itAll(
      'offsets and jumps of an hour end no host, and a killed host becomes silent',
      async () => {
        const { url } = shared;
        const run = newRun();
        const learner = await RunChild.open('learner', { url, run, ahead: 0 });
        const machine = (name: string, ahead: number) =>
          RunChild.open('host', { url, run, name, ahead, limit: 1000 });
        const machines = await Promise.all([
          machine('ann', HOUR),
          machine('bob', -HOUR),
          machine('cid', 0),
        ]);
        let told: RemoteStatistics | null = null;
        const untilTold = (what: string, met: (told: RemoteStatistics) => boolean) =>
          untilAsked(
            what,
            async () => {
              told = await learner.ask<RemoteStatistics>('statistics');
              return met(told);
            },
            { tell: () => JSON.stringify(told) },
          );
        await untilTold('all is in', ({ rows }) => rows === 3000);
        let hosts = machines.length;
        for (const ahead of [HOUR, -HOUR]) {
          learner.tell({ ahead });
          // The hosts have no rows to send. A new host that joins after the jump shows that the
          // learner has checked all hosts since.
          await host({ url, run, entry: leash().entry, name: `after ${ahead}` });
          hosts++;
          await untilTold(`${hosts} are there`, (now) => now.hosts === hosts && now.silent === 0);
        }
        const [ann, bob] = machines;
        bob.signal('SIGKILL');
        await untilTold('one is silent', (now) => now.hosts === hosts - 1 && now.silent === 1);
        ann.tell({ limit: 2000, ahead: -HOUR });
        await untilTold('the others go on', ({ rows }) => rows === 4000);
        const numbers = await learner.ask<Map<string, number[]>>('numbers');
        const counts = [...numbers.values()].map(
          (found) => found.every((number, i) => number === i) && found.length,
        );
        expect(counts.sort()).to.deep.equal([1000, 1000, 2000]);
        expect(told).to.include({ lost: 0, refused: 0, duplicates: 0, gaps: 0 });
      },
    );
  });
});
