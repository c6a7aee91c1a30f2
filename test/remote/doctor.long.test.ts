/**
 * Tests what inspectServer() returns for a real server, and that it leaves no key on the server.
 */

import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'chai';
import { aclUsers } from '../../src/net/remote/acl.ts';
import { checkAddress } from '../../src/net/remote/address.ts';
import { inspectServer } from '../../src/net/remote/doctor.ts';
import { findingsOf } from '../../src/net/remote/server-findings.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import {
  freePort,
  needServer,
  type ServerOptions,
  startServer,
  type TestServer,
} from './server.ts';

const MEASURE_MS = 30;

async function withServer(
  options: ServerOptions,
  act: (server: TestServer) => Promise<void>,
): Promise<void> {
  const server = await startServer(options);
  try {
    await act(server);
  } finally {
    await server.stop();
  }
}
const look = (server: TestServer, user: { username?: string; password?: string } = {}) =>
  inspectServer(
    checkAddress({ url: server.url, ...user, ...(server.ca === '' ? {} : { ca: server.ca }) }),
    MEASURE_MS,
  );

describe('inspectServer()', () => {
  before(function () {
    needServer(this);
  });

  it('returns settings and measurements of a server, and leaves no key', () =>
    withServer({}, async (server) => {
      const seen = await look(server);
      expect(seen).to.deep.include({
        shown: server.url,
        tls: false,
        local: true,
        user: 'default',
        mode: 'standalone',
        role: 'master',
        eviction: 'noeviction',
        maxmemory: 0,
        save: '',
        appendOnly: false,
        mayRunScripts: true,
        open: true,
        protectedMode: true,
      });
      expect(seen.version).to.match(/^\d+\.\d+\.\d+/);
      expect(seen.backlog).to.be.greaterThan(0);
      expect(seen.roundTrip!.pings).to.equal(200);
      expect(seen.roundTrip!.p50).to.be.greaterThan(0).and.at.most(seen.roundTrip!.p99);
      expect(seen.bytesPerSecond).to.be.a('number').and.greaterThan(1e6);
      const client = await server.client();
      expect(await client.sendCommand(['DBSIZE'])).to.equal(0);
    }));

  itAll('returns changed settings over TLS with a password, and only the check memory fails', () =>
    withServer(
      { tls: true, acl: ['default on >secret ~* &* +@all'], maxmemory: '100mb', appendonly: true },
      async (server) => {
        const client = await server.client({ password: 'secret' });
        for (const [name, value] of [
          ['maxmemory-policy', 'volatile-lru'],
          ['save', '3600 1'],
        ] as const)
          await client.sendCommand(['CONFIG', 'SET', name, value]);
        const seen = await look(server, { password: 'secret' });
        expect(seen).to.deep.include({
          tls: true,
          open: false,
          eviction: 'volatile-lru',
          maxmemory: 100 * 2 ** 20,
          save: '3600 1',
          appendOnly: true,
        });
        expect(
          findingsOf(seen)
            .filter(({ ok }) => !ok)
            .map(({ check }) => check),
        ).to.deep.equal(['memory']);
      },
    ),
  );

  itAll('does not measure the throughput of a full server or of a replica', () =>
    withServer({ maxmemory: '1kb' }, async (server) => {
      expect((await look(server)).bytesPerSecond).to.match(/^not measured: .*OOM/);
      const client = await server.client();
      await client.sendCommand(['REPLICAOF', '127.0.0.1', `${await freePort()}`]);
      const seen = await look(server);
      expect(seen).to.include({
        role: 'replica',
        bytesPerSecond: 'not measured: it cannot store rows',
      });
    }),
  );

  it('returns null for settings that a user may not see, and still measures the round trip', () =>
    withServer(
      { acl: ['default off', ...aclUsers('x').map(({ name, rules }) => `${name} ${rules}`)] },
      async (server) => {
        const learner = await look(server, { username: 'hs-x-learner', password: 'PASSWORD' });
        expect(learner).to.deep.include({
          user: 'hs-x-learner',
          save: null,
          backlog: null,
          protectedMode: null,
          appendOnly: false,
          eviction: 'noeviction',
          mayRunScripts: false,
          open: false,
        });
        expect(learner.bytesPerSecond).to.match(
          /^not measured: this user may not create the stream hs:\{doctor\}:in:\d+$/,
        );
        const collector = await look(server, { username: 'hs-x-collector', password: 'PASSWORD' });
        expect(collector).to.deep.include({
          maxmemory: null,
          appendOnly: null,
          mayRunScripts: false,
        });
        expect(collector.roundTrip!.pings).to.equal(200);
        for (const seen of [learner, collector])
          expect(findingsOf(seen).every(({ ok }) => ok)).to.equal(true);
      },
    ));

  it('rejects an unreachable or silent server, a missing password, and wrong TLS settings', async () => {
    const at = (url: string, ca?: string) =>
      rejection(inspectServer(checkAddress({ url, ca, env: {} }), MEASURE_MS, 300));
    const port = await freePort();
    const gone = await at(`redis://127.0.0.1:${port}`);
    expect(gone.message).to.equal(
      `redis://127.0.0.1:${port} cannot be reached: connect ECONNREFUSED 127.0.0.1:${port}`,
    );
    await withServer(
      { tls: true, acl: ['default on >secret ~* &* +@all'] },
      async ({ url, ca }) => {
        expect((await at(url, ca)).message).to.match(
          /^\S+ requires a password; .*HOTSLOT_REDIS_PASSWORD/,
        );
        expect((await at(url)).message).to.match(/has an invalid certificate/);
        const plain = url.replace('rediss', 'redis');
        expect((await at(plain)).message).to.match(
          /; if the server uses TLS, its url begins with rediss:\/\/$/,
        );
      },
    );
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port: quiet } = silent.address() as { port: number };
    try {
      const waited = await at(`rediss://127.0.0.1:${quiet}`);
      expect(waited.message).to.match(/did not answer within 300 ms, or does not use TLS$/);
    } finally {
      silent.close();
    }
  });
});
