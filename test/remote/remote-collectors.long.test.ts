/**
 * Tests collectors on other machines as programs use them: a learner, its hosts, their threads and
 * a real server.
 */
import { expect } from 'chai';
import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import {
  RateLimiter,
  ReplayBuffer,
  type TrajectoryBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { type RunOptions, Word } from './run-collector.ts';
import {
  bufferOf,
  expectWhole,
  host,
  keep,
  learn,
  leash,
  newRun,
  numbersIn,
  seedOf,
  sharedServer,
  untilAsked,
  valuesIn,
} from './runs.ts';

const rowsOnly = () => bufferOf('rows') as ReplayBuffer;
const filled = (length: number, value: number) => new Float32Array(length).fill(value);

describe('remote collectors', () => {
  const shared = sharedServer();

  const ROWS = setting({ short: 500, all: 20_000, long: 50_000 });
  for (const kind of ['rows', 'steps'] as const)
    (kind === 'rows' ? itLonger : itAll)(
      `${kind} of two hosts arrive once and in order, and both sides count them`,
      async () => {
        const run = newRun();
        const buffer = bufferOf(kind, 4);
        const remote = await learn({ url: shared.url, run, buffer });
        await untilAsked(
          'it is told',
          () => remote.waitingFor() === 'rows: no collector host has connected yet',
        );
        const { entry, to } = leash();
        to(ROWS);
        const hosts = await Promise.all(
          ['ann', 'bob'].map((name) =>
            host({
              url: shared.url,
              run,
              entry,
              name,
              workers: 2,
              outboxBytes: 2 ** 18,
              flushBytes: 4096,
            }),
          ),
        );
        await untilAsked('all is collected', () =>
          hosts.every((each) => each.statistics().steps === 2 * ROWS),
        );
        await untilAsked('the learner knows', () => remote.statistics().steps === 4 * ROWS);
        expect(remote.waitingFor()).to.equal('rows: 2 hosts');
        expect(remote.statistics()).to.include({ hosts: 2, silent: 0 });
        await Promise.all(hosts.map((each) => each.close()));
        for (const each of hosts) {
          const { sent, acknowledged, waiting, steps, waitingFor } = each.statistics();
          expect([acknowledged, waiting, steps, waitingFor]).to.deep.equal([
            sent,
            0,
            2 * ROWS,
            null,
          ]);
        }
        expectWhole(buffer, ROWS, 4);
        const rows = hosts.reduce((sum, each) => sum + each.statistics().sent, 0);
        await untilAsked(
          'it is told',
          () => remote.statistics().rows === rows && remote.statistics().hosts === 0,
        );
        const told = remote.statistics();
        expect(told).to.include({
          stale: 0,
          refused: 0,
          lost: 0,
          gaps: 0,
          duplicates: 0,
          connected: true,
        });
        expect(told.lag.p50).to.be.within(0, 5000);
        if (kind === 'rows') expect(told.meanReturn).to.equal(1.5);
        await remote.close();
        await remote.done;
      },
    );

  itAll(
    'collectors receive whole weights up to the newest version, and skip some versions',
    async () => {
      const run = newRun();
      const buffer = rowsOnly();
      const mailbox = WeightMailbox.create({ length: 300_000 });
      mailbox.write(filled(300_000, 1));
      const remote = await learn({ url: shared.url, run, buffer, mailbox, weightsEveryMs: 20 });
      const { entry, to } = leash();
      const machine = await host({ url: shared.url, run, entry });
      // Until the first weights arrive, rows are collected with zeros as weights, which count as
      // version 0.
      await untilAsked('the first one is there', () => machine.statistics().version >= 1);
      const VERSIONS = setting({ short: 20, all: 150, long: 400 });
      let seen = 0;
      let skipped = 0;
      const VERSIONS_AT_ONCE = 4;
      for (let version = 2, at = performance.now(); version <= VERSIONS; version++) {
        mailbox.write(filled(300_000, version));
        to(10 * version);
        // Writes several versions without a turn of the event loop, so that the learner cannot send
        // all of them, on a machine of any speed.
        if (version % VERSIONS_AT_ONCE > 0) continue;
        at += 10 * VERSIONS_AT_ONCE;
        await untilAsked('the next ones are due', () => performance.now() >= at);
        const { version: now } = machine.statistics();
        if (now > seen + 1) skipped++;
        expect(now).to.be.at.least(seen);
        seen = now;
      }
      await untilAsked('the newest is there', () => machine.statistics().version === VERSIONS);
      // On a busy machine the newest version may be the first one that the host receives.
      if (VERSIONS > seen + 1) skipped++;
      to(10 * VERSIONS + 100);
      await untilAsked('rows are acted by it', () => buffer.ptr === 10 * VERSIONS + 100);
      expect(skipped, 'skipped versions').to.be.above(0);
      const values = valuesIn(buffer);
      let before = 0;
      for (let at = 3; at < values.length; at += 4) {
        expect(values[at], `weights of row ${at >> 2}`).to.be.within(Math.max(before, 1), VERSIONS);
        before = values[at]!;
      }
      expect(before).to.equal(VERSIONS);
      await untilAsked('it is told', () => remote.statistics().version === VERSIONS);
      expect(remote.statistics().versionLag.p99).to.be.within(0, VERSIONS);
    },
  );

  itAll('a host receives weights of 38 MB', async () => {
    const run = newRun();
    const length = 9_500_000; // 38 MB
    const mailbox = WeightMailbox.create({ length });
    const remote = await learn({ url: shared.url, run, buffer: bufferOf('rows'), mailbox });
    const { entry } = leash();
    const machine = await host({ url: shared.url, run, entry });
    for (const version of [1, 2]) {
      mailbox.write(filled(length, version));
      await untilAsked('it is there', () => machine.statistics().version === version);
    }
    expect(remote.statistics().connected).to.equal(true);
  });

  for (const kind of ['rows', 'steps'] as const)
    itAll(
      `the learner drops and counts ${kind} with weights older than maxVersionLag allows`,
      async () => {
        const run = newRun();
        const buffer = bufferOf(kind, 1);
        const mailbox = WeightMailbox.create({ length: 1 });
        mailbox.write(filled(1, 1));
        // The limiter keeps the learner from taking later rows.
        const remote = await learn({
          url: shared.url,
          run,
          buffer,
          mailbox,
          weightsEveryMs: 600_000,
          maxVersionLag: 1,
        });
        const { entry, to } = leash();
        const machine = await host({ url: shared.url, run, entry, name: 'ann' });
        await untilAsked('weights are there', () => machine.statistics().version === 1);
        const acknowledged = () => machine.statistics().acknowledged;
        const sent = (steps: number) => (kind === 'rows' ? steps : steps + Math.floor(steps / 5));
        to(2);
        await untilAsked('it is told which one', () => acknowledged() === sent(2));
        mailbox.write(filled(1, 2));
        to(13);
        await untilAsked('one version is fine', () => acknowledged() === sent(13));
        mailbox.write(filled(1, 3));
        to(27);
        await untilAsked('two are too many', () => acknowledged() === sent(27));
        await untilAsked('it is told', () => remote.statistics().stale === sent(27) - sent(13), {
          tell: () => JSON.stringify(remote.statistics()),
          ms: 4000,
        });
        const numbers = [...numbersIn(buffer).values()];
        expect(numbers).to.deep.equal([Array.from({ length: 13 }, (_, i) => i)]);
        expect(remote.statistics()).to.include({ rows: sent(13), lost: 0, refused: 0 });
      },
    );

  for (const kind of ['rows', 'steps'] as const)
    itAll(
      `${kind} wait for the limiter of the learner without loss, and both sides report the wait`,
      async () => {
        const run = newRun();
        const limiter = RateLimiter.create({
          samplesPerInsert: 1,
          minSize: 10,
          errorBuffer: 40,
          gateAdd: true,
        });
        const buffer = bufferOf(kind, 2, limiter);
        const remote = await learn({ url: shared.url, run, buffer, transitBytes: 2 ** 16 });
        const { entry, to } = leash();
        to(8000);
        // The room is so small that collectors have to wait.
        const machine = await host({
          url: shared.url,
          run,
          entry,
          name: 'ann',
          workers: 2,
          outboxBytes: 4096,
          flushBytes: 1024,
        });
        await untilAsked('collectors wait', () => machine.statistics().waits >= 2);
        const full = 'the learner takes no more rows for now';
        await untilAsked('the window is full', () => machine.statistics().waitingFor === full);
        await untilAsked(
          'the learner tells',
          () => remote.statistics().gated > 0.5 && remote.statistics().windowFull > 0,
        );
        expect(limiter.inserts).to.be.within(30, 50);
        for (let wanted = 1000; limiter.inserts < 16_000; wanted += 1000) {
          limiter.countSamples(1000);
          await untilAsked('they go on', () => limiter.inserts >= Math.min(wanted, 16_000));
        }
        expectWhole(buffer, 8000, 2);
      },
    );

  itAll(
    'no row is stale at a `maxVersionLag` of 6 when the host always has waiting rows',
    async () => {
      const run = newRun();
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 10,
        errorBuffer: 40,
        gateAdd: true,
      });
      const buffer = bufferOf('rows', 1, limiter) as ReplayBuffer;
      const mailbox = WeightMailbox.create({ length: 1 });
      const remote = await learn({
        url: shared.url,
        run,
        buffer,
        mailbox,
        weightsEveryMs: 1,
        transitBytes: 2 ** 16,
        maxVersionLag: 6,
      });
      const { entry, to } = leash();
      const machine = await host({
        url: shared.url,
        run,
        entry,
        name: 'ann',
        outboxBytes: 2 ** 18,
        flushBytes: 1024,
      });
      mailbox.write(filled(1, 1));
      await untilAsked('it is there', () => machine.statistics().version === 1);
      to(100_000);
      let drained = 40;
      for (let version = 2; version < 16; version++) {
        await untilAsked('collectors wait', () => machine.statistics().waitingFor !== null);
        mailbox.write(filled(1, version));
        // More rows than fit into windows and queues.
        limiter.countSamples(3000);
        drained += 3000;
        await untilAsked('they go on', () => limiter.inserts > drained - 100);
        await untilAsked('it is there', () => machine.statistics().version === version);
      }
      expect(limiter.inserts).to.be.within(drained - 200, drained + 200);
      await untilAsked('it is told', () => remote.statistics().rows === buffer.ptr);
      expect(remote.statistics()).to.include({ stale: 0 });
      expect(remote.statistics().versionLag.p99).to.be.within(0, 6);
    },
  );

  itAll('each host passes `options` and its own seed to its collector', async () => {
    const run = newRun();
    const buffer = rowsOnly();
    const options: RunOptions = { band: 3 };
    await learn({ url: shared.url, run, buffer, options, seed: 7 });
    const { entry, to } = leash();
    to(10);
    for (const name of ['ann', 'bob']) await host({ url: shared.url, run, entry, name });
    // Collectors add bands of 3 rows, so each one stops at 12, the first multiple of 3 above 10.
    await untilAsked('all is there', () => buffer.ptr === 24);
    expect([...numbersIn(buffer).keys()].sort()).to.deep.equal(
      ['ann', 'bob'].map((name) => `${seedOf(name, 7)}/0`).sort(),
    );
  });

  itAll('transitions of an offPolicy() buffer arrive with obs and next_obs', async () => {
    const run = newRun();
    const buffer = ReplayBuffer.offPolicy({ capacity: 1000, obsDim: 2, actionDim: 1 });
    await learn({ url: shared.url, run, buffer: buffer as never });
    const { entry, to } = leash();
    to(300);
    await host({ url: shared.url, run, entry });
    await untilAsked('all is there', () => buffer.ptr === 300);
    const { obs, next_obs: next } = buffer.layout.fields as Record<string, { offset: number }>;
    const all = Uint32Array.from({ length: 300 }, (_, i) => i);
    const rows = buffer.gather(all, new Float32Array((300 * buffer.rowBytes) / 4));
    for (let row = 0; row < 300; row++) {
      const at = (row * buffer.rowBytes) / 4;
      const number = (field: { offset: number } | undefined) => rows[at + field!.offset / 4 + 1];
      expect([number(obs), number(next)]).to.deep.equal([row, row + 1]);
    }
  });

  itAll('hosts are spread over both streams when `shards` is 2', async () => {
    const run = newRun();
    const buffer = rowsOnly();
    const remote = await learn({ url: shared.url, run, buffer, shards: 2 });
    const { entry, to } = leash();
    to(500);
    const shards = async () => {
      const fields = await shared.client.hKeys(keysOf(run).acks);
      return new Set(
        fields.filter((name) => !name.startsWith('*')).map((name) => Number.parseInt(name, 16) % 2),
      );
    };
    let hosts = 0;
    // With probability 2⁻³⁰ one of the two streams gets no host.
    for (; (await shards()).size < 2 && hosts < 30; hosts++) {
      const machine = await host({ url: shared.url, run, entry, name: `host ${hosts}` });
      await untilAsked('it is heard', () => machine.statistics().acknowledged === 500);
    }
    expect((await shards()).size).to.equal(2);
    expectWhole(buffer, 500, hosts);
    await untilAsked('it is told', () => remote.statistics().rows === 500 * hosts);
    expect(remote.statistics()).to.include({ hosts, connected: true });
    // The thread of each stream writes its own heartbeat.
    await untilAsked('both beat', async () => {
      const fields = await shared.client.hKeys(keysOf(run).acks);
      return fields.includes('*0') && fields.includes('*1');
    });
  });

  itAll('two hosts of one name count as two hosts, and all their rows arrive', async () => {
    const run = newRun();
    const buffer = rowsOnly();
    const remote = await learn({ url: shared.url, run, buffer });
    const { entry, to } = leash();
    to(400);
    await Promise.all([1, 2].map(() => host({ url: shared.url, run, entry, name: 'ann' })));
    await untilAsked('all is there', () => buffer.ptr === 800);
    const [numbers] = [...numbersIn(buffer).values()];
    numbers?.sort((one, other) => one - other);
    expect(numbers).to.deep.equal(Array.from({ length: 800 }, (_, i) => i >> 1));
    await untilAsked('it is told', () => remote.statistics().hosts === 2);
  });

  itAll(
    'a host is rejected when too few lanes are free, and accepted after another host closes',
    async () => {
      const run = newRun();
      const buffer = bufferOf('steps', 3);
      await learn({ url: shared.url, run, buffer });
      const { entry, to } = leash();
      to(50);
      const first = await host({ url: shared.url, run, entry, name: 'ann', lanes: 2 });
      await untilAsked('it is in', () => first.statistics().acknowledged === 120);
      const second = await host({ url: shared.url, run, entry, lanes: 2 });
      expect(await rejection(second.done)).to.include({
        code: 'ERR_HOTSLOT_UNAVAILABLE',
        message:
          'the learner rejects this host: it requests 2 adjacent lanes, and 1 of the learner’s 3 lanes are free',
      });
      // A host that leaves frees its lanes.
      await first.close();
      const third = await host({ url: shared.url, run, entry, name: 'cid', lanes: 3 });
      await untilAsked('it is in', () => third.statistics().acknowledged === 180);
      expect(
        [...numbersIn(buffer as TrajectoryBuffer).values()].map(({ length }) => length),
      ).to.deep.equal([50, 50, 50, 50, 50]);
    },
  );

  itAll(
    'a host whose collector throws ends, and the status of the learner has the reason',
    async () => {
      const run = newRun();
      const remote = await learn({ url: shared.url, run, buffer: bufferOf('rows') });
      const [good, bad] = [leash(), leash('bad')];
      good.to(100);
      bad.to(100);
      await host({ url: shared.url, run, entry: good.entry, name: 'ann' });
      const machine = await host({ url: shared.url, run, entry: bad.entry, name: 'bob' });
      await untilAsked('both are there', () => remote.statistics().hosts === 2);
      Atomics.store(bad.words, Word.throws, 1);
      expect((await rejection(machine.done)).message).to.include('the environment broke');
      const told = async () =>
        JSON.parse((await shared.client.get(keysOf(run).status)) ?? '{"hosts":[]}').hosts as {
          host: string;
        }[];
      await untilAsked('the learner knows', () => remote.statistics().hosts === 1);
      await untilAsked('it says so', async () =>
        (await told()).some((each) => 'why' in each && each.why !== ''),
      );
      const bob = (await told()).find((each) => each.host === 'bob') as unknown as {
        state: string;
        why: string;
      };
      expect(bob.state).to.equal('failed');
      expect(bob.why).to.include('the environment broke');
      await machine.close();

      Atomics.store(bad.words, Word.factory, 1);
      const error = await rejection(CollectorHost.open({ url: shared.url, run, entry: bad.entry }));
      expect(error.message).to.include('no environment today');
    },
  );

  itAll(
    'RemoteCollectors.open() waits for an unreachable server until `signal` aborts',
    async () => {
      const ends = new AbortController();
      const words: string[] = [];
      const onWait = (said: string) => {
        words.push(said);
        ends.abort(new Error('enough'));
      };
      const opened = RemoteCollectors.open({
        url: 'redis://127.0.0.1:1',
        run: 'none',
        buffer: bufferOf('rows'),
        signal: ends.signal,
        onWait,
      });
      expect((await rejection(opened)).message).to.equal('enough');
      expect(words[0]).to.match(/^redis:\/\/127\.0\.0\.1:1 cannot be reached/);
    },
  );

  itAll('CollectorHost.open() waits for a later learner, or until `signal` aborts', async () => {
    const run = newRun();
    const { entry, to } = leash();
    to(100);
    const words: string[] = [];
    const coming = host({
      url: shared.url,
      run,
      entry,
      name: 'ann',
      onWait: (said) => void words.push(said),
    });
    const ends = new AbortController();
    const ended = CollectorHost.open({
      url: shared.url,
      run,
      entry,
      signal: ends.signal,
      onWait: () => ends.abort(new Error('enough')),
    });
    expect((await rejection(ended)).message).to.equal('enough');
    await untilAsked('it says that it waits', () => words.length > 0);
    expect(words).to.deep.equal([`the learner of the run '${run}' has not started yet`]);
    const buffer = bufferOf('rows');
    await learn({ url: shared.url, run, buffer });
    await coming;
    await untilAsked('rows come', () => (buffer as ReplayBuffer).ptr === 100);
    expect(words).to.have.length(1);
  });

  itAll('close() works in any order and when called twice', async () => {
    const { entry, to } = leash();
    to(200);
    for (const first of ['host', 'learner']) {
      const run = newRun();
      const buffer = rowsOnly();
      const remote = await learn({ url: shared.url, run, buffer });
      const machine = await host({ url: shared.url, run, entry });
      await untilAsked('all is there', () => machine.statistics().acknowledged === 200);
      const both = [machine, remote];
      for (const each of first === 'host' ? both : both.reverse())
        await Promise.all([each.close(), each.close()]);
      await Promise.all([machine.close(), remote.close(), machine.done, remote.done]);
      expectWhole(buffer, 200, 1);
      expect(machine.statistics()).to.include({ sent: 200, acknowledged: 200 });
    }
  });

  /** Returns a run whose learner has ended after 200 rows, and a host that has 300 more. */
  async function left() {
    const run = newRun();
    const { entry, to } = leash();
    to(200);
    const before = rowsOnly();
    const first = await learn({ url: shared.url, run, buffer: before });
    const machine = await host({ url: shared.url, run, entry, name: 'ann' });
    await untilAsked('all is there', () => machine.statistics().acknowledged === 200);
    await first.close();
    to(500);
    return { run, before, machine, buffer: rowsOnly() };
  }

  itAll(
    'the next learner takes a closed run at once, and the host sends its remaining rows',
    async () => {
      const { run, before, machine, buffer } = await left();
      await learn({ url: shared.url, run, buffer });
      await untilAsked('the rest is there', () => machine.statistics().acknowledged === 500);
      expect(before.ptr).to.equal(200);
      expect([...numbersIn(buffer).values()]).to.deep.equal([
        Array.from({ length: 300 }, (_, i) => 200 + i),
      ]);
    },
  );

  itAll('a learner stores no row before open() has resolved', async () => {
    const { run, machine, buffer } = await left();
    let open = false;
    const opening = learn({ url: shared.url, run, buffer }).then(() => {
      open = true;
    });
    while (buffer.ptr === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(open, 'open() resolved before the first row').to.equal(true);
    await opening;
    await untilAsked('all is there', () => machine.statistics().acknowledged === 500);
  });

  it('open() of learners and hosts rejects invalid options', async () => {
    const buffer = bufferOf('rows');
    const good = { url: shared.url, run: 'a', buffer };
    const steps = bufferOf('steps');
    const learners: [object, string, RegExp][] = [
      [{ ...good, url: 5 }, 'ERR_HOTSLOT_ARGUMENT', /url/],
      [{ ...good, url: 'http://a' }, 'ERR_HOTSLOT_RANGE', /url must begin with redis:\/\//],
      [{ ...good, url: 'redis://far.example' }, 'ERR_HOTSLOT_RANGE', /unencrypted/],
      [{ ...good, run: 5 }, 'ERR_HOTSLOT_ARGUMENT', /run must be/],
      [{ ...good, run: 'a b' }, 'ERR_HOTSLOT_RANGE', /run must be/],
      [
        { ...good, buffer: {} },
        'ERR_HOTSLOT_ARGUMENT',
        /buffer must be a ReplayBuffer or a TrajectoryBuffer/,
      ],
      [{ ...good, mailbox: {} }, 'ERR_HOTSLOT_ARGUMENT', /mailbox must be/],
      [
        { ...good, options: { a: new Map() } },
        'ERR_HOTSLOT_ARGUMENT',
        /options must be JSON values: options\.a/,
      ],
      [{ ...good, options: 1n }, 'ERR_HOTSLOT_ARGUMENT', /options must be/],
      [{ ...good, seed: -1 }, 'ERR_HOTSLOT_RANGE', /seed/],
      [{ ...good, seed: '1' }, 'ERR_HOTSLOT_ARGUMENT', /seed/],
      [{ ...good, shards: 0 }, 'ERR_HOTSLOT_RANGE', /shards/],
      [{ ...good, shards: 65 }, 'ERR_HOTSLOT_RANGE', /shards/],
      [{ ...good, buffer: steps, shards: 2 }, 'ERR_HOTSLOT_RANGE', /shards must be 1/],
      [{ ...good, transitBytes: 100 }, 'ERR_HOTSLOT_RANGE', /transitBytes/],
      [{ ...good, weightsEveryMs: 0 }, 'ERR_HOTSLOT_RANGE', /weightsEveryMs/],
      [{ ...good, maxVersionLag: -1 }, 'ERR_HOTSLOT_RANGE', /maxVersionLag/],
      [{ ...good, maxVersionLag: Number.NaN }, 'ERR_HOTSLOT_RANGE', /maxVersionLag/],
      [{ ...good, insecure: 'yes' }, 'ERR_HOTSLOT_ARGUMENT', /insecure/],
      [{ ...good, password: 7 }, 'ERR_HOTSLOT_ARGUMENT', /password/],
      [{ ...good, ca: 7 }, 'ERR_HOTSLOT_ARGUMENT', /ca /],
      [
        { ...good, resume: { kind: 'other' } },
        'ERR_HOTSLOT_ARGUMENT',
        /resume must be the collectors of RemoteCollectors/,
      ],
      [{ ...good, shard: 2 }, 'ERR_HOTSLOT_ARGUMENT', /unknown option 'shard'/],
    ];
    for (const [options, code, text] of learners) {
      const error = await rejection(RemoteCollectors.open(options as never));
      expect([error.code, error.message], `${text}`).to.satisfy(
        ([c, m]: string[]) => c === code && text.test(m!),
      );
    }
    const { entry } = leash();
    const fine = { url: shared.url, run: 'a', entry };
    const hosts: [object, string, RegExp][] = [
      [{ ...fine, url: null }, 'ERR_HOTSLOT_ARGUMENT', /url/],
      [{ ...fine, run: '' }, 'ERR_HOTSLOT_RANGE', /run must be/],
      [{ ...fine, entry: entry.href }, 'ERR_HOTSLOT_ARGUMENT', /entry must be the URL/],
      [{ ...fine, workers: 0 }, 'ERR_HOTSLOT_RANGE', /workers/],
      [{ ...fine, workers: 65 }, 'ERR_HOTSLOT_RANGE', /workers/],
      [
        { ...fine, workers: 3, lanes: 2 },
        'ERR_HOTSLOT_RANGE',
        /lanes must be at least the workers/,
      ],
      [{ ...fine, outboxBytes: 10 }, 'ERR_HOTSLOT_RANGE', /outboxBytes/],
      [{ ...fine, flushBytes: 0 }, 'ERR_HOTSLOT_RANGE', /flushBytes/],
      [{ ...fine, flushMs: 0.5 }, 'ERR_HOTSLOT_RANGE', /flushMs/],
      [{ ...fine, name: '' }, 'ERR_HOTSLOT_ARGUMENT', /name must be/],
      [{ ...fine, name: 'x'.repeat(201) }, 'ERR_HOTSLOT_ARGUMENT', /name must be/],
      [{ ...fine, insecure: 1 }, 'ERR_HOTSLOT_ARGUMENT', /insecure/],
      [{ ...fine, password: '' }, 'ERR_HOTSLOT_ARGUMENT', /password/],
      [{ ...fine, ca: '/nowhere.pem' }, 'ERR_HOTSLOT_RANGE', /ca/],
      [{ ...fine, signal: {} }, 'ERR_HOTSLOT_ARGUMENT', /signal/],
      [{ ...fine, onWait: 'x' }, 'ERR_HOTSLOT_ARGUMENT', /onWait/],
      [{ ...fine, seed: 1 }, 'ERR_HOTSLOT_ARGUMENT', /unknown option 'seed'/],
    ];
    for (const [options, code, text] of hosts) {
      const error = await rejection(CollectorHost.open(options as never));
      expect([error.code, error.message], `${text}`).to.satisfy(
        ([c, m]: string[]) => c === code && text.test(m!),
      );
    }
    for (const made of [RemoteCollectors, CollectorHost])
      expect(() => new (made as unknown as new () => unknown)()).to.throw(
        TypeError,
        'is not for callers',
      );
    for (const each of [buffer, steps]) keep(each as { close(): void });
  });

  itAll(
    'RemoteCollectors.open() rejects a server that evicts values when its memory is full',
    async () => {
      const admin = await shared.server.client();
      const set = (name: string, value: string) =>
        admin.sendCommand(['CONFIG', 'SET', name, value]);
      await set('maxmemory-policy', 'allkeys-lru');
      try {
        // Without a memory limit the server evicts nothing.
        await (await learn({ url: shared.url, run: newRun(), buffer: bufferOf('rows') })).close();
        await set('maxmemory', '1gb');
        const error = await rejection(
          RemoteCollectors.open({ url: shared.url, run: newRun(), buffer: bufferOf('rows') }),
        );
        expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
        expect(error.message).to.match(
          /drops values .*allkeys-lru.*: set its maxmemory-policy to noeviction$/,
        );
      } finally {
        await set('maxmemory', '0');
        await set('maxmemory-policy', 'noeviction');
        admin.destroy();
      }
    },
  );

  itAll('RemoteCollectors.open() rejects while another learner has the run', async () => {
    const run = newRun();
    const buffer = rowsOnly();
    await learn({ url: shared.url, run, buffer });
    const error = await rejection(
      RemoteCollectors.open({ url: shared.url, run, buffer: bufferOf('rows') }),
    );
    expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
    expect(error.message).to.include(`another learner has the run '${run}'`);
    const { entry, to } = leash();
    to(100);
    await host({ url: shared.url, run, entry });
    await untilAsked('the first goes on', () => buffer.ptr === 100);
  });
});
