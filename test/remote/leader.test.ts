/**
 * Tests how a learner takes and keeps its run: the lease, other calls in flight, and values that an
 * earlier learner left.
 */
import { expect } from 'chai';
import { WeightMailbox } from '../../src/index.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { Leader, takeRun } from '../../src/net/remote/leader.ts';
import { LinkError } from '../../src/net/remote/link.ts';
import { WeightsOut } from '../../src/net/remote/weights.ts';
import { BELL_WORDS, Bell } from '../../src/shm/bell.ts';
import { rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';

const keys = keysOf('leader');

describe('Leader and takeRun()', () => {
  async function leading() {
    const server = new MemoryServer();
    const link = new MemoryLink(server);
    await link.connect({});
    const mailbox = WeightMailbox.create({ length: 4 });
    const weights = new WeightsOut({ link, keys, mailbox, epoch: 5, everyMs: 1 });
    const info = { epoch: 5, layout: '{}', weights: 4, options: null, seed: 0, shards: 1 };
    const bell = new Bell(new Int32Array(new SharedArrayBuffer(4 * BELL_WORDS)));
    const leader = new Leader({ link, keys, run: 'leader', info, weights, bell });
    const holder = () => Buffer.from(server.get(keys.learner) ?? []).toString();
    return { server, link, mailbox, leader, holder };
  }

  it('Leader renews its lease while weights are being stored', async () => {
    const { server, link, mailbox, leader, holder } = await leading();
    let release = () => {};
    const store = link.store.bind(link);
    let stands = false;
    link.store = async (key, ...rest) => {
      if (key === keys.weights(1, 0)) {
        stands = true;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      await store(key, ...rest);
    };
    mailbox.write(new Float32Array(4).fill(1));
    const running = leader.run();
    await until('they are on their way', () => stands);
    expect(holder()).to.equal('5');
    server.free(keys.learner);
    leader.onConnected();
    await until('the lease is there again', () => holder() === '5');
    expect(server.get(keys.newest)).to.equal(null);
    release();
    await until('so are the weights', () => server.get(keys.newest) !== null);
    leader.stop();
    await running;
    await link.close();
  });

  it('Leader.leave() ends its own lease, and keeps the lease of another learner', async () => {
    const { server, link, leader, holder } = await leading();
    let now = 0;
    server.clock = () => now;
    server.set(keys.learner, Buffer.from('6'), 100);
    await leader.leave();
    now = 50;
    expect(holder()).to.equal('6');
    server.set(keys.learner, Buffer.from('5'), 100);
    await leader.leave();
    now = 60;
    expect(server.get(keys.learner)).to.equal(null);
    await link.close();
  });

  it('takeRun() repeats lost calls, whether or not the server executed them', async () => {
    const { server, link, holder } = await leading();
    const lost = () => new LinkError('lost', 'the connection is lost');
    const [load, lease] = [link.load.bind(link), link.lease.bind(link)];
    let losses = 0;
    link.load = (async (...given: Parameters<typeof load>) => {
      if (losses++ === 0) throw lost();
      return load(...given);
    }) as typeof link.load;
    const taken: string[] = [];
    link.lease = async (...given) => {
      taken.push(given[1]);
      // The first call has no effect. The second one has its effect, but its reply is lost.
      const held = taken.length === 1 ? '' : await lease(...given);
      if (taken.length <= 2) throw lost();
      return held;
    };
    const epoch = await takeRun(link, keys, 'leader');
    expect(taken).to.deep.equal(Array(3).fill(`${epoch}`));
    expect(holder()).to.equal(`${epoch}`);
    // Another learner came and went meanwhile, with a larger epoch. The epoch of this learner must
    // be larger than that.
    server.free(keys.learner);
    taken.length = 0;
    const other = 2 ** 52;
    link.lease = async (...given) => {
      taken.push(given[1]);
      if (taken.length > 1) return lease(...given);
      server.set(keys.info, { protocol: '1', epoch: `${other}` }, undefined);
      throw lost();
    };
    expect(await takeRun(link, keys, 'leader')).to.be.within(other + 1, other + 2 ** 20);
    // takeRun() rejects with the last error if it may not try again.
    link.lease = async () => {
      throw lost();
    };
    expect(await rejection(takeRun(link, keys, 'leader', () => true))).to.be.instanceOf(LinkError);
    await link.close();
  });

  it('takeRun() takes a run whose stored information is invalid', async () => {
    const { server, link } = await leading();
    const odd: Record<string, string>[] = [
      { protocol: '9' },
      { epoch: 'x' },
      { protocol: '1', epoch: '-5', layout: '{' },
    ];
    for (const info of odd) {
      server.free(keys.learner);
      server.free(keys.info);
      server.set(keys.info, info, undefined);
      const before = Math.floor(Date.now() / 1000);
      const epoch = await takeRun(link, keys, 'leader');
      const after = Math.floor(Date.now() / 1000);
      expect(epoch).to.be.within((before - 5) * 2 ** 20, (after + 2) * 2 ** 20);
    }
    // A readable epoch counts, even if other values are invalid.
    const later = 2 ** 52;
    server.free(keys.learner);
    server.set(keys.info, { protocol: '9', epoch: `${later}` }, undefined);
    expect(await takeRun(link, keys, 'leader')).to.be.within(later + 1, later + 2 ** 20);
    await link.close();
  });

  for (const before of [null, 2 ** 52])
    it(`takeRun() succeeds for one of two concurrent learners${before ? ', also after an epoch that is ahead of the clock' : ''}`, async () => {
      const { server, link } = await leading();
      const other = new MemoryLink(server);
      await other.connect({});
      for (let round = 0; round < 20; round++) {
        server.free(keys.learner);
        if (before) server.set(keys.info, { protocol: '1', epoch: `${before}` }, undefined);
        const both = await Promise.allSettled(
          [link, other].map((each) => takeRun(each, keys, 'leader')),
        );
        expect(both.map(({ status }) => status).sort()).to.deep.equal(['fulfilled', 'rejected']);
      }
      await other.close();
      await link.close();
    });
});
