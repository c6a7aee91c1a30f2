/** Tests the contract of every link, over a server in memory and over Redis or Valkey. */
import { expect } from 'chai';
import { BEFORE_FIRST, type Entry, type Link, LinkError } from '../../src/net/remote/link.ts';
import { rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import { Links, memoryRig, type Rig, redisRig, Told } from './link-rigs.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';
import { needServer } from './server.ts';

const bytes = (...values: number[]) => Uint8Array.from(values);
const firsts = (entries: readonly Entry[]) => entries.map((entry) => entry.bytes[0]);
const howOf = (error: Error) => (error instanceof LinkError ? error.how : error);

function contract(make: () => Rig | Promise<Rig>): void {
  const links = new Links();
  let rig: Rig;
  before(async () => {
    rig = await make();
  });
  after(() => rig?.stop());
  afterEach(async () => {
    await links.close();
    await rig.empty();
  });
  const open = async (told = new Told()): Promise<Link> => {
    const link = links.keep(await rig.open());
    await link.connect(told);
    return link;
  };

  it('connect() returns the run of the server, and `connected` receives the same server', async () => {
    const told = new Told();
    const link = links.keep(await rig.open());
    const server = await link.connect(told);
    expect(server.run).to.match(/./);
    expect(told.servers).to.deep.equal([server]);
    expect(told.causes).to.deep.equal([]);
  });

  it('read() returns messages after an id in append order, and length() counts messages', async () => {
    const [from, to] = [await open(), await open()];
    await Promise.all([1, 2, 3, 4, 5].map((value) => from.append('s', bytes(value, 0, 255))));
    const all = await to.read('s', BEFORE_FIRST, 10, 0);
    expect(firsts(all)).to.deep.equal([1, 2, 3, 4, 5]);
    expect([...all[0]!.bytes]).to.deep.equal([1, 0, 255]);
    expect(firsts(await to.read('s', all[1]!.id, 2, 0))).to.deep.equal([3, 4]);
    expect(await to.read('s', all[4]!.id, 10, 0)).to.deep.equal([]);
    expect(await to.read('other', BEFORE_FIRST, 10, 0)).to.deep.equal([]);
    expect([await to.length('s'), await to.length('other')]).to.deep.equal([5, 0]);
    await to.trim('s', all[1]!.id);
    expect(await to.length('s')).to.equal(3);
  });

  it('append() stores subarrays, messages of 3 MiB and empty messages', async () => {
    const link = await open();
    const long = new Uint8Array(new SharedArrayBuffer(3 << 20), 8, (3 << 20) - 16).fill(7);
    await Promise.all([
      link.append('s', bytes(9, 1, 9).subarray(1, 2)),
      link.append('s', long),
      link.append('s', bytes()),
    ]);
    const all = await link.read('s', BEFORE_FIRST, 10, 0);
    expect(all.map((entry) => entry.bytes.length)).to.deep.equal([1, long.length, 0]);
    expect(Buffer.compare(all[1]!.bytes, long)).to.equal(0);
    expect(all[0]!.bytes[0]).to.equal(1);
  });

  it('read() waits for the first message within its time limit, and blocks no other call', async () => {
    const [from, to] = [await open(), await open()];
    expect(await to.read('s', BEFORE_FIRST, 10, 5)).to.deep.equal([]);
    const waiting = to.read('s', BEFORE_FIRST, 10, 10_000);
    // The link makes other calls while the read waits.
    await to.store('key', bytes(1));
    await from.append('s', bytes(1));
    const [first] = await waiting;
    expect(first!.bytes[0]).to.equal(1);
    expect(await to.read('s', first!.id, 10, 5)).to.deep.equal([]);
  });

  it('trim() drops messages up to the given id, and no later message', async () => {
    const link = await open();
    for (const value of [1, 2, 3, 4]) await link.append('s', bytes(value));
    const all = await link.read('s', BEFORE_FIRST, 10, 0);
    await link.trim('s', all[1]!.id);
    expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([3, 4]);
    await link.trim('s', all[3]!.id);
    expect(await link.read('s', BEFORE_FIRST, 10, 0)).to.deep.equal([]);
    await link.trim('s', all[3]!.id);
    await link.append('s', bytes(5));
    expect(firsts(await link.read('s', all[3]!.id, 10, 0))).to.deep.equal([5]);
  });

  it('notify() reaches only links that subscribe to the channel at the time', async () => {
    const [one, two] = [new Told('a', 'b'), new Told('b')];
    const [link] = [await open(one), await open(two)];
    await link.notify('a', 'only one');
    await link.notify('c', 'nobody');
    await link.notify('b', 'both ☎');
    await one.when(() => one.notices.length === 2);
    await two.when(() => two.notices.length === 1);
    expect(one.notices).to.deep.equal([
      ['a', 'only one'],
      ['b', 'both ☎'],
    ]);
    const late = new Told('b');
    await open(late);
    await link.notify('b', 'second');
    await late.when(() => late.notices.length > 0);
    expect(late.notices).to.deep.equal([['b', 'second']]);
  });

  it('load() returns stored bytes and fields, and null for missing values', async () => {
    const [one, two] = [await open(), await open()];
    expect(await one.load('bytes')).to.equal(null);
    expect(await one.load('fields', ['a', 'b'])).to.deep.equal([null, null]);
    await one.store('bytes', bytes(0, 255, 10, 13));
    await one.store('fields', { a: '1', b: 'é\r\n' });
    await one.store('fields', { a: '2', c: '' });
    expect([...(await two.load('bytes'))!]).to.deep.equal([0, 255, 10, 13]);
    expect(await two.load('fields', ['b', 'a', 'none', 'c'])).to.deep.equal([
      'é\r\n',
      '2',
      null,
      '',
    ]);
    expect(await two.load('fields', ['a'])).to.deep.equal(['2']);
  });

  it('load() returns null after the lifetime, and a later store() removes the lifetime', async () => {
    const link = await open();
    await Promise.all([
      link.store('bytes', bytes(1), 30),
      link.store('fields', { a: '1' }, 30),
      link.store('stays', bytes(2)),
    ]);
    const gone = async () =>
      (await link.load('bytes')) === null && (await link.load('fields', ['a']))[0] === null;
    for (const end = performance.now() + 60_000; !(await gone()); )
      expect(performance.now()).to.be.below(end);
    expect(await link.load('stays')).not.to.equal(null);
    // Storing a value again replaces its lifetime. Without a lifetime the value stays.
    await link.store('bytes', bytes(1), 1);
    await link.store('bytes', bytes(3));
    for (const end = performance.now() + 20; performance.now() < end; )
      expect(await link.load('bytes')).not.to.equal(null);
  });

  it('lease() gives a key to one holder until the lease runs out', async () => {
    const [one, two] = [await open(), await open()];
    const found = await Promise.all([
      one.lease('key', 'one', 60_000),
      two.lease('key', 'two', 60_000),
    ]);
    expect(found[0]).to.equal(found[1]);
    const [holder, other] = found[0] === 'one' ? [one, two] : [two, one];
    const [name, another] = found[0] === 'one' ? ['one', 'two'] : ['two', 'one'];
    expect(
      await Promise.all([holder.lease('key', name, 60_000), other.lease('key', another, 60_000)]),
    ).to.deep.equal([name, name]);
    expect(Buffer.from((await two.load('key'))!).toString()).to.equal(name);
    // The holder renews its lease for 20 ms. When it has expired, the other holder gets it.
    await holder.lease('key', name, 20);
    let now = name;
    for (const end = performance.now() + 60_000; now === name && performance.now() < end; )
      now = await other.lease('key', another, 60_000);
    expect(now).to.equal(another);
    expect(await holder.lease('key', name, 20)).to.equal(another);
    // Leases of two keys at once do not interfere.
    const two_keys = [
      one.lease('a', 'one', 60_000),
      one.lease('b', 'one', 60_000),
      one.lease('a', 'one', 60_000),
    ];
    expect(await Promise.all(two_keys)).to.deep.equal(['one', 'one', 'one']);
  });

  it('append() and store() reject with `full` on a full server, and read() still works', async () => {
    const link = await open();
    await link.append('s', bytes(1));
    await rig.fill(true);
    try {
      expect(howOf(await rejection(link.append('s', bytes(2))))).to.equal('full');
      expect(howOf(await rejection(link.store('bytes', bytes(2))))).to.equal('full');
      // Calls that need no memory still succeed.
      expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([1]);
    } finally {
      await rig.fill(false);
    }
    await link.append('s', bytes(3));
    expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([1, 3]);
  });

  it('calls reject with `denied` for a key of another type', async () => {
    const link = await open();
    await link.store('fields', { a: '1' });
    expect(howOf(await rejection(link.append('fields', bytes(1))))).to.equal('denied');
    expect(howOf(await rejection(link.read('fields', BEFORE_FIRST, 1, 5)))).to.equal('denied');
    expect(howOf(await rejection(link.load('fields')))).to.equal('denied');
    expect(await link.load('fields', ['a'])).to.deep.equal(['1']);
  });

  it('pending calls reject with `lost` when the connection ends, and are never sent again', async () => {
    const told = new Told('a');
    const link = await open(told);
    await link.append('s', bytes(1));
    const [first] = await link.read('s', BEFORE_FIRST, 10, 0);
    const reading = rejection(link.read('s', first!.id, 10, 10_000));
    rig.freeze();
    const calls = [
      link.append('s', bytes(2)),
      link.notify('a', 'x'),
      link.load('key'),
      link.lease('key', 'me', 1000),
    ];
    const ends = Promise.all([...calls.map(rejection), reading]);
    await rig.crash();
    expect((await ends).map(howOf)).to.deep.equal(Array(5).fill('lost'));
    await told.when(() => told.servers.length === 2);
    expect(told.causes).to.have.length.of.at.least(1);
    expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([1]);
    await link.append('s', bytes(3));
    expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([1, 3]);
  });

  it('calls reject with `lost` without a connection, and notices arrive again after a restart', async () => {
    const told = new Told('a');
    const link = links.keep(await rig.open());
    expect(howOf(await rejection(link.append('s', bytes(1))))).to.equal('lost');
    await link.connect(told);
    let refused: Promise<Error>[] = [];
    const lost = told.lost;
    Object.assign(told, {
      lost: (cause: Error) => {
        if (refused.length === 0)
          refused = [link.append('s', bytes(1)), link.read('s', BEFORE_FIRST, 1, 10_000)].map(
            (call) => rejection(call),
          );
        lost(cause);
      },
    });
    await rig.restart();
    await told.when(() => told.servers.length === 2);
    expect((await Promise.all(refused)).map(howOf)).to.deep.equal(['lost', 'lost']);
    expect(told.servers[0]!.run).not.to.equal(told.servers[1]!.run);
    await link.notify('a', 'again');
    await told.when(() => told.notices.length === 1);
    expect(await link.read('s', BEFORE_FIRST, 10, 0)).to.deep.equal([]);
  });

  it('close() rejects pending calls with `lost`, frees its sockets and may be called twice', async () => {
    const handles = (which: RegExp) =>
      process.getActiveResourcesInfo().filter((kind) => which.test(kind)).length;
    const before = handles(/TCP|TLS/);
    const link = await open(new Told('a'));
    const under = [link.read('s', BEFORE_FIRST, 1, 10_000), link.load('key')].map((call) =>
      rejection(call),
    );
    await Promise.all([link.close(), link.close()]);
    expect((await Promise.all(under)).map(howOf)).to.deep.equal(['lost', 'lost']);
    await until('its handles are gone', () => handles(/TCP|TLS/) <= before);
    expect(howOf(await rejection(link.load('key')))).to.equal('lost');
    const never = await rig.open();
    await never.close();
  });
}

describe('a link in memory', () => {
  contract(memoryRig);

  it('MemoryServer drops connections and notices, and expires values by its `clock`', async () => {
    const server = new MemoryServer();
    const told = new Told('a');
    const link = new MemoryLink(server);
    await link.connect(told);
    const lost = [link.append('s', bytes(1)), link.append('s', bytes(2))].map((call) =>
      rejection(call),
    );
    server.drop({ effect: true });
    expect((await Promise.all(lost)).map(howOf)).to.deep.equal(['lost', 'lost']);
    expect(told.servers).to.have.length(1);
    server.restore();
    await told.when(() => told.servers.length === 2);
    expect(firsts(await link.read('s', BEFORE_FIRST, 10, 0))).to.deep.equal([1, 2]);
    server.deaf = true;
    await link.notify('a', 'lost');
    server.deaf = false;
    await link.notify('a', 'heard');
    expect(told.notices).to.deep.equal([['a', 'heard']]);
    server.clock = () => 0;
    await link.store('key', bytes(1), 10);
    server.clock = () => 9;
    expect(await link.load('key')).not.to.equal(null);
    server.clock = () => 10;
    expect(await link.load('key')).to.equal(null);
    await link.close();
  });
});

describe('a link over Redis or Valkey', () => {
  before(function () {
    needServer(this);
  });
  contract(redisRig);
});
