/**
 * Tests several streams, each with its own thread, which write session offsets at the same time. No
 * thread may know the sessions of another.
 */
import { expect } from 'chai';
import { RemoteCollectors } from '../../src/entries/remote.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { BadNetwork } from './proxy.ts';
import { bufferOf, newRun, untilAsked } from './runs.ts';
import { needServer, startServer, type TestServer } from './server.ts';
import { Swarm } from './swarm.ts';

const HOSTS = 16;
const ROWS = 100;

describe('remote shards', () => {
  let server: TestServer;
  let swarm: Swarm;

  before(async function () {
    needServer(this);
    server = await startServer();
  });
  afterEach(() => swarm?.close());
  after(() => server?.stop());

  itAll(
    'a thread that replaces another thread takes only the sessions of its own stream',
    async () => {
      swarm = await Swarm.open({ url: server.url, hosts: HOSTS, rows: 2 * ROWS, shards: 2 });
      swarm.offer(ROWS);
      await swarm.check();
      await remoteThreadsOf(swarm.remote)[1]!.terminate();
      const known = () => {
        const { hosts, silent } = swarm.remote.statistics();
        return hosts + silent;
      };
      await swarm.until('its sessions are counted no more', () => known() < HOSTS);
      swarm.offer(ROWS);
      await swarm.check();
      await swarm.until('both threads have told', () => known() >= HOSTS);
      expect(known()).to.equal(HOSTS);
    },
  );

  itAll(
    'open() rejects and all threads end when a thread fails before the others are ready',
    async () => {
      const network = await BadNetwork.open(server.port);
      const url = `redis://127.0.0.1:${network.port}`;
      const client = await server.client();
      const buffer = bufferOf('rows');
      try {
        const alone = await RemoteCollectors.open({ url, run: newRun(), buffer });
        const each = network.connections;
        await alone.close();
        await untilAsked('its connections have ended', () => network.connections === 0);
        // The connections of the second thread carry nothing.
        network.most = each;
        const run = newRun();
        const opening = rejection(RemoteCollectors.open({ url, run, buffer, shards: 2 }));
        await untilAsked('the first thread has the run', () => client.exists(keysOf(run).info));
        await client.set(keysOf(run).learner, `${Number.MAX_SAFE_INTEGER}`);
        const { code, message } = await opening;
        expect([code, message]).to.deep.equal([
          'ERR_HOTSLOT_STATE_BUSY',
          `another learner has taken the run '${run}' while this one had no connection`,
        ]);
        await untilAsked('no thread has a connection', () => network.connections === 0);
      } finally {
        client.destroy();
        await network.close();
      }
    },
  );
});
