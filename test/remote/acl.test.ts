/**
 * Tests on a real server what the two ACL users of a run may do, and that they may do nothing else.
 */
import { expect } from 'chai';
import { type AclRole, aclUsers, newPassword } from '../../src/net/remote/acl.ts';
import { checkAddress } from '../../src/net/remote/address.ts';
import {
  type AdminConnection,
  openAdminConnection,
} from '../../src/net/remote/admin-connection.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { BEFORE_FIRST, type Link, type LinkEvents } from '../../src/net/remote/link.ts';
import { openRedisLink } from '../../src/net/remote/redis-link.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import { needServer, startServer, type TestServer } from './server.ts';

const RUN = 'ant-7.b';
const keys = keysOf(RUN);
const others = keysOf('ant-7');
const bytes = (text: string) => new TextEncoder().encode(text);

/** A command as the server's COMMAND describes it. */
type Command = readonly [name: string, arity: number, flags: readonly string[], ...more: unknown[]];
const subcommandsOf = (command: Command) => (command[9] ?? []) as readonly Command[];

describe('ACL users of a run', () => {
  let server: TestServer;
  let admin: AdminConnection;
  const passwords = { learner: newPassword(), collector: newPassword() };
  const user = (role: AclRole) => aclUsers(RUN).find((each) => each.role === role)!;
  const login = (role: AclRole) => ({
    url: server.url,
    username: user(role).name,
    password: passwords[role],
  });

  before(async function () {
    needServer(this);
    server = await startServer();
    admin = await openAdminConnection({ address: checkAddress({ url: server.url }) });
    for (const { name, role, rules } of aclUsers(RUN))
      await admin.call(
        'ACL',
        'SETUSER',
        name,
        ...rules.replace('PASSWORD', passwords[role]).split(' '),
      );
  });
  after(async () => {
    await admin?.[Symbol.asyncDispose]();
    await server?.stop();
  });

  /** Runs `act` with a link and an administration connection, both logged in as the role's user. */
  async function as(
    role: AclRole,
    events: LinkEvents,
    act: (link: Link, desk: AdminConnection) => Promise<void>,
  ): Promise<void> {
    const link = await openRedisLink({ ...login(role), name: 'acl' });
    try {
      await link.connect(events);
      await using desk = await openAdminConnection({ address: checkAddress(login(role)) });
      await act(link, desk);
    } finally {
      await link.close();
    }
  }
  async function refuses(
    desk: AdminConnection,
    commands: readonly (readonly string[])[],
  ): Promise<void> {
    // A command that the server has disabled for every user is rejected before the user's rules are
    // checked.
    for (const words of commands)
      expect((await rejection(() => desk.call(...words))).message, words.join(' ')).to.match(
        /: (NOPERM|ERR DEBUG command not allowed)/,
      );
  }
  /** Returns all commands of this server that the user may run on one of its own keys. */
  async function runs(role: AclRole): Promise<string[]> {
    const all = ((await admin.call('COMMAND')) as unknown as Command[]).flatMap((each) =>
      subcommandsOf(each).length > 0 ? subcommandsOf(each) : [each],
    );
    expect(all.length).to.be.greaterThan(200);
    const may: string[] = [];
    for (const [name, arity, flags] of all) {
      // Commands that need no login are allowed for everybody.
      if (flags.includes('no_auth')) continue;
      const words = name.split('|');
      while (words.length < Math.abs(arity)) words.push('1');
      const said = await admin.call('ACL', 'DRYRUN', user(role).name, ...words);
      if (!/no permissions to run/.test(said as string)) may.push(name);
    }
    return may.sort();
  }
  /** Commands that must be denied on every server, whatever other commands it has. */
  const anywhere = [
    ['KEYS', '*'],
    ['SCAN', '0'],
    ['FLUSHALL'],
    ['FLUSHDB'],
    ['CONFIG', 'GET', '*'],
    ['CONFIG', 'SET', 'dir', '/'],
    ['EVAL', 'return 1', '0'],
    ['EVALSHA', '0', '0'],
    ['SCRIPT', 'FLUSH'],
    ['FUNCTION', 'LIST'],
    ['FCALL', 'f', '0'],
    ['DEBUG', 'SLEEP', '0'],
    ['SHUTDOWN'],
    ['ACL', 'LIST'],
    ['ACL', 'WHOAMI'],
    ['MONITOR'],
    ['CLIENT', 'LIST'],
    ['REPLICAOF', 'NO', 'ONE'],
    ['MODULE', 'LIST'],
    ['SAVE'],
    ['BGSAVE'],
    ['CLIENT', 'KILL', 'TYPE', 'normal'],
    ['RENAME', keys.info, keys.newest],
    ['COPY', keys.info, keys.newest],
    ['DUMP', keys.info],
    ['SWAPDB', '0', '1'],
    ['PSUBSCRIBE', '*'],
    ['PUBSUB', 'CHANNELS'],
    ['XREAD', 'STREAMS', others.stream(0), '0'],
  ];

  it('a collector host may run every command that a host needs', async () => {
    await admin.call('HSET', keys.info, 'protocol', '1', 'kind', 'rows');
    await admin.call('HSET', keys.acks, '7', '1:2:3:0', '*', '1:1:0');
    await admin.call('SET', keys.newest, '5');
    await admin.call('SET', keys.weights(5, 0), 'weights');
    await admin.call('SET', keys.learner, '99');
    const heard: string[] = [];
    const events = {
      channels: [keys.ack(7), keys.versions],
      notice: (channel: string, text: string) => heard.push(`${channel} ${text}`),
    };
    await as('collector', events, async (link) => {
      await link.append(keys.stream(0), bytes('rows'));
      await link.append(keys.stream(31), bytes('rows'));
      await link.store(keys.stat(7), { host: 'a', steps: '12' }, 10_000);
      expect(await link.load(keys.info, ['kind', 'protocol', 'no'])).to.deep.equal([
        'rows',
        '1',
        null,
      ]);
      expect(await link.load(keys.acks, ['7'])).to.deep.equal(['1:2:3:0']);
      for (const [key, value] of [
        [keys.newest, '5'],
        [keys.weights(5, 0), 'weights'],
        [keys.learner, '99'],
      ] as const)
        expect(new TextDecoder().decode((await link.load(key))!)).to.equal(value);
      await admin.call('PUBLISH', keys.ack(7), 'row');
      await admin.call('PUBLISH', keys.versions, '6');
      await until('both notices are there', () => heard.length === 2);
      expect(heard).to.deep.equal([`${keys.ack(7)} row`, `${keys.versions} 6`]);
    });
    expect(await admin.call('XLEN', keys.stream(31))).to.equal(1);
    expect(await admin.call('PTTL', keys.stat(7))).to.be.within(1, 10_000);
  });

  it('a collector host may run no other command, and reaches no key of another run', async () => {
    expect(await runs('collector')).to.deep.equal(
      [
        'client|setname',
        'get',
        'hget',
        'hmget',
        'hset',
        'pexpire',
        'ping',
        'subscribe',
        'unsubscribe',
        'xadd',
      ].sort(),
    );
    await as('collector', {}, async (link, desk) => {
      await refuses(desk, [
        ...anywhere,
        // rows, also the host's own
        ['XREAD', 'STREAMS', keys.stream(0), '0'],
        ['XRANGE', keys.stream(0), '-', '+'],
        ['XLEN', keys.stream(0)],
        ['XTRIM', keys.stream(0), 'MAXLEN', '0'],
        ['XDEL', keys.stream(0), '1-1'],
        ['DEL', keys.stream(0)],
        ['HGET', keys.stat(7), 'host'],
        ['GET', keys.stream(0)],
        ['GET', keys.status],
        ['SET', keys.stat(7), '1'],
        // keys that only the learner writes
        ...[
          keys.info,
          keys.acks,
          keys.learner,
          keys.newest,
          keys.weights(5, 0),
          keys.status,
        ].flatMap((key) => [
          ['HSET', key, 'x', '1'],
          ['PEXPIRE', key, '1'],
          ['XADD', key, '*', 'm', 'x'],
          ['SET', key, '1'],
          ['DEL', key],
        ]),
        ['PUBLISH', keys.ack(7), '1'],
        ['PUBLISH', keys.versions, '1'],
        ['INFO'],
        ['MULTI'],
        ['WATCH', keys.info],
        // another run, whose name begins with the name of this run
        ['XADD', others.stream(0), '*', 'm', 'x'],
        ['HSET', others.stat(7), 'x', '1'],
        ['GET', others.learner],
        ['HGET', others.info, 'kind'],
        ['HGET', others.acks, '7'],
        ['GET', others.newest],
        ['GET', 'any'],
      ]);
      for (const channel of [others.ack(7), others.versions, `${keys.versions}x`])
        expect((await rejection(() => desk.call('SUBSCRIBE', channel))).message, channel).to.match(
          /: NOPERM/,
        );
      const denied = await rejection(() => link.read(keys.stream(0), BEFORE_FIRST, 1, 0));
      expect(denied).to.include({ how: 'denied' });
    });
  });

  it('a learner may run every command that its link needs', async () => {
    const heard: string[] = [];
    const events = {
      channels: [keys.versions],
      notice: (_: string, text: string) => heard.push(text),
    };
    await admin.call('DEL', keys.learner, keys.stream(1));
    await as('learner', events, async (link, desk) => {
      for (const text of ['a', 'b', 'c']) await admin.call('XADD', keys.stream(1), '*', 'm', text);
      const [first, second] = await link.read(keys.stream(1), BEFORE_FIRST, 2, 0);
      expect(new TextDecoder().decode(second!.bytes)).to.equal('b');
      await link.trim(keys.stream(1), first!.id);
      expect(await link.read(keys.stream(1), BEFORE_FIRST, 9, 10)).to.have.length(2);
      expect(await link.lease(keys.learner, '7', 10_000)).to.equal('7');
      expect(await link.lease(keys.learner, '7', 10_000)).to.equal('7');
      expect(await link.lease(keys.learner, '8', 10_000)).to.equal('7');
      await link.store(keys.info, { protocol: '1' });
      await link.store(keys.acks, { '7': '1:2:3:0' }, 10_000);
      await link.store(keys.status, bytes('{}'), 10_000);
      expect(await link.load(keys.acks, ['7'])).to.deep.equal(['1:2:3:0']);
      expect(await link.load(keys.stat(7), ['host', 'steps'])).to.have.length(2);
      expect(await link.load(keys.status)).to.have.length(2);
      await link.notify(keys.versions, '9');
      await until('its notice is there', () => heard.length === 1);
      expect(await desk.call('INFO', 'server')).to.match(/run_id:\w/);
      expect(await desk.call('DEL', keys.status)).to.equal(1);
    });
  });

  it('a learner may run no other command, and reaches no key of another run', async () => {
    expect(await runs('learner')).to.deep.equal(
      [
        'client|setname',
        'del',
        'exec',
        'get',
        'hget',
        'hmget',
        'hset',
        'info',
        'multi',
        'pexpire',
        'ping',
        'publish',
        'set',
        'subscribe',
        'unsubscribe',
        'unwatch',
        'watch',
        'xlen',
        'xread',
        'xtrim',
      ].sort(),
    );
    await as('learner', {}, async (_, desk) => {
      await refuses(desk, [
        ...anywhere,
        ['GET', others.learner],
        ['SET', others.learner, '1'],
        ['HSET', others.acks, '7', '1'],
        ['DEL', others.info],
        ['XTRIM', others.stream(0), 'MAXLEN', '0'],
        ['PUBLISH', others.versions, '1'],
        ['WATCH', others.learner],
        ['SET', 'any', '1'],
        ['SUBSCRIBE', others.versions],
        ['XADD', keys.stream(0), '*', 'm', 'x'],
      ]);
    });
  });

  it('passwords differ, a wrong password is rejected, and aclUsers() throws for an invalid run', async () => {
    expect(newPassword())
      .to.match(/^[0-9a-f]{64}$/)
      .and.not.equal(newPassword());
    const address = checkAddress({ ...login('collector'), password: newPassword() });
    expect((await rejection(openAdminConnection({ address }))).message).to.match(
      /rejects this user and password/,
    );
    expect(refusal(() => aclUsers('a b')).message).to.match(/^run must be 1 to 100 letters/);
  });
});
