/**
 * Tests `hotslot collect` as a user runs it. The host is another process, and this process is the
 * learner.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect } from 'chai';
import { RemoteCollectors } from '../../src/entries/remote.ts';
import { RateLimiter } from '../../src/store/rate-limiter.ts';
import { ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { freePort, needServer, startServer, type TestServer } from '../remote/server.ts';
import { itAll } from '../rig/setting.ts';
import { type RunOptions, run, runEach } from './run-command.ts';

const collect = (args: readonly string[], options: RunOptions = {}) =>
  run('src/cli/main.js', ['collect', ...args], options);

/** A collector module that returns four rows at a time with increasing numbers, 2000 in all. */
const MODULE = `let next = 0;
export default ({ options, report }) => ({
  collect() {
    if (options.failAt === next) throw new Error('the simulator is gone');
    if (next === 2000) return new Promise((resolve) => setTimeout(resolve, 20, null));
    report.steps(4);
    report.episode(next, 4);
    const from = next;
    next += 4;
    return { number: Float64Array.from({ length: 4 * 64 }, (_, i) => from + (i >> 6)) };
  },
});
`;

describe('hotslot collect', () => {
  let folder: string;
  let entry: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'hotslot-collect-'));
    entry = relative(process.cwd(), join(folder, 'collector.mjs'));
    writeFileSync(entry, MODULE);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  itAll('prints a one-line error and exits with code 2 on wrong usage', async () => {
    const given = ['--url', 'redis://127.0.0.1:1', '--run', 'x'];
    const wrong = [
      [given, 'collect takes a --entry'],
      [
        [...given, '--entry', 'c.mjs', '--workers', '0'],
        "--workers must be a whole number from 1 to 64, got '0'",
      ],
      [
        [...given, '--entry', 'c.mjs', '--lanes', 'two'],
        "--lanes must be a whole number from 1 to 65536, got 'two'",
      ],
    ] as const;
    const all = await runEach(
      'src/cli/main.js',
      wrong.map(([args]) => ['collect', ...args]),
    );
    for (const [i, { code, stdout, stderr }] of all.entries())
      expect([code, stdout, stderr]).to.deep.equal([
        2,
        '',
        `hotslot: ${wrong[i]![1]}; see hotslot --help\n`,
      ]);
  });

  itAll(
    'prints a one-line error and exits with code 1 for a missing module or a URL without TLS',
    async () => {
      const missing = await collect([
        '--url',
        'redis://127.0.0.1:1',
        '--run',
        'x',
        '--entry',
        join(folder, 'none.mjs'),
      ]);
      expect(missing.code).to.equal(1);
      expect(missing.stderr).to.equal(
        `hotslot: --entry must be a collector's module; this file does not exist: ${join(folder, 'none.mjs')}\n`,
      );
      const plain = await collect(['--url', 'redis://192.0.2.1', '--run', 'x', '--entry', entry]);
      expect(plain.code).to.equal(1);
      expect(plain.stderr).to.match(
        /^hotslot: redis:\/\/192\.0\.2\.1 is unencrypted .*, or pass --insecure if .*\n$/,
      );
    },
  );

  itAll('prints that it waits for a server, and exits with code 130 on Ctrl-C', async function () {
    needServer(this);
    const args = ['--url', `redis://127.0.0.1:${await freePort()}`, '--run', 'x', '--entry', entry];
    const { code, lines, stderr } = await collect(args, { interruptAt: /waits: / });
    expect([code, stderr]).to.deep.equal([130, '']);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.match(
      /^waits: redis:\/\/127\.0\.0\.1:\d+ cannot be reached: connect ECONNREFUSED/,
    );
  });

  describe('with a server', () => {
    let server: TestServer;
    before(async function () {
      needServer(this);
      server = await startServer();
    });
    after(() => server?.stop());

    /** Opens a learner that accepts `room` rows before it waits for samples. */
    async function learner(name: string, options: object, room: number) {
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: room,
        gateAdd: true,
      });
      const fields = { number: { dtype: 'float64', shape: [64] } } as const;
      const buffer = ReplayBuffer.create({ capacity: 10_000, fields, limiter });
      // Fewer bytes than a message of 510 rows. So one message is in transit, and the host sends no
      // more until the learner takes it.
      const transitBytes = 2 ** 16;
      const remote = await RemoteCollectors.open({
        url: server.url,
        run: name,
        buffer: buffer as never,
        options,
        transitBytes,
      });
      const close = async () => {
        await remote.close();
        buffer.close();
      };
      return { buffer, limiter, close };
    }
    const args = (name: string, ...more: string[]) => [
      '--url',
      server.url,
      '--run',
      name,
      '--entry',
      entry,
      '--json',
      ...more,
    ];

    itAll(
      'prints what it waits for, and on Ctrl-C sends the remaining rows and prints a summary',
      async () => {
        let interrupted = false;
        const { buffer, limiter, close } = await learner('one', {}, 1000);
        try {
          const ran = collect(args('one', '--name', 'box'), {
            interruptAt: /"progress"/,
            onStdout(stdout) {
              // The host first reports that it waits. Then the learner takes more rows, and the
              // host sends the rest before it ends.
              if (!interrupted && stdout.includes('"progress"')) limiter.countSamples(1000);
              interrupted ||= stdout.includes('"progress"');
            },
          });
          const { code, lines, stderr } = await ran;
          expect([code, stderr]).to.deep.equal([130, '']);
          const [joined, progress, ...rest] = lines.map((line) => JSON.parse(line));
          expect(joined).to.deep.equal({
            event: 'joined',
            run: 'one',
            server: server.url,
            workers: 1,
          });
          expect(progress).to.include({
            event: 'progress',
            waitingFor: 'the learner takes no more rows for now',
            steps: 2000,
          });
          // One message of 510 rows, possibly after the rows that were sent before it was full.
          expect(progress.acknowledged).to.be.within(510, 1019);
          expect(rest).to.have.length(1);
          expect(rest[0]).to.include({
            event: 'ended',
            steps: 2000,
            sent: 2000,
            acknowledged: 2000,
            waiting: 0,
          });
          expect(buffer.size).to.equal(2000);
        } finally {
          await close();
        }
      },
    );

    itAll('prints that it waits for a learner that has left', async () => {
      const { close } = await learner('gone', {}, 100);
      let closing: Promise<void> | null = null;
      try {
        const { code, lines } = await collect(args('gone'), {
          interruptAt: /the learner of this run is not connected/,
          onStdout(stdout) {
            if (stdout.includes('"joined"')) closing ??= close();
          },
        });
        expect(code).to.equal(130);
        const waits = lines.map((line) => JSON.parse(line).waitingFor);
        expect(waits.at(-2)).to.equal('the learner of this run is not connected');
        expect(JSON.parse(lines.at(-1)!).acknowledged).to.be.below(2000);
      } finally {
        await (closing ?? close());
      }
    });

    itAll('prints a one-line error and exits with code 1 when a collector fails', async () => {
      const { close } = await learner('two', { failAt: 8 }, 1000);
      try {
        const { code, stderr } = await collect(args('two'));
        expect(code).to.equal(1);
        expect(stderr).to.match(/^hotslot: collector 0 failed: the simulator is gone.*\n$/);
      } finally {
        await close();
      }
    });

    itAll('prints that it waits for a learner that has not joined yet', async () => {
      const { code, lines, stderr } = await collect(args('four'), { interruptAt: /waiting/ });
      expect([code, stderr]).to.deep.equal([130, '']);
      expect(lines).to.deep.equal([
        JSON.stringify({
          event: 'waiting',
          waitingFor: "the learner of the run 'four' has not started yet",
        }),
      ]);
    });

    itAll(
      'prints a one-line error and exits with code 1 when the learner has another protocol',
      async () => {
        const client = await server.client();
        await client.sendCommand(['HSET', 'hs:{three}:info', 'protocol', '99']);
        const { code, stderr } = await collect(args('three'));
        expect(code).to.equal(1);
        expect(stderr).to.match(
          /^hotslot: the learner speaks protocol 99, this host 1: use one version .*\n$/,
        );
      },
    );
  });
});
