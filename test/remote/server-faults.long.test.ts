/**
 * Tests a learner and a dozen hosts with every fault of a server or a network. The buffer must hold
 * every row once in the end. Random choices come from a seed, which is printed.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { readAcknowledgement } from '../../src/net/remote/acknowledgement.ts';
import { sessionName } from '../../src/net/remote/keys.ts';
import { BEFORE_FIRST } from '../../src/net/remote/link.ts';
import { emptyHeader, readMessage } from '../../src/net/remote/message.ts';
import { openRedisLink } from '../../src/net/remote/redis-link.ts';
import { describeAll, itAll, itLong, setting } from '../rig/setting.ts';
import { BadNetwork } from './proxy.ts';
import { needServer, startServer, type TestServer } from './server.ts';
import { Swarm, type SwarmOptions } from './swarm.ts';

const SEED = Number(process.env.HOTSLOT_TEST_SEED ?? Date.now() % 1e6);
const HOSTS = 12;
const WIDTH = 64;
/** Number of rows that each host adds in each round. */
const ROWS = 300;

describeAll('remote server and network faults', function () {
  this.timeout(setting({ short: 120_000, all: 120_000, long: 400_000 }));
  const random = new Random(SEED);
  const below = (end: number) => Math.floor(random.next() * end);
  const stack: { close(): Promise<unknown> }[] = [];
  let server: TestServer;

  before(async function () {
    needServer(this);
    console.log(`      HOTSLOT_TEST_SEED=${SEED} chooses the same moments again`);
    server = await startServer();
  });
  after(() => server?.stop());
  beforeEach(() => server.restart());
  afterEach(async () => {
    for (const each of stack.splice(0).reverse()) await each.close();
  });

  async function open(rounds: number, options: Partial<SwarmOptions> = {}): Promise<Swarm> {
    const { url } = server;
    const swarm = await Swarm.open({
      url,
      hosts: HOSTS,
      rows: ROWS * rounds,
      width: WIDTH,
      ...options,
    });
    stack.push(swarm);
    return swarm;
  }
  async function network(): Promise<BadNetwork> {
    const made = await BadNetwork.open(server.port);
    stack.push(made);
    return made;
  }
  const through = ({ port }: BadNetwork) => `redis://127.0.0.1:${port}`;

  async function ask(...args: string[]): Promise<unknown> {
    const client = await server.client();
    const reply = await client.sendCommand(args);
    client.destroy();
    return reply;
  }
  const usedBytes = async () =>
    Number(/^used_memory:(\d+)/m.exec((await ask('INFO', 'memory')) as string)?.[1]);

  /**
   * In each round adds rows and calls `fault` after some of them have arrived, but not all. Then
   * checks all rows.
   */
  async function rounds(swarm: Swarm, many: number, fault: () => Promise<unknown>): Promise<void> {
    for (let round = 0; round < many; round++) {
      const before = swarm.buffer.ptr;
      swarm.offer(ROWS);
      const some = before + below((swarm.offered - before) / 2);
      await swarm.until(`${some} rows are in, in round ${round}`, () => swarm.buffer.ptr > some);
      await fault();
    }
    await swarm.check();
  }

  it('all rows arrive once when the server is killed at any moment and restarts empty', async () => {
    const many = setting({ short: 3, all: 3, long: 100 });
    const swarm = await open(many);
    await rounds(swarm, many, () => server.restart());
    // Each host was asked to send again. Without that, only heartbeats would bring the rows back,
    // seconds later.
    const names = swarm.hosts.map(({ session }) => sessionName(session));
    const said = (await ask('HMGET', swarm.keys.acks, ...names)) as string[];
    expect(Math.min(...said.map((text) => readAcknowledgement(text)?.nak ?? 0))).to.be.at.least(1);
  });

  // 1000: the server is suspended for longer than hosts wait for a reply. undefined: for as long as
  // they wait by default.
  for (const silenceMs of [1000, undefined])
    (silenceMs ? itAll : itLong)(
      `all rows arrive once when the server is suspended and hosts wait ${silenceMs ?? 5000} ms`,
      async () => {
        const many = setting({ short: 0, all: 1, long: 5 });
        const times = silenceMs
          ? [2500, ...Array.from({ length: many }, () => 100 + below(1900))]
          : [5000];
        const swarm = await open(times.length, silenceMs ? { silenceMs } : {});
        await rounds(swarm, times.length, async () => {
          server.freeze();
          await wait(times.shift());
          server.thaw();
        });
        if (silenceMs) expect(Math.min(...swarm.hosts.map(({ lost }) => lost))).to.be.at.least(1);
      },
    );

  itAll(
    'all rows arrive once when the server is killed and restarts with all its data',
    async () => {
      const many = setting({ short: 1, all: 1, long: 10 });
      const kept = await startServer({ appendonly: true });
      stack.push({ close: () => kept.stop() });
      const swarm = await open(many, { url: kept.url });
      await rounds(swarm, many, () => kept.restart({ keep: true }));
    },
  );

  it('all rows arrive once when the server is killed and restarts from an older snapshot', async () => {
    const many = setting({ short: 2, all: 2, long: 10 });
    const swarm = await open(many);
    await rounds(swarm, many, async () => {
      await ask('SAVE');
      const some = swarm.buffer.ptr + below((swarm.offered - swarm.buffer.ptr) / 2);
      await swarm.until(
        'more rows are in than it has written down',
        () => swarm.buffer.ptr >= some,
      );
      await server.restart({ keep: true });
    });
  });

  itAll('all rows arrive once after FLUSHALL while rows are under way', async () => {
    const many = setting({ short: 1, all: 1, long: 5 });
    const swarm = await open(many, { lead: ROWS });
    swarm.offer(ROWS);
    await swarm.until('the learner takes no more', () => swarm.buffer.ptr > ROWS / 2);
    await swarm.until('all is on the way', () =>
      swarm.hosts.every(({ uplink }) => uplink.waiting === 0 && uplink.queued.allReplied),
    );
    await ask('FLUSHALL');
    swarm.buffer.limiter?.countSamples(HOSTS * ROWS * many);
    await swarm.check();
    await rounds(swarm, many - 1, () => ask('FLUSHALL'));
  });

  itAll('all rows arrive once when the server ends all connections', async () => {
    const many = setting({ short: 2, all: 2, long: 20 });
    const swarm = await open(many);
    await rounds(swarm, many, async () => {
      for (const type of ['normal', 'pubsub'].slice(0, 1 + below(2)))
        await ask('CLIENT', 'KILL', 'TYPE', type);
    });
  });

  itAll('all rows arrive once when the server is full for a while', async () => {
    const many = setting({ short: 1, all: 1, long: 5 });
    const swarm = await open(2 * many);
    await rounds(swarm, many, async () => {
      await ask('CONFIG', 'SET', 'maxmemory', '1');
      swarm.offer(ROWS);
      await swarm.until('hosts were told', () =>
        swarm.hosts.some(({ uplink }) => uplink.waits === 'room'),
      );
      await ask('CONFIG', 'SET', 'maxmemory', '0');
    });
  });

  describe('with a learner that takes no rows', () => {
    const transitBytes = 16 * 2 ** 20;
    // A message and the server's overhead for it fill a size class of allocators.
    const flushBytes = 2 ** 18 - 1024;
    const many = { lead: 64, width: 256, flushBytes, transitBytes };
    /** The buffers of connections hold one more message each for two seconds. */
    const inBuffers = HOSTS * 1.25 * 2 ** 18;
    const stuck = (swarm: Swarm) =>
      swarm.until('no host may send', () =>
        swarm.hosts.every(
          ({ uplink: { waits, queued } }) =>
            waits === 'learner' || (waits === 'window' && queued.allReplied),
        ),
      );

    itAll(
      'the memory of the server is bounded by the windows of the hosts, also after reconnects',
      async () => {
        const swarm = await open(10, many);
        await swarm.settled();
        const before = await usedBytes();
        const windows = swarm.hosts.reduce((sum, { window }) => sum + window, 0);
        expect(windows).to.be.within(0.9 * transitBytes, transitBytes);
        swarm.offer(ROWS * 10);
        await stuck(swarm);
        expect((await usedBytes()) - before).to.be.within(windows / 2, 1.2 * windows + inBuffers);
        for (let i = 0; i < 2; i++) {
          const again = swarm.hosts.map(({ connected }) => connected + 1);
          await ask('CLIENT', 'KILL', 'TYPE', 'normal');
          await swarm.until('all are connected again', () =>
            swarm.hosts.every(({ connected }, host) => connected >= (again[host] as number)),
          );
        }
        // This lasts longer than two heartbeats of the learner.
        await wait(2200);
        await stuck(swarm);
        expect((await usedBytes()) - before).to.be.below(1.2 * windows);
        expect(swarm.hosts.map(({ uplink }) => uplink.queued.repeated)).to.deep.equal(
          swarm.hosts.map(() => 0),
        );
        swarm.buffer.limiter?.countSamples(swarm.offered);
        await swarm.check();
      },
    );

    itAll(
      'the memory of the server is bounded by `transitBytes` when all hosts send at once',
      async () => {
        const swarm = await open(10, many);
        const before = await usedBytes();
        swarm.offer(ROWS * 10);
        await swarm.until('the learner takes no more', () => swarm.buffer.ptr >= many.lead);
        let most = 0;
        for (const end = performance.now() + 1500; performance.now() < end; await wait(50))
          most = Math.max(most, (await usedBytes()) - before);
        await stuck(swarm);
        expect(most).to.be.below(1.2 * transitBytes + inBuffers);
        swarm.buffer.limiter?.countSamples(swarm.offered);
        await swarm.check();
      },
    );
  });

  const unheard: Record<string, (bad: BadNetwork, swarm: Swarm) => Promise<void>> = {
    'a message without a reply': async (bad, swarm) => {
      bad.cutAfter(HOSTS * ROWS * WIDTH);
      swarm.offer(ROWS);
      await swarm.until('all were cut off', () => swarm.hosts.every(({ lost }) => lost > 0));
    },
    'a message that a full server rejected': async (_, swarm) => {
      await ask('CONFIG', 'SET', 'maxmemory', '1');
      swarm.offer(ROWS);
      await swarm.until('hosts were told', () =>
        swarm.hosts.every(({ uplink }) => uplink.waits === 'room'),
      );
      await ask('CONFIG', 'SET', 'maxmemory', '0');
    },
  };
  for (const [what, happens] of Object.entries(unheard))
    itAll(`${what} is sent again while the learner takes no rows`, async () => {
      const bad = await network();
      const swarm = await open(2, { hostUrl: through(bad), lead: 64 });
      await swarm.settled();
      swarm.offer(ROWS);
      await swarm.until('the learner takes no more', () => swarm.buffer.ptr >= 64);
      await happens(bad, swarm);
      await swarm.until('all is on the way', () =>
        swarm.hosts.every(({ uplink }) => uplink.waiting === 0 && uplink.queued.allReplied),
      );
      const link = await openRedisLink({ url: server.url, name: 'who looks' });
      stack.push(link);
      await link.connect({});
      const come = new Map(
        swarm.counted().map((rows, host) => [swarm.hosts[host]?.session as number, rows]),
      );
      const header = emptyHeader();
      for (const { bytes } of await link.read(swarm.keys.stream(0), BEFORE_FIRST, 10_000, 0)) {
        expect(readMessage(bytes, header)).to.equal(null);
        const { session, first, rows } = header;
        const before = come.get(session) as number;
        if (first <= before) come.set(session, Math.max(before, first + rows));
      }
      expect([...come.values()]).to.deep.equal(swarm.hosts.map(({ outbox }) => outbox.offered));
      swarm.buffer.limiter?.countSamples(swarm.offered);
      await swarm.check();
    });

  for (const whose of ['hosts', 'learner'] as const)
    describe(`over a faulty network of the ${whose === 'hosts' ? 'hosts' : 'learner'}`, () => {
      const openBad = async (many: number, options: Partial<SwarmOptions> = {}) => {
        const bad = await network();
        const urls =
          whose === 'hosts'
            ? { hostUrl: through(bad) }
            : { url: through(bad), hostUrl: server.url };
        return [await open(many, { silenceMs: 500, ...urls, ...options }), bad] as const;
      };

      it('all rows arrive once when connections end inside messages', async () => {
        const many = setting({ short: 2, all: 2, long: 20 });
        const [swarm, bad] = await openBad(many);
        await rounds(swarm, many, async () => bad.cutAfter(below(20_000), whose === 'learner'));
      });

      // A learner's network takes longer to test, and hosts react to it in the same way.
      const itHosts = whose === 'hosts' ? it : itLong;
      itHosts('all rows arrive once when replies of executed commands are lost', async () => {
        const many = setting({ short: 2, all: 2, long: 15 });
        const [swarm, bad] = await openBad(many);
        await rounds(swarm, many, async () => {
          bad.mute();
          await wait(20 + below(80));
          bad.cut();
        });
      });

      itAll('all rows arrive once when the network is slow for a while', async () => {
        const many = setting({ short: 1, all: 1, long: 5 });
        const [swarm, bad] = await openBad(many);
        await rounds(swarm, many, async () => {
          bad.bytesPerSecond = 100_000;
          bad.delayMs = 5;
          await wait(300);
          bad.bytesPerSecond = Number.POSITIVE_INFINITY;
          bad.delayMs = 0;
        });
      });

      itHosts('all rows arrive once when the network carries nothing for a while', async () => {
        // A learner waits five seconds for a silent server, and five seconds for each reply.
        const [silenceMs, silence] = whose === 'hosts' ? [300, 800] : [5000, 12_000];
        const [swarm, bad] = await openBad(2, { silenceMs });
        let round = 0;
        await rounds(swarm, 2, async () => {
          bad.stall();
          await wait(round++ === 0 ? 200 : silence);
          bad.flow();
        });
      });
    });
});
