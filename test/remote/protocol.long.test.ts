/**
 * Tests the real hosts and learner of the protocol over a link in memory with random faults.
 * Whatever is lost, repeated, cut, restarted or replaced, the buffer must hold every row once and
 * in order. test/model/link.ts checks all interleavings of a few rows.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { RateLimiter } from '../../src/index.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { MemoryServer } from './memory-link.ts';
import { numbersIn, wrongIn } from './numbered.ts';
import { keys, MemoryHost, MemoryLearner } from './protocol.ts';

const ROWS = 400;

interface World {
  readonly server: MemoryServer;
  readonly hosts: MemoryHost[];
  learner: MemoryLearner;
}
/** Applies a fault. May return what undoes the fault at the end. */
type Fault = (world: World, random: Random) => unknown;

const faults: Readonly<Record<string, Fault>> = {
  'a connection is lost, and calls had their effect': ({ server }) => {
    server.drop({ effect: true });
    server.restore();
  },
  'a connection is lost, and calls had none': ({ server }) => {
    server.drop({ effect: false });
    server.restore();
  },
  'one host’s connection is lost': ({ hosts }, random) => {
    const { link } = hosts[random.below(hosts.length)]!;
    link.cut(random.below(2) === 0);
    link.retry();
  },
  'the server is started anew, empty': ({ server }) => server.restart(),
  'everything on the server is gone': ({ server }) => server.flush(),
  'the server has no memory left for a while': ({ server }, random) => {
    server.full = random.below(2) === 0;
  },
  'notices are lost for a while': ({ server }, random) => {
    server.deaf = random.below(2) === 0;
  },
  'the learner’s thread ends': ({ learner }) => learner.replaceThread(),
};

async function run(
  seed: number,
  names: readonly string[],
  given: { limiter?: RateLimiter } = {},
): Promise<World> {
  const random = new Random(seed);
  const server = new MemoryServer();
  const learner = new MemoryLearner(server, { epoch: 1, capacity: 4 * ROWS, ...given });
  const hosts = [0, 1, 2].map((host) => new MemoryHost(server, host));
  const world = { server, hosts, learner };
  try {
    while (hosts.some(({ outbox }) => outbox.made < ROWS)) {
      for (const { outbox } of hosts) outbox.make(Math.min(random.below(12), ROWS - outbox.made));
      for (let turns = random.below(12); turns > 0; turns--) await turn();
      given.limiter?.countSamples(random.below(30));
      if (names.length > 0 && random.below(4) === 0)
        await faults[names[random.below(names.length)]!]!(world, random);
    }
    server.full = false;
    server.deaf = false;
    const what = () =>
      `seed ${seed}: ${hosts.map(({ uplink, outbox }) => `${uplink.queued.acknowledged}/${outbox.made} ${uplink.waits}`)}`;
    await until(
      `every host is done (${names})`,
      () => {
        given.limiter?.countSamples(10);
        return hosts.every(({ done }) => done);
      },
      20_000,
    ).catch((error) => {
      throw new Error(`${(error as Error).message}; ${what()}`);
    });
    const found = numbersIn(world.learner.buffer, hosts.length);
    expect(
      found.map((numbers) => wrongIn(numbers, ROWS)),
      `seed ${seed}`,
    ).to.deep.equal([null, null, null]);
    return world;
  } finally {
    await Promise.all(hosts.map((host) => host.close()));
    await world.learner.end();
  }
}

describe('remote protocol over a link in memory', () => {
  it('sends each message once and leaves at most 4 messages in the stream without faults', async () => {
    const { hosts, server, learner } = await run(1, []);
    expect(learner.ingest.counts.refused).to.equal(0);
    expect(hosts.map(({ uplink }) => uplink.queued.repeated)).to.deep.equal([0, 0, 0]);
    expect([learner.ingest.counts.duplicates, learner.ingest.counts.gaps]).to.deep.equal([0, 0]);
    expect(server.messages(keys.stream(0), '0-0', 10).length).to.be.at.most(4);
  });

  const seeds = setting({ short: 1, all: 3, long: 300 });
  for (const name of Object.keys(faults))
    (name.startsWith('everything') ? itAll : itLonger)(
      `delivers every row once and in order: ${name}, repeatedly`,
      async () => {
        for (let seed = 1; seed <= seeds; seed++) await run(seed, [name]);
      },
    );

  itAll('delivers every row once and in order under random faults of all kinds', async () => {
    for (let seed = 100; seed < 100 + 2 * seeds; seed++) await run(seed, Object.keys(faults));
  });

  itLonger(
    'delivers every row once and in order under random faults with a gating limiter',
    async () => {
      for (let seed = 1; seed <= seeds; seed++) {
        const limiter = RateLimiter.create({
          samplesPerInsert: 1,
          minSize: 1,
          errorBuffer: 20,
          gateAdd: true,
        });
        await run(seed, Object.keys(faults), { limiter });
      }
    },
  );

  /**
   * Lets a second learner take over the run in the middle. Checks the rows that it has in the end.
   */
  async function takenOver(seed: number, way: 'anew' | 'from a checkpoint'): Promise<void> {
    const random = new Random(seed);
    const server = new MemoryServer();
    const hosts = [0, 1].map((host) => new MemoryHost(server, host));
    const first = new MemoryLearner(server, { epoch: 10, capacity: 4 * ROWS });
    let second: MemoryLearner | null = null;
    const make = async (to: number) => {
      while (hosts.some(({ outbox }) => outbox.made < to)) {
        for (const { outbox } of hosts) outbox.make(Math.min(random.below(9), to - outbox.made));
        for (let turns = random.below(9); turns > 0; turns--) await turn();
      }
    };
    try {
      await make(100);
      // Rows and session offsets of one moment, as a checkpoint saves them.
      const rows = numbersIn(first.buffer, hosts.length);
      const saved = first.marks.saved();
      await make(200);
      await first.end();
      server.free(keys.learner);
      await make(300);
      second = new MemoryLearner(server, {
        epoch: 11,
        capacity: 4 * ROWS,
        ...(way === 'anew' ? {} : { saved }),
      });
      await make(ROWS);
      await until('every host is done', () => hosts.every(({ done }) => done));
      const before = numbersIn(first.buffer, hosts.length);
      const behind = numbersIn(second.buffer, hosts.length);
      let lost = 0;
      for (const [host, numbers] of behind.entries()) {
        const [from] = numbers as [number];
        // The second learner has all rows from its first one on. Its first row is not after the
        // last row of the first learner.
        expect(wrongIn(numbers, ROWS, from), `seed ${seed}`).to.equal(null);
        expect(from, `seed ${seed}`).to.be.at.most(before[host]!.length);
        if (way === 'anew') continue;
        // After a checkpoint no row arrives twice. Rows between the checkpoint and the takeover
        // count as lost.
        expect(from, `seed ${seed}`).to.be.at.least(rows[host]!.length);
        lost += from - rows[host]!.length;
      }
      if (way === 'from a checkpoint') expect(second.marks.lost).to.equal(lost);
    } finally {
      await Promise.all(hosts.map((host) => host.close()));
      await second?.end();
    }
  }

  for (const way of ['anew', 'from a checkpoint'] as const)
    itLonger(`delivers rows without a gap to another learner that takes over ${way}`, async () => {
      for (let seed = 1; seed <= seeds; seed++) await takenOver(seed, way);
    });
});
