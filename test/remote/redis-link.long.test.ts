/** Tests what only a network and a real server can do to a link: faults, logins and TLS. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { checkAddress } from '../../src/net/remote/address.ts';
import { BEFORE_FIRST, type Link, LinkError } from '../../src/net/remote/link.ts';
import { loadLibrary, RedisConnection } from '../../src/net/remote/redis-connection.ts';
import { openRedisLink, type RedisLink } from '../../src/net/remote/redis-link.ts';
import { type Refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { Links, Told } from './link-rigs.ts';
import { type Answers, hello, OddServer } from './odd-server.ts';
import { BadNetwork } from './proxy.ts';
import { freePort, needServer, startServer, type TestServer } from './server.ts';

const SECRET = 'open-sesame';
const UNAVAILABLE = 'ERR_HOTSLOT_UNAVAILABLE';
const bytes = (...values: number[]) => Uint8Array.from(values);
const howOf = (error: Error) => (error instanceof LinkError ? error.how : error);
const everything = (value: unknown) => inspect(value, { depth: 20, showHidden: true });

describe('RedisLink with a scripted server', () => {
  const links = new Links();
  let server: OddServer;
  const link = async (answers: Answers, rest: object = {}): Promise<RedisLink> => {
    server = await OddServer.open(answers);
    return links.redis({ url: server.url, name: 'test', ...rest });
  };
  afterEach(async () => {
    await links.close();
    await server?.close();
  });

  it('connect() rejects a server older than 6.2 and names its version', async () => {
    for (const [name, version, fine] of [
      ['redis', '6.0.16', false],
      ['redis', '5.9.9', false],
      ['redis', '6.2.0', true],
      ['redis', '10.0.0', true],
      ['valkey', '1.0.0', true],
    ] as const) {
      const made = await link({ HELLO: hello(name, version) });
      if (fine) expect(await made.connect({})).to.deep.equal({ run: 'odd', evicts: '' });
      else {
        const error = await rejection(made.connect({}));
        expect(error.code).to.equal(UNAVAILABLE);
        expect(error.message).to.include(version).and.to.include('6.2');
      }
      await links.close();
      await server.close();
    }
    server = await OddServer.open({});
  });

  it('errors and objects never contain a password that the server echoes', async () => {
    const echo = (args: readonly string[]) =>
      `-ERR unknown command \`HELLO\`, with args beginning with: ${args.slice(1)}\r\n`;
    const told = new Told();
    const old = await link({ HELLO: echo }, { password: SECRET });
    const error = await rejection(old.connect(told));
    expect(error.code).to.equal(UNAVAILABLE);
    expect(error.message).to.match(/older than Redis 6/);
    expect(everything([error, old, told])).not.to.include(SECRET);
    server.answers = { HELLO: (args) => `-ERR strange ${args}\r\n` };
    const odd = await links.redis({ url: server.url, name: 'test', password: SECRET });
    odd.connect(told).catch(() => {});
    await told.when(() => told.causes.length > 0);
    expect(told.causes[0]!.message).to.include('strange');
    expect(everything([told, odd])).not.to.include(SECRET);
  });

  it('connect() gives up an attempt without a reply after `silenceMs`, and tries again', async () => {
    const told = new Told();
    const made = await link({ HELLO: null }, { silenceMs: 60 });
    const connected = made.connect(told);
    await until('it has tried again', () => server.taken >= 3);
    expect(told.causes[0]).to.be.instanceOf(LinkError);
    expect(told.causes[0]!.message).to.match(/within 60 ms/);
    // A second failure for the same reason is not reported again.
    expect(told.causes).to.have.length(1);
    server.answers = {};
    expect(await connected).to.deep.equal({ run: 'odd', evicts: '' });
  });

  it('connect() tries again when INFO or SUBSCRIBE has no reply', async () => {
    const told = new Told('a');
    const made = await link({ INFO: null, SUBSCRIBE: null }, { silenceMs: 60 });
    // A suspended server does not answer PING either.
    server.answers = { ...server.answers, PING: null };
    const connected = made.connect(told);
    await told.when(() => told.causes.length === 1);
    expect(told.causes[0]!.message).to.match(/silent/);
    server.answers = { SUBSCRIBE: null, PING: null };
    const { taken } = server;
    await until('it hangs at the second line', () => server.taken >= taken + 4);
    expect(told.servers).to.deep.equal([]);
    server.answers = { SUBSCRIBE: '>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n' };
    expect(await connected).to.deep.equal({ run: 'odd', evicts: '' });
  });

  it('close() rejects a hanging attempt with `lost` and closes its socket', async () => {
    server = await OddServer.open({ HELLO: null });
    // One attempt hangs at HELLO, and the other one hangs before TLS is established.
    for (const url of [server.url, server.url.replace('redis:', 'rediss:')]) {
      const made = await links.redis({ url, name: 'test', silenceMs: 60_000 });
      const connecting = rejection(made.connect(new Told()));
      await until('it hangs', () => server.open === 1);
      await made.close();
      expect(howOf(await connecting)).to.equal('lost');
      await until('its socket is gone', () => server.open === 0);
    }
  });

  it('waits longer before each new connection if the server keeps hanging up', async () => {
    const told = new Told();
    const began = performance.now();
    const made = await link({ GET: 'end' });
    Object.assign(told, { connected: () => void made.load('key').catch(() => {}) });
    await made.connect(told);
    await told.when(() => told.causes.length === 5);
    // The delays are at least half of 50, 100, 200 and 400 ms.
    expect(performance.now() - began).to.be.at.least(370);
  });

  it('a read without a reply rejects with `lost`, and the link connects again', async () => {
    const told = new Told();
    const made = await link({ XREAD: null }, { silenceMs: 100 });
    await made.connect(told);
    const error = await rejection(made.read('s', BEFORE_FIRST, 1, 20));
    expect(howOf(error)).to.equal('lost');
    expect(error.message).to.match(/has been silent/);
    await told.when(() => told.servers.length === 2);
  });

  it('an append to a read-only replica rejects with `lost`, and the link connects again', async () => {
    const told = new Told();
    const made = await link({ XADD: "-READONLY You can't write against a read only replica.\r\n" });
    await made.connect(told);
    expect(howOf(await rejection(made.append('s', bytes(1))))).to.equal('lost');
    await told.when(() => told.servers.length === 2);
    expect(told.causes[0]!.message).to.match(/READONLY/);
  });

  it('lease() runs concurrent transactions one after another', async () => {
    const asked: string[] = [];
    const say = (reply: string) => (args: readonly string[]) => {
      asked.push(args[0]!);
      return reply;
    };
    const transaction = {
      WATCH: say('+OK\r\n'),
      MULTI: say('+OK\r\n'),
      PEXPIRE: say('+QUEUED\r\n'),
      EXEC: say('*1\r\n:1\r\n'),
    };
    const made = await link({ SET: say('_\r\n'), GET: say('$2\r\nme\r\n'), ...transaction });
    await made.connect({});
    expect(
      await Promise.all([made.lease('a', 'me', 1000), made.lease('b', 'me', 1000)]),
    ).to.deep.equal(['me', 'me']);
    const one = ['SET', 'WATCH', 'GET', 'MULTI', 'PEXPIRE', 'EXEC'];
    expect(asked).to.deep.equal([...one, ...one]);
  });

  it('RedisConnection creates clients of one class for all names', async () => {
    server = await OddServer.open({});
    const library = await loadLibrary();
    const classes = new Set<unknown>();
    const noted = (client: object) => {
      classes.add(client.constructor);
      return client;
    };
    const factory = (config: object) => (options: object) =>
      noted(library.RedisClient.factory(config)(options));
    const createClient = (options: object) => noted(library.createClient(options));
    const address = checkAddress({ url: server.url });
    for (const name of ['ann', 'bob']) {
      const noting = {
        ...library,
        createClient,
        RedisClient: { factory },
      } as unknown as typeof library;
      const line = new RedisConnection({ library: noting, address, name, silenceMs: 60_000 });
      await line.open();
      line.end(new LinkError('lost', 'the test is over'));
    }
    expect(classes.size).to.equal(1);
  });

  it('connect() rejects a second call with ERR_HOTSLOT_STATE_BUSY', async () => {
    const made = await link({});
    await made.connect({});
    expect((await rejection(() => made.connect({}))).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
  });

  it('loadLibrary() rejects with the install command when the package is missing', async () => {
    const missing = Object.assign(new Error("Cannot find package '@redis/client'"), {
      code: 'ERR_MODULE_NOT_FOUND',
    });
    const error = await rejection(loadLibrary(() => Promise.reject(missing)));
    expect(error.code).to.equal(UNAVAILABLE);
    expect(error.message).to.match(/not installed here: npm install @redis\/client$/);
    const broken = await rejection(loadLibrary(() => Promise.reject(new Error('broken'))));
    expect(broken.message).to.match(/cannot be loaded: broken/);
  });
});

describe('RedisLink over a faulty network', () => {
  const links = new Links();
  let server: TestServer;
  let network: BadNetwork;
  before(async function () {
    needServer(this);
    server = await startServer();
  });
  after(() => server?.stop());
  beforeEach(async () => {
    network = await BadNetwork.open(server.port);
  });
  afterEach(async () => {
    await links.close();
    await network.close();
    await (await server.client()).flushAll();
  });
  const open = async (told: Told, silenceMs = 5000): Promise<Link> => {
    const link = await links.redis({
      url: `redis://127.0.0.1:${network.port}`,
      name: 'test',
      silenceMs,
    });
    await link.connect(told);
    return link;
  };

  it('detects a silent server, rejects with `lost` and connects again', async () => {
    const told = new Told('a');
    const link = await open(told, 250);
    network.stall();
    expect(howOf(await rejection(link.append('s', bytes(1))))).to.equal('lost');
    expect(told.causes[0]!.message).to.match(/silent/);
    network.cut();
    network.flow();
    await told.when(() => told.servers.length === 2);
    await link.notify('a', 'again');
    await told.when(() => told.notices.length === 1);
  });

  itAll('sends pings to the server and stays connected', async () => {
    const told = new Told('a');
    // The link sends two pings in this time, and even a busy machine answers in time.
    const link = await open(told, 1000);
    const client = await server.client();
    await client.sendCommand(['CONFIG', 'RESETSTAT']);
    const pings = async () =>
      /cmdstat_ping:calls=(\d+)/.exec(
        (await client.sendCommand(['INFO', 'commandstats'])) as string,
      );
    let count = 0;
    for (const end = performance.now() + 60_000; count < 4 && performance.now() < end; )
      count = Number((await pings())?.[1] ?? 0);
    expect(count).to.be.at.least(4);
    await link.notify('a', 'here');
    await told.when(() => told.notices.length === 1);
    expect(told.causes).to.deep.equal([]);
    expect(told.servers).to.have.length(1);
  });

  it('append() stores nothing of a message that is cut off by the end of the connection', async () => {
    const told = new Told();
    const link = await open(told);
    const calls = [
      link.append('s', bytes(1)),
      link.append('s', new Uint8Array(1 << 20).fill(2)),
      link.append('s', bytes(3)),
    ];
    network.cutAfter(1 << 19);
    const ends = await Promise.allSettled(calls);
    expect(
      ends.slice(1).map((end) => end.status === 'rejected' && howOf(end.reason)),
    ).to.deep.equal(['lost', 'lost']);
    await told.when(() => told.servers.length === 2);
    const there = await link.read('s', BEFORE_FIRST, 10, 0);
    expect(there.map((entry) => entry.bytes[0])).to.deep.equal([1]);
  });

  itAll('append() keeps the order of 100 concurrent messages of 64 KiB', async () => {
    const link = await open(new Told());
    const sent = Array.from({ length: 100 }, (_, at) =>
      link.append('s', new Uint8Array(1 << 16).fill(at)),
    );
    await Promise.all(sent);
    const there = await link.read('s', BEFORE_FIRST, 1000, 0);
    expect(there.map((entry) => entry.bytes[9])).to.deep.equal(
      Array.from({ length: 100 }, (_, at) => at),
    );
  });

  it('does not treat a slow connection as silent', async () => {
    const told = new Told();
    const link = await open(told, 200);
    network.bytesPerSecond = 2 ** 20;
    await link.append('s', new Uint8Array(1 << 19));
    expect(told.causes).to.deep.equal([]);
  });

  itAll('read() succeeds over a slow connection after attempts that end with `lost`', async () => {
    const told = new Told();
    const link = await open(told, 60);
    await link.append('s', new Uint8Array(1 << 17));
    network.bytesPerSecond = 2 ** 19;
    for (let tries = 1; ; tries++) {
      const found = await link.read('s', BEFORE_FIRST, 1, 0).catch(howOf);
      if (Array.isArray(found)) break;
      expect(found).to.equal('lost');
      await told.when(() => told.servers.length > tries);
    }
    expect(told.causes).to.have.length.of.at.least(1);
  });

  it('connect() reports ECONNREFUSED, and resolves after the server has started', async () => {
    const port = await freePort();
    const told = new Told();
    const link = await links.redis({ url: `redis://127.0.0.1:${port}`, name: 'test' });
    const connected = link.connect(told);
    await told.when(() => told.causes.length > 0);
    expect(told.causes[0]!.message).to.match(/ECONNREFUSED/);
    const late = await startServer({ port });
    try {
      expect((await connected).run).to.have.length(40);
      expect(told.servers).to.have.length(1);
    } finally {
      await links.close();
      await late.stop();
    }
  });
});

describe('RedisLink users and databases', () => {
  const links = new Links();
  let server: TestServer;
  before(async function () {
    needServer(this);
    const collector =
      '~hs:{x}:in:* ~hs:{x}:info resetchannels &hs:{x}:* -@all +xadd +get +hget +subscribe +ping +hello';
    server = await startServer({
      acl: ['default off', `ann on >${SECRET} ~* &* +@all`, `col on >${SECRET} ${collector}`],
    });
  });
  after(() => server?.stop());
  afterEach(() => links.close());
  const connect = async (options: object, told = new Told()) => {
    const link = await links.redis({ url: server.url, name: 'link of a test', ...options });
    return { link, server: await link.connect(told) };
  };
  const refused = (options: object, told?: Told): Promise<Refusal> =>
    rejection(connect(options, told));

  it('connects by a Unix socket, and uses the database of its URL', async () => {
    const user = { username: 'ann', password: SECRET };
    const client = await server.client(user);
    const { link } = await connect({ ...user, url: `unix://${server.path}` });
    await link.store('key', bytes(7));
    expect(await client.get('key')).to.equal('\x07');
    const { link: second } = await connect({ ...user, url: `${server.url}/2` });
    expect(await second.load('key')).to.equal(null);
  });

  it('logs in with user and password, sets its client name and hides the password', async () => {
    const { link, server: found } = await connect({ username: 'ann', password: SECRET });
    expect(found.run).to.have.length(40);
    const client = await server.client({ username: 'ann', password: SECRET });
    expect(await client.sendCommand(['CLIENT', 'LIST'])).to.match(/name=link-of-a-test .*user=ann/);
    expect(everything(link) + JSON.stringify(link)).not.to.include(SECRET);
  });

  it('connect() rejects wrong logins and forbidden channels without the password in the error', async () => {
    const told = new Told();
    const wrong = [
      [{ username: 'ann', password: `${SECRET}!` }, /rejects this user and password/],
      [{ username: 'bob', password: SECRET }, /rejects this user and password/],
      [{}, /requires a password/],
    ] as const;
    for (const [options, words] of wrong) {
      const error = await refused(options, told);
      expect(error.code).to.equal(UNAVAILABLE);
      expect(error.message).to.match(words).and.to.include(server.url.slice('redis://'.length));
      expect(everything(error)).not.to.include(SECRET);
    }
    const forbidden = await refused({ username: 'col', password: SECRET }, new Told('hs:{y}:v'));
    expect(forbidden.code).to.equal(UNAVAILABLE);
    expect(forbidden.message).to.match(/SUBSCRIBE.*NOPERM/s);
    expect(told.causes).to.deep.equal([]);
  });

  it('calls outside the ACL rules reject with `denied`, and `run` is empty without INFO', async () => {
    const { link, server: found } = await connect(
      { username: 'col', password: SECRET },
      new Told('hs:{x}:v'),
    );
    expect(found).to.deep.equal({ run: '', evicts: '' });
    await link.append('hs:{x}:in:0', bytes(1));
    expect(await link.load('hs:{x}:info', ['kind'])).to.deep.equal([null]);
    for (const call of [
      link.append('hs:{y}:in:0', bytes(1)),
      link.trim('hs:{x}:in:0', '1-1'),
      link.lease('hs:{x}:learner', 'me', 1000),
    ])
      expect(howOf(await rejection(call))).to.equal('denied');
    // The connection still works.
    await link.append('hs:{x}:in:0', bytes(2));
  });
});

describe('RedisLink over TLS', () => {
  const links = new Links();
  let server: TestServer;
  let other: TestServer;
  before(async function () {
    needServer(this);
    [server, other] = await Promise.all([
      startServer({ tls: true }),
      startServer({ tls: { name: 'other.example' } }),
    ]);
  });
  after(() => Promise.all([server, other].map((each) => each?.stop())));
  afterEach(() => links.close());
  const connect = async (url: string, ca?: string) => {
    const link = await openRedisLink({ url, name: 'test', ...(ca && { ca }) });
    await links.keep(link).connect(new Told('a'));
    return link;
  };

  it('carries messages when the authority and the host name match', async () => {
    const link = await connect(server.url, server.ca);
    const long = new Uint8Array(new SharedArrayBuffer(1 << 20)).fill(5);
    await link.append('s', long);
    const [entry] = await link.read('s', BEFORE_FIRST, 1, 1000);
    expect(Buffer.compare(entry!.bytes, long)).to.equal(0);
    await connect(server.url.replace('127.0.0.1', 'localhost'), server.ca);
  });

  it('connect() rejects an unknown authority and a wrong host name', async () => {
    for (const [url, ca, words] of [
      [server.url, undefined, /certificate/],
      [server.url, other.ca, /certificate/],
      [other.url, other.ca, /ERR_TLS_CERT_ALTNAME_INVALID/],
    ] as const) {
      const error = await rejection(connect(url, ca));
      expect(error.code).to.equal(UNAVAILABLE);
      expect(error.message).to.match(words);
    }
  });

  it('connect() rejects a server without TLS', async () => {
    const plain = createServer((socket) =>
      socket.on('error', () => {}).end('-ERR what?\r\n'),
    ).listen(0, '127.0.0.1');
    await once(plain, 'listening');
    try {
      const error = await rejection(
        connect(`rediss://127.0.0.1:${(plain.address() as AddressInfo).port}`),
      );
      expect(error.code).to.equal(UNAVAILABLE);
      expect(error.message).to.match(/does not use TLS/);
    } finally {
      plain.close();
    }
  });

  it('verifies certificates even if NODE_TLS_REJECT_UNAUTHORIZED is 0', async () => {
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    const { emitWarning } = process;
    process.emitWarning = () => {};
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      expect((await rejection(connect(server.url))).code).to.equal(UNAVAILABLE);
    } finally {
      process.emitWarning = emitWarning;
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    }
  });
});
