/** Several streams with a thread each, which write marks at the same time: none knows another's sessions. */
import { expect } from 'chai';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { itAll } from '../rig/setting.ts';
import { needServer, startServer, type TestServer } from './server.ts';
import { Swarm } from './swarm.ts';

const HOSTS = 16;
const ROWS = 100;

describe('remote/shards', () => {
  let server: TestServer;
  let swarm: Swarm;

  before(async function () {
    needServer(this);
    server = await startServer();
  });
  afterEach(() => swarm?.close());
  after(() => server?.stop());

  itAll('a thread that takes over has the sessions of its own stream alone', async () => {
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
  });
});
