/**
 * Tests the transfer of weights: a host receives them complete or not at all, always the newest,
 * and with the epoch of their learner.
 */
import { expect } from 'chai';
import { WeightMailbox } from '../../src/index.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { WeightsIn, WeightsOut } from '../../src/net/remote/weights.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';

const keys = keysOf('weights');
/** Length of weights that are sent in two pieces. */
const LENGTH = 2 ** 20 + 5;

describe('WeightsOut and WeightsIn', () => {
  const links: MemoryLink[] = [];
  afterEach(() => Promise.all(links.splice(0).map((link) => link.close())));

  async function linkOf(server: MemoryServer): Promise<MemoryLink> {
    const link = new MemoryLink(server);
    links.push(link);
    await link.connect({});
    return link;
  }

  async function parts(length = LENGTH, epoch = 1) {
    const server = new MemoryServer();
    const mailbox = WeightMailbox.create({ length });
    const learner = await linkOf(server);
    const out = new WeightsOut({ link: learner, keys, mailbox, epoch, everyMs: 1 });
    const publish = async (value: number) => {
      mailbox.write(new Float32Array(length).fill(value));
      await out.store();
    };
    const host = await linkOf(server);
    const own = WeightMailbox.create({ length });
    const weights = new WeightsIn({ link: host, keys, mailbox: own });
    const read = new Float32Array(length);
    /**
     * returns the host's version, the learner's version and the value of all elements, or that the
     * weights are torn
     */
    const had = () => {
      const version = own.read(read, 0);
      return [
        version,
        weights.versionOf(version),
        read.every((each) => each === read[0]) ? read[0] : 'torn',
      ];
    };
    /** Calls `then` at the first load of a key. */
    const atLoad = (key: string, then: () => unknown) => {
      const load = host.load.bind(host) as (...args: unknown[]) => Promise<never>;
      let told = false;
      Object.assign(host, {
        load: async (...args: unknown[]) => {
          if (args[0] === key && !told) {
            told = true;
            await then();
          }
          return load(...args);
        },
      });
    };
    return { server, publish, weights, had, atLoad };
  }

  it('fetch() reads the newest version when a piece of an older version disappears', async () => {
    const { server, publish, weights, had, atLoad } = await parts();
    await publish(1);
    atLoad(keys.weights(1, 1), async () => {
      await publish(2);
      server.free(keys.weights(1, 1));
    });
    expect(await weights.fetch()).to.equal(true);
    expect(had()).to.deep.equal([1, 2, 2]);
    expect(await weights.fetch()).to.equal(false);
  });

  it('fetch() returns false and keeps the weights when a piece of the newest is missing', async () => {
    const { server, publish, weights, had, atLoad } = await parts();
    await publish(1);
    await weights.fetch();
    await publish(2);
    atLoad(keys.weights(2, 1), () => server.free(keys.weights(2, 1)));
    expect(await weights.fetch()).to.equal(false);
    expect(had()).to.deep.equal([1, 1, 1]);
    await publish(3);
    expect(await weights.fetch()).to.equal(true);
    expect(had()).to.deep.equal([2, 3, 3]);
  });

  it('fetch() returns false and loads nothing when a piece is replaced by invalid bytes', async () => {
    const { server, publish, weights, had, atLoad } = await parts();
    await publish(1);
    atLoad(keys.weights(1, 1), () => server.set(keys.weights(1, 1), new Uint8Array(20), undefined));
    expect(await weights.fetch()).to.equal(false);
    expect(had()).to.deep.equal([0, 0, 0]);
  });

  it('versionOf() returns the version of the learner, or 0 for old versions and other epochs', async () => {
    const { publish, weights } = await parts(4);
    for (let version = 1; version <= 1030; version++) {
      await publish(version);
      await weights.fetch();
    }
    expect([1030, 7, 6, 5, 0].map((own) => weights.versionOf(own))).to.deep.equal([
      1030, 7, 0, 0, 0,
    ]);
    expect([weights.versionOf(1030, 1), weights.versionOf(1030, 2)]).to.deep.equal([1030, 0]);
  });
});
