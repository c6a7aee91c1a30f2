/**
 * Tests threads that end, and processes that die or are suspended. Every row of a live host must be
 * stored exactly once.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'chai';
import { keysOf } from '../../src/net/remote/keys.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLong, itLonger, setting } from '../rig/setting.ts';
import type { ChildOptions } from './run-child.ts';
import {
  bufferOf,
  closeAll,
  expectWhole,
  host,
  learn,
  leash,
  newRun,
  numbersIn,
  RunChild,
  seedOf,
  sharedServer,
  untilAsked,
} from './runs.ts';
import { startServer } from './server.ts';

describe('remote collectors during faults', () => {
  const shared = sharedServer();

  const child = (role: 'learner' | 'host', options: ChildOptions) => RunChild.open(role, options);

  for (const kind of ['rows', 'steps'] as const)
    (kind === 'rows' ? itAll : itLong)(
      `the learner replaces a thread that ends repeatedly while ${kind} arrive`,
      async () => {
        const run = newRun();
        const buffer = bufferOf(kind, 2);
        const remote = await learn({ url: shared.url, run, buffer });
        const { entry, to } = leash();
        const machine = await host({
          url: shared.url,
          run,
          entry,
          name: 'ann',
          workers: 2,
          flushBytes: 1024,
        });
        const [KILLS, MORE] = [5, setting({ short: 4000, all: 4000, long: 30_000 })];
        for (let kill = 1; kill <= KILLS; kill++) {
          const { acknowledged } = machine.statistics();
          to(kill * MORE);
          await untilAsked('rows come', () => machine.statistics().acknowledged > acknowledged);
          await remoteThreadsOf(remote)[0]?.terminate();
          await untilAsked('there is another', () => remoteThreadsOf(remote)[0]);
        }
        await untilAsked('all is collected', () => machine.statistics().steps === 2 * KILLS * MORE);
        await untilAsked('all is there', () => {
          const { sent, acknowledged, waiting } = machine.statistics();
          return waiting === 0 && acknowledged === sent;
        });
        expectWhole(buffer, KILLS * MORE, 2);
        expect(remote.statistics()).to.include({ refused: 0, lost: 0 });
        if (kind === 'steps') return;
        // Terminates the thread more often than it is restarted within a minute.
        await remoteThreadsOf(remote)[0]?.terminate();
        expect(await rejection(remote.done)).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
      },
    );

  for (const kind of ['rows', 'steps'] as const)
    (kind === 'rows' ? itAll : itLong)(
      `another learner takes the run of a killed learner while ${kind} arrive, without duplicates`,
      async () => {
        const run = newRun();
        const first = await child('learner', { url: shared.url, run, kind });
        const { entry, to } = leash();
        to(5000);
        const machine = await host({ url: shared.url, run, entry, name: 'ann', flushBytes: 1024 });
        await untilAsked('rows are there', () => machine.statistics().acknowledged > 2000);
        first.signal('SIGKILL');
        const { acknowledged } = machine.statistics();
        const busy = await rejection(learn({ url: shared.url, run, buffer: bufferOf(kind, 2) }));
        expect(busy).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
        to(9000);
        await untilAsked(
          'its lease has run out',
          async () => (await shared.client.exists(keysOf(run).learner)) === 0,
        );
        const buffer = bufferOf(kind, 2);
        const second = await learn({ url: shared.url, run, buffer });
        await untilAsked('all is there', () => {
          const { sent, waiting, steps, acknowledged: now } = machine.statistics();
          return steps === 9000 && waiting === 0 && now === sent;
        });
        const [numbers = []] = [...numbersIn(buffer).values()];
        const [base = 0] = numbers;
        expect(numbers).to.deep.equal(Array.from({ length: 9000 - base }, (_, i) => base + i));
        // The first learner had acknowledged all rows before `base`, so no other row is missing.
        expect(base)
          .to.be.at.least(kind === 'rows' ? acknowledged : 1000)
          .and.below(9000);
        const { lost, refused } = second.statistics();
        expect(refused).to.equal(0);
        // If the host reads the last acknowledgements of the first learner late, these rows count
        // as lost, because no learner has them any more. Every fifth step is followed by a final
        // observation, which counts as a row here.
        expect(lost).to.be.at.most(kind === 'rows' ? base : base + Math.floor(base / 5));
      },
    );

  itAll(
    'a suspended learner ends after its lease has run out and another learner has the run',
    async () => {
      const run = newRun();
      const first = await child('learner', { url: shared.url, run });
      first.signal('SIGSTOP');
      await untilAsked(
        'its lease has run out',
        async () => (await shared.client.exists(keysOf(run).learner)) === 0,
      );
      const buffer = bufferOf('rows');
      await learn({ url: shared.url, run, buffer });
      const { entry, to } = leash();
      to(1000);
      const machine = await host({ url: shared.url, run, entry, name: 'ann' });
      first.signal('SIGCONT');
      await untilAsked('it has ended', () => first.said.ended);
      expect(first.said.ended).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
      expect((first.said.ended as Error).message).to.include(
        `another learner has taken the run '${run}'`,
      );
      to(2000);
      await untilAsked('the second goes on', () => machine.statistics().acknowledged === 2000);
      expectWhole(buffer, 2000, 1);
    },
  );

  for (const ms of setting<number[]>({ short: [], all: [13_000], long: [500, 13_000] }))
    itLonger(
      `the learner stores each row once from a host that was suspended for ${ms} ms`,
      async () => {
        const run = newRun();
        const buffer = bufferOf('rows');
        const remote = await learn({ url: shared.url, run, buffer });
        const machine = await child('host', { url: shared.url, run, name: 'ann', limit: 300_000 });
        await untilAsked('rows come', () => (buffer as unknown as { ptr: number }).ptr > 1000);
        machine.signal('SIGSTOP');
        const { entry, to } = leash();
        to(1000);
        await host({ url: shared.url, run, entry, name: 'bob' });
        if (ms > 10_000) await untilAsked('it is silent', () => remote.statistics().silent === 1);
        await wait(ms > 10_000 ? 1000 : ms); // the delay under test
        machine.signal('SIGCONT');
        await untilAsked(
          'all is there',
          () => (buffer as unknown as { ptr: number }).ptr === 301_000,
        );
        const found = numbersIn(buffer);
        const inOrder = (numbers: number[] = []) =>
          numbers.every((number, i) => number === i) && numbers.length;
        expect(inOrder(found.get(`${seedOf('ann')}/0`))).to.equal(300_000);
        expect(inOrder(found.get(`${seedOf('bob')}/0`))).to.equal(1000);
        await untilAsked(
          'both are there',
          () => remote.statistics().silent === 0 && remote.statistics().hosts === 2,
        );
        expect(remote.statistics()).to.include({ lost: 0, refused: 0 });
      },
    );

  itAll('a killed host becomes silent, and the other host gets the whole window', async () => {
    const run = newRun();
    const remote = await learn({
      url: shared.url,
      run,
      buffer: bufferOf('rows'),
      transitBytes: 2 ** 22,
    });
    const { entry, to } = leash();
    to(100);
    const machine = await host({ url: shared.url, run, entry, name: 'ann' });
    await untilAsked('it is in', () => machine.statistics().acknowledged === 100);
    const [session = ''] = (await shared.client.hKeys(keysOf(run).acks)).filter(
      (name) => !name.startsWith('*'),
    );
    const window = async () =>
      Number((await shared.client.hGet(keysOf(run).acks, session))?.split(':')[2]);
    await untilAsked('it has all of it', async () => (await window()) === 2 ** 22);
    const other = await child('host', { url: shared.url, run, name: 'bob', limit: 100 });
    await untilAsked('it has half of it', async () => (await window()) === 2 ** 21);
    other.signal('SIGKILL');
    const gone = performance.now();
    await untilAsked('it is silent', () => remote.statistics().silent === 1);
    expect(performance.now() - gone).to.be.at.least(8000);
    expect(remote.waitingFor()).to.match(/^rows: 2 hosts, 1 silent for [1-9]\d+ s$/);
    await untilAsked('the other has all of it', async () => (await window()) === 2 ** 22);
    expect(remote.statistics().hosts).to.equal(1);
  });

  itAll('all rows arrive once when empty servers replace the server', async () => {
    const ROUNDS = setting({ short: 0, all: 2, long: 4 });
    const own = await startServer();
    try {
      const run = newRun();
      const buffer = bufferOf('rows');
      const remote = await learn({ url: own.url, run, buffer });
      const { entry, to } = leash();
      const machine = await host({ url: own.url, run, entry, name: 'ann', flushBytes: 1024 });
      for (let round = 1; round <= ROUNDS; round++) {
        const { acknowledged } = machine.statistics();
        to(round * 10_000);
        await untilAsked('rows come', () => machine.statistics().acknowledged > acknowledged);
        await own.restart();
      }
      await untilAsked('all is there', () => machine.statistics().acknowledged === ROUNDS * 10_000);
      expectWhole(buffer, ROUNDS * 10_000, 1);
      expect(remote.statistics()).to.include({ lost: 0, refused: 0 });
    } finally {
      await closeAll();
      await own.stop();
    }
  });

  itAll(
    'the learner ends without its password in the error when the server revokes XREAD',
    async () => {
      const own = await startServer({ acl: ['default off', 'ann on >secret ~* &* +@all'] });
      try {
        const run = newRun();
        const address = { url: own.url.replace('//', '//ann@'), password: 'secret' };
        const remote = await learn({ ...address, run, buffer: bufferOf('rows') });
        const boss = await own.client({ username: 'ann', password: 'secret' });
        await boss.sendCommand(['ACL', 'SETUSER', 'ann', '-xread']);
        const error = await rejection(remote.done);
        expect(error.message).to.not.include('secret');
        expect(error.message).to.match(/NOPERM|does not allow/);
        await boss.sendCommand(['ACL', 'SETUSER', 'ann', '+xread']);
      } finally {
        await closeAll();
        await own.stop();
      }
    },
  );
});
