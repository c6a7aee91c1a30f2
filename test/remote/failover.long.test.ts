/**
 * Tests hosts whose server is killed. Either the server restarts empty, or a replica that lacks the
 * latest values replaces it.
 */
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { RateLimiter, type ReplayBuffer } from '../../src/index.ts';
import { readAcknowledgement } from '../../src/net/remote/acknowledgement.ts';
import { sessionName } from '../../src/net/remote/keys.ts';
import { run as command } from '../cli/run-command.ts';
import { itAll, setting } from '../rig/setting.ts';
import { BadNetwork } from './proxy.ts';
import { bufferOf, closeAll, expectWhole, keep, learn, newRun, untilAsked } from './runs.ts';
import { needServer, startServer, type TestServer } from './server.ts';
import { Swarm } from './swarm.ts';

const HOSTS = 12;
/** Rows of each host in a round that the replica has received, and that it has not. */
const [HAS, LACKS] = [100, 200];

describe('remote failover', () => {
  before(function () {
    needServer(this);
  });
  afterEach(closeAll);
  const started = async (options = {}) => {
    const server = await startServer(options);
    keep({ close: () => server.stop() });
    return server;
  };

  itAll(
    'every row arrives once after failover to a replica that lags and is promoted late',
    async () => {
      const ROUNDS = setting({ short: 0, all: 2, long: 20 });
      const ask = async (server: TestServer, ...args: string[]) => {
        const client = await server.client();
        const reply = await client.sendCommand(args);
        client.destroy();
        return reply as unknown as string;
      };
      const offsetOf = async (server: TestServer) =>
        Number(/^master_repl_offset:(\d+)/m.exec(await ask(server, 'INFO', 'replication'))?.[1]);
      let primary = await started();
      const door = keep(await BadNetwork.open(primary.port));
      const rows = HAS + LACKS + 1;
      const swarm = keep(
        await Swarm.open({
          url: `redis://127.0.0.1:${door.port}`,
          hosts: HOSTS,
          rows: rows * ROUNDS,
          width: 64,
          lead: (HOSTS * (HAS + LACKS)) / 2,
        }),
      );
      for (let round = 0; round < ROUNDS; round++) {
        const line = keep(await BadNetwork.open(primary.port));
        const replica = await started({ replicaOf: line.port });
        const before = swarm.buffer.ptr;
        swarm.offer(HAS);
        await swarm.until('the first ones are in', () => swarm.buffer.ptr === before + HOSTS * HAS);
        const offset = await offsetOf(primary);
        await untilAsked('the replica has them', async () => (await offsetOf(replica)) >= offset);
        line.stall();
        swarm.offer(LACKS);
        await swarm.until('more are in', () => swarm.buffer.ptr > before + HOSTS * HAS + 300);
        await swarm.until('all is on the way', () =>
          swarm.hosts.every(({ uplink }) => uplink.waiting === 0 && uplink.queued.allReplied),
        );
        expect(swarm.buffer.ptr, 'not all of them').to.be.below(swarm.offered);
        const lost = swarm.hosts.map((host) => host.lost);
        await primary.kill();
        line.cut();
        door.target = replica.port;
        // The new server is still a replica, so it rejects all writes.
        swarm.offer(1);
        await swarm.until('all were refused', () =>
          swarm.hosts.every((host, i) => host.lost >= lost[i]! + 2),
        );
        const names = swarm.hosts.map(({ session }) => sessionName(session));
        const acks = (await ask(
          replica,
          'HMGET',
          swarm.keys.acks,
          ...names,
        )) as unknown as string[];
        const known = acks.reduce((sum, text) => sum + readAcknowledgement(text)!.row, 0);
        expect(known, 'rows that the replica knows as acknowledged').to.be.below(swarm.buffer.ptr);
        await ask(replica, 'REPLICAOF', 'NO', 'ONE');
        swarm.buffer.limiter!.countSamples(HOSTS * rows);
        await swarm.until('all of this round is in', () => swarm.buffer.ptr === swarm.offered);
        primary = replica;
      }
      await swarm.check();
    },
  );

  itAll(
    'rows of `hotslot collect` arrive once when the server restarts empty again and again',
    async () => {
      const server = await started();
      const [url, run] = [server.url, newRun()];
      const [KILLS, ROWS, lead] = [setting({ short: 0, all: 3, long: 60 }), 5000, 2000];
      const names = ['ann', 'bob', 'cid'];
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: lead,
        gateAdd: true,
      });
      const buffer = bufferOf('rows', 1, limiter) as ReplayBuffer;
      const remote = await learn({ url, run, buffer, options: { limit: ROWS } });
      const stop = new AbortController();
      keep({ close: () => stop.abort() });
      const entry = fileURLToPath(new URL('./run-collector.js', import.meta.url));
      const hosts = names.map((name) =>
        command(
          'src/cli/main.js',
          [
            'collect',
            '--url',
            url,
            '--run',
            run,
            '--entry',
            entry,
            '--workers',
            '2',
            '--name',
            name,
          ],
          { signal: stop.signal },
        ),
      );
      const all = names.length * 2 * ROWS;
      for (let kill = 0; kill < KILLS; kill++) {
        const before = buffer.ptr;
        limiter.countSamples(Math.floor(all / (KILLS + 1)));
        await untilAsked('the next ones come in', () => buffer.ptr > before);
        expect(buffer.ptr, 'not all of them').to.be.below(all);
        await server.restart();
      }
      limiter.countSamples(all);
      await untilAsked('all is in', () => buffer.ptr >= all, {
        tell: () => JSON.stringify(remote.statistics()),
      });
      stop.abort();
      for (const { code, lines, stderr } of await Promise.all(hosts)) {
        expect([code, stderr]).to.deep.equal([130, '']);
        expect(lines.at(-1)).to.equal(
          `ended after ${(2 * ROWS).toLocaleString('en-US')} steps: the learner has all of their rows`,
        );
      }
      expectWhole(buffer, ROWS, 2 * names.length);
      expect(remote.statistics()).to.include({ lost: 0, refused: 0 });
    },
  );
});
