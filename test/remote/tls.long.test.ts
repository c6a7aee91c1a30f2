/**
 * Tests a complete run over TLS with the users that `hotslot acl` prints. All other logins must be
 * rejected.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { expect } from 'chai';
import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { WeightMailbox } from '../../src/index.ts';
import { aclUsers, newPassword } from '../../src/net/remote/acl.ts';
import { checkAddress } from '../../src/net/remote/address.ts';
import { openRedisLink } from '../../src/net/remote/redis-link.ts';
import { ReplyReader } from '../../src/net/remote/reply-reader.ts';
import { type Refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { bufferOf, closeAll, expectWhole, host, learn, leash, newRun, untilAsked } from './runs.ts';
import { needServer, startServer, type TestServer } from './server.ts';

describe('remote collectors over TLS', () => {
  const run = newRun();
  const [learner, collector] = aclUsers(run).map((user) => ({ ...user, password: newPassword() }));
  const secrets = [learner!.password, collector!.password, 'a-secret-of-its-own'];
  let server: TestServer;
  let other: TestServer;
  before(async function () {
    needServer(this);
    const rule = ({ name, rules, password }: { name: string; rules: string; password: string }) =>
      `${name} ${rules.replace('PASSWORD', password)}`;
    server = await startServer({
      tls: true,
      acl: ['default off', rule(learner!), rule(collector!)],
    });
    other = await startServer({ tls: true });
  });
  afterEach(closeAll);
  after(async () => {
    await server?.stop();
    await other?.stop();
  });

  const address = ({ name, password }: { name: string; password: string }, ca = server.ca) => ({
    url: server.url.replace('//', `//${name}@`),
    password,
    ca,
    run,
  });
  /** Checks that the error and its cause are one sentence each and contain no secret. */
  function said(error: Refusal, code: string, text: RegExp): void {
    expect(error).to.include({ code });
    expect(error.message).to.match(text);
    expect(error.message).to.not.include('\n');
    const all = [error.message, error.stack, JSON.stringify(error), `${error.cause}`].join(' ');
    for (const secret of secrets) expect(all).to.not.include(secret);
  }

  itAll('rows and weights arrive with the ACL users of learner and collector', async () => {
    const buffer = bufferOf('rows');
    const mailbox = WeightMailbox.create({ length: 100_000 });
    const remote = await learn({ ...address(learner!), buffer, mailbox, weightsEveryMs: 1 });
    const { entry, to } = leash();
    to(5000);
    const machine = await host({ ...address(collector!), entry, name: 'ann', flushBytes: 4096 });
    for (const version of [1, 2, 3]) {
      mailbox.write(new Float32Array(100_000).fill(version));
      await untilAsked('it is there', () => machine.statistics().version === version);
    }
    to(6000);
    await untilAsked('all is there', () => machine.statistics().acknowledged === 6000);
    await untilAsked('the host is known', () => remote.statistics().steps === 6000);
    expectWhole(buffer, 6000, 1);
    // The ACL rules also allow messages that end a session.
    await machine.close();
    await untilAsked('it has left', () => remote.statistics().hosts === 0);
    await remote.close();
    // The next learner need not wait for the lease to expire.
    await (await learn({ ...address(learner!), buffer })).close();
  });

  it('each connection sends the host name of the server for SNI', async () => {
    const names: (string | false)[] = [];
    const served = createServer({
      SNICallback(name, done) {
        names.push(name);
        done(new Error('nobody is let in'));
      },
    });
    await once(served.listen(0, 'localhost'), 'listening');
    const { port } = served.address() as AddressInfo;
    const url = `rediss://localhost:${port}`;
    try {
      const link = await openRedisLink({ url, name: 'test' });
      const connecting = rejection(link.connect({}));
      await untilAsked('it was asked for', () => names.length > 0);
      await link.close();
      await connecting;
      expect(names.splice(0)).to.deep.equal(['localhost']);
      const reader = new ReplyReader({
        address: checkAddress({ url }),
        name: 'test',
        silenceMs: 1000,
        messageBytes: 1,
      });
      await rejection(reader.open());
      expect(names).to.deep.equal(['localhost']);
    } finally {
      served.close();
    }
  });

  itAll('open() rejects with a one-line error without a secret when access is denied', async () => {
    const { entry } = leash();
    const buffer = bufferOf('rows');
    const both = (options: object) => [
      RemoteCollectors.open({ ...options, buffer } as never),
      CollectorHost.open({ ...options, entry } as never),
    ];
    const unavailable = 'ERR_HOTSLOT_UNAVAILABLE';
    const wrong = { ...learner!, password: 'a-secret-of-its-own' };
    const plain = {
      ...address(learner!),
      url: `redis://${learner!.name}@127.0.0.1:${server.port}`,
      ca: undefined,
    };
    const cases: [object, RegExp][] = [
      [address(wrong), /rejects this user and password/],
      [{ url: server.url, ca: server.ca, run }, /requires a password/],
      [address(learner!, other.ca), /has an invalid certificate/],
      [{ ...address(learner!), ca: undefined }, /has an invalid certificate/],
    ];
    for (const [options, text] of cases)
      for (const error of await Promise.all(both(options).map(rejection)))
        said(error, unavailable, text);
    // A collector's user may not lead, and a learner's user may not use another run.
    said(
      await rejection(learn({ ...address(collector!), buffer })),
      unavailable,
      /NOPERM|does not allow/,
    );
    said(
      await rejection(learn({ ...address(learner!), run: `${run}-other`, buffer })),
      unavailable,
      /NOPERM|does not allow/,
    );

    // A server that answers a plain connection with TLS could still be starting. The host tries
    // again and reports the reason.
    const ends = new AbortController();
    const words: string[] = [];
    const onWait = (text: string) => {
      words.push(text);
      ends.abort(new Error('enough'));
    };
    const error = await rejection(
      CollectorHost.open({ ...plain, entry, onWait, signal: ends.signal }),
    );
    expect(error.message).to.equal('enough');
    expect(words[0]).to.match(/^redis:\/\/hs-[^\n]*127\.0\.0\.1:\d+ /);
    for (const secret of secrets) expect(words[0]).to.not.include(secret);
  });
});
