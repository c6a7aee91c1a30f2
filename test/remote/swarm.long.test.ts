/**
 * Tests a thousand hosts at one server. No row may be lost or arrive twice, and each host must get
 * its share.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'chai';
import { describeAll, itLong, setting } from '../rig/setting.ts';
import { needServer, startServer, type TestServer } from './server.ts';
import { Swarm, type SwarmOptions } from './swarm.ts';

const HOSTS = 1000;
const ROWS = setting({ short: 500, all: 500, long: 1000 });
/** number of 32-byte rows that a host may have on the way */
const WINDOW_ROWS = 128;

describeAll(`remote swarm of ${HOSTS} hosts`, () => {
  const stack: { close(): Promise<unknown> }[] = [];
  let server: TestServer;

  before(async function () {
    needServer(this);
    server = await startServer();
  });
  after(() => server?.stop());
  beforeEach(() => server.restart());
  afterEach(async () => {
    for (const each of stack.splice(0).reverse()) await each.close();
  });

  async function open(options: Partial<SwarmOptions> = {}): Promise<Swarm> {
    const swarm = await Swarm.open({
      url: server.url,
      hosts: HOSTS,
      rows: ROWS,
      flushBytes: 2048,
      ...options,
    });
    stack.push(swarm);
    return swarm;
  }

  it('every row arrives once and in order, and each host gets at least half of an equal share', async () => {
    const swarm = await open({ transitBytes: HOSTS * WINDOW_ROWS * 32 });
    await swarm.settled();
    swarm.offer(ROWS);
    // Fewer rows than all hosts have. More than one window each, because the windows of the first
    // hosts may arrive before the last host wakes up.
    const enough = HOSTS * WINDOW_ROWS * 3;
    await swarm.until('three windows of each could be in', () => swarm.buffer.ptr >= enough);
    expect(Math.min(...swarm.counted(enough))).to.be.at.least(enough / HOSTS / 2);
    await swarm.check();
    expect(swarm.hosts.map(({ uplink }) => uplink.queued.repeated)).to.deep.equal(
      swarm.hosts.map(() => 0),
    );
  });

  itLong('every row arrives once and in order over four streams', async () => {
    const swarm = await open({ shards: 4 });
    swarm.offer(ROWS);
    await swarm.check();
  });

  const kills = setting({ short: 1, all: 1, long: 3 });
  it(`every row arrives once and in order after ${kills} empty restarts and a pause of the server`, async () => {
    const swarm = await open();
    const rows = Math.floor(ROWS / (kills + 2));
    const some = async () => {
      const before = swarm.buffer.ptr;
      swarm.offer(rows);
      await swarm.until('some rows of this round are in', () => swarm.buffer.ptr > before);
      expect(swarm.buffer.ptr, 'rows stored before the fault').to.be.below(swarm.offered);
    };
    for (let round = 0; round < kills; round++) {
      await some();
      await server.restart();
    }
    await some();
    server.freeze();
    await wait(800);
    server.thaw();
    swarm.offer(rows);
    await swarm.check();
    expect(Math.min(...swarm.hosts.map(({ lost }) => lost))).to.be.at.least(1);
  });
});
