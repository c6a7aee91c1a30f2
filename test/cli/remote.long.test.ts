/**
 * Tests the commands that connect to a server, as a user runs them: acl, doctor --url and hosts.
 */
import { expect } from 'chai';
import { acl } from '../../src/cli/acl.ts';
import { hosts, table } from '../../src/cli/hosts.ts';
import { doctorOfServer } from '../../src/cli/server.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { writeStatus } from '../../src/net/remote/status.ts';
import { freePort, needServer, startServer, type TestServer } from '../remote/server.ts';
import { aHost, aStatus } from '../remote/statuses.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { run, runEach } from './run-command.ts';

const MAIN = 'src/cli/main.js';
const hotslot = (args: string[], password = '') =>
  run(MAIN, args, { env: { HOTSLOT_REDIS_PASSWORD: password } });

/** Options for commands that run in this process. */
const quiet = { insecure: false, ca: '', json: false, print() {} };

describe('hotslot acl, doctor --url and hosts', () => {
  describe('without a server', () => {
    itAll('print a one-line error and exit with code 2 on wrong usage', async () => {
      const misuse: [string[], string][] = [
        [['acl'], 'acl takes a --run'],
        [
          ['acl', '--run', 'a b'],
          "--run must be 1 to 100 letters, digits, dots, dashes or underlines, got 'a b'",
        ],
        [['hosts', '--run', 'x'], 'hosts takes a --url'],
        [['hosts', '--url', 'redis://127.0.0.1', '--run'], '--run needs a value'],
        [['doctor', '--run', 'x'], 'doctor takes no --run'],
        [['doctor', '--insecure'], '--insecure needs --url'],
        [['doctor', '--ca', 'ca.pem'], '--ca needs --url'],
      ];
      const all = await runEach(
        MAIN,
        misuse.map(([args]) => args),
        { HOTSLOT_REDIS_PASSWORD: '' },
      );
      for (const [i, { code, stdout, stderr }] of all.entries())
        expect([code, stdout, stderr]).to.deep.equal([
          2,
          '',
          `hotslot: ${misuse[i]![1]}; see hotslot --help\n`,
        ]);
    });

    it('reject an invalid URL, a URL without TLS and a user without a password', async () => {
      for (const [url, sentence] of [
        ['http://127.0.0.1', /^url must begin with redis:\/\/, /],
        [
          'redis://192.0.2.1',
          /^redis:\/\/192\.0\.2\.1 is unencrypted .*, or pass insecure: true if /,
        ],
        [
          'rediss://ann@127.0.0.1',
          /^rediss:\/\/ann@127\.0\.0\.1 names a user, but .*HOTSLOT_REDIS_PASSWORD/,
        ],
      ] as const) {
        expect((await rejection(() => doctorOfServer({ ...quiet, url }))).message).to.match(
          sentence,
        );
        expect((await rejection(() => hosts({ ...quiet, url, run: 'x' }))).message).to.match(
          sentence,
        );
      }
      const { code, stderr } = await hotslot(['hosts', '--url', 'redis://192.0.2.1', '--run', 'x']);
      expect(code).to.equal(1);
      expect(stderr).to.match(
        /^hotslot: redis:\/\/192\.0\.2\.1 is unencrypted .*, or pass --insecure if .*\n$/,
      );
    });

    itAll(
      'print a one-line error without the password and exit with code 1 when no server answers',
      async () => {
        const port = await freePort();
        const sentence = `redis://ann@127.0.0.1:${port} cannot be reached: connect ECONNREFUSED 127.0.0.1:${port}`;
        const url = `redis://ann:hidden@127.0.0.1:${port}`;
        expect((await rejection(() => hosts({ ...quiet, url, run: 'x' }))).message).to.equal(
          sentence,
        );
        const { code, stdout, stderr } = await hotslot(['doctor', '--url', url]);
        expect([code, stdout, stderr]).to.deep.equal([1, '', `hotslot: ${sentence}\n`]);
      },
    );

    itAll(
      'acl prints two commands to stdout, instructions to stderr, and new passwords each time',
      async () => {
        const { code, lines, stderr } = await hotslot(['acl', '--run', 'ant-7']);
        expect(code).to.equal(0);
        expect(lines).to.have.length(2);
        for (const [at, role] of (['learner', 'collector'] as const).entries())
          expect(lines[at]).to.match(
            new RegExp(`^ACL SETUSER hs-ant-7-${role} reset on >[0-9a-f]{64} .*-@all .*[+]ping`),
          );
        expect(stderr)
          .to.include('HOTSLOT_REDIS_PASSWORD')
          .and.include('ACL SAVE')
          .and.include('hs-ant-7-collector@');
        const again = await hotslot(['acl', '--run', 'ant-7', '--json']);
        const { run: name, users } = JSON.parse(again.stdout);
        expect([name, again.stderr, users.length]).to.deep.equal(['ant-7', '', 2]);
        for (const { password, command, rules } of users) {
          expect(command).to.include(`>${password} `);
          expect(rules).to.include('>PASSWORD ');
          expect(lines.join(' ')).to.not.include(password);
        }
      },
    );
  });

  describe('with a server', () => {
    let server: TestServer;
    before(async function () {
      needServer(this);
      server = await startServer({ acl: ['default on >admin ~* &* +@all'] });
    });
    after(() => server?.stop());

    itAll(
      'doctor --url prints its checks as text or JSON, and exits with code 1 for a wrong setting',
      async () => {
        const { code, lines, stderr } = await hotslot(
          ['doctor', '--url', server.url, '--json'],
          'admin',
        );
        expect([code, stderr]).to.deep.equal([0, '']);
        const objects = lines.map((line) => JSON.parse(line));
        expect(objects.pop()).to.deep.equal({ ok: true, wrong: [] });
        for (const { check, ok, text } of objects)
          expect([typeof check, ok, typeof text]).to.deep.equal(['string', true, 'string']);
        expect(
          objects.find(({ check }) => check === 'throughput').bytesPerSecond,
        ).to.be.greaterThan(1e6);
        const client = await server.client({ password: 'admin' });
        await client.sendCommand([
          'CONFIG',
          'SET',
          'maxmemory',
          '100mb',
          'maxmemory-policy',
          'allkeys-lru',
        ]);
        const wrong = await hotslot(['doctor', '--url', server.url], 'admin');
        await client.sendCommand([
          'CONFIG',
          'SET',
          'maxmemory',
          '0',
          'maxmemory-policy',
          'noeviction',
        ]);
        expect(wrong.code).to.equal(1);
        expect(wrong.stdout)
          .to.match(/^ {2}server {10}\S+ \d+\.\d+\.\d+ at redis:\/\/127\.0\.0\.1:\d+, as default$/m)
          .and.match(/^ {2}throughput {6}\d+ MB\/s/m)
          .and.match(/^! memory .*allkeys-lru\n {18}→ .*set maxmemory-policy noeviction$/m)
          .and.match(/\n\nThis server must be mended first: memory\.\n$/)
          .and.not.include('admin');
      },
    );

    it('hosts accepts a certificate authority that the system does not know when --ca names it', async () => {
      const secured = await startServer({ tls: true });
      try {
        const asked = { ...quiet, url: secured.url, run: 'x' };
        expect((await rejection(() => hosts(asked))).message).to.match(/ an invalid certificate /);
        const { message } = await rejection(() => hosts({ ...asked, ca: secured.ca }));
        expect(message).to.equal('the run x has no learner');
      } finally {
        await secured.stop();
      }
    });

    itAll(
      'hosts prints the status of the learner to the user of acl, or an error without a learner',
      async () => {
        const client = await server.client({ password: 'admin' });
        let printed = '';
        acl({ ...quiet, run: 'x', json: true, print: (text) => (printed += text) });
        const { users } = JSON.parse(printed);
        for (const { command } of users) await client.sendCommand(command.split(' '));
        const [{ name, password }] = users;
        const url = server.url.replace('//', `//${name}@`);
        const secret = { ...quiet, run: 'x', url: url.replace('@', `:${password}@`) };
        const status = aStatus({}, [aHost()]);
        const keys = keysOf('x');
        await client.set(keys.status, Buffer.from(writeStatus(status)));
        // The learner's last status exists, but the learner does not.
        const gone = await hotslot(['hosts', '--url', url, '--run', 'x'], password);
        expect([gone.code, gone.stdout, gone.stderr]).to.deep.equal([
          1,
          '',
          'hotslot: the run x has no learner\n',
        ]);
        await client.set(keys.learner, '1');
        const { code, stdout, stderr } = await hotslot(
          ['hosts', '--url', url, '--run', 'x'],
          password,
        );
        expect([code, stderr, stdout]).to.deep.equal([0, '', table(status)]);
        printed = '';
        expect(await hosts({ ...secret, json: true, print: (text) => (printed += text) })).to.equal(
          0,
        );
        expect(JSON.parse(printed)).to.deep.equal(status);
        await client.set(keys.status, '{}');
        expect((await rejection(() => hosts(secret))).message).to.match(
          /^this is not a learner's status: /,
        );
        await client.del(keys.status);
        expect((await rejection(() => hosts(secret))).message).to.match(
          /run x has not reported anything yet$/,
        );
        // A collector's user may not read the status.
        const [, collector] = users;
        const other = server.url.replace('//', `//${collector.name}:${collector.password}@`);
        expect((await rejection(() => hosts({ ...secret, url: other }))).message).to.match(
          / refuses GET: NOPERM/,
        );
      },
    );
  });

  describe('the table of hosts', () => {
    const lines = (text: string) => text.trimEnd().split('\n');

    it('has a line for each host, newest first, and a summary', () => {
      const hosts = [
        aHost({ session: 1, host: 'worker-1', since: 1000, state: 'silent', silentMs: 12_345 }),
        aHost({ session: 2, host: 'worker-2', since: 3000, meanReturn: null }),
        aHost({
          session: 3,
          host: 'worker-3',
          since: 2000,
          state: 'failed',
          why: 'Error: env broke',
        }),
      ];
      expect(lines(table(aStatus({}, hosts)))).to.deep.equal([
        'host                   state       workers  steps  return version   rows waiting',
        'worker-2:4711          live             32   1.2M       –    4.2k   1.2M     512',
        'worker-3:4711          failed           32   1.2M   187.3    4.2k   1.2M     512',
        'worker-1:4711          silent 12s       32   1.2M   187.3    4.2k   1.2M     512',
        '',
        'run x: 3 hosts, 1 live, 1 silent; 2026-09-21T14:15:23.000Z',
        '5.6M rows, 12k/s, 2.1MB/s, 1.2MB under way',
        'lag p50 1.3 p99 18.0 ms, weight versions behind: p50 1.0 p99 4.0',
        'held back by the limiter 12 % of the time, windows full 3 %',
        '12 duplicate, 3 gaps, 0 stale, 1 refused, 0 lost',
        '',
        'worker-3:4711: Error: env broke',
      ]);
    });

    it('stays within 80 columns for extreme values', () => {
      const most = Number.MAX_VALUE;
      const numbers = {
        workers: most,
        steps: most,
        episodes: most,
        version: most,
        rows: most,
        waiting: most,
      };
      const huge = aHost({
        ...numbers,
        host: 'h'.repeat(1000),
        meanReturn: -most,
        why: 'w '.repeat(500),
        pid: most,
      });
      const hosts = [
        huge,
        aHost({ ...huge, state: 'silent', silentMs: most, since: 1, why: 'w'.repeat(1000) }),
      ];
      const spread = { p50: most, p99: most };
      const shares = {
        gated: 1,
        windowFull: 1,
        lag: spread,
        versionLag: spread,
        streamBytes: most,
        time: most,
      };
      const counts = {
        rows: most,
        rowsPerSecond: most,
        bytesPerSecond: most,
        duplicates: most,
        gaps: most,
        stale: most,
      };
      const status = aStatus(
        { ...shares, ...counts, refused: most, lost: most, run: 'r'.repeat(100) },
        hosts,
      );
      for (const line of lines(table(status))) expect(line.length, line).to.be.at.most(80);
      for (const each of [0, 0.4, 999, 999.6, 9949, 9950, 99_999, 999_499, 999_500, 1e12, 1e17])
        for (const line of lines(
          table(aStatus({ rows: each }, [aHost({ rows: each, steps: each, meanReturn: -each })])),
        ))
          expect(line.length, line).to.be.at.most(80);
      expect(lines(table(aStatus()))[2]).to.match(/^run x: 0 hosts/);
    });
  });
});
