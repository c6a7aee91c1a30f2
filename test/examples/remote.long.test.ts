/**
 * Tests `npm run remote`: the task is solved with rows of other processes, and no process is left
 * running.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { run, runEach } from '../cli/run-command.ts';
import { untilAsked } from '../remote/runs.ts';
import { needServer, startServer } from '../remote/server.ts';
import { itAll, itLong } from '../rig/setting.ts';

const remote = (...args: string[]) => run('examples/remote/main.js', args);

/** Returns the command lines of this machine's processes that contain the text. */
function processesWith(text: string): string[] {
  const all = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).split('\n');
  return all.filter((line) => line.includes(text));
}

describe('npm run remote', function () {
  this.timeout(200_000);

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    const wrong = [
      [
        ['--env', 'Chess'],
        /^remote: --env must be CartPole or Pendulum, got 'Chess'; see --help$/m,
      ],
      [['--hosts', '17'], /^remote: --hosts must be a whole number from 0 to 16, got '17'/m],
      [['--hosts', '0'], /^remote: --hosts 0 needs a --url that other machines reach/m],
      [['--insecure'], /^remote: --insecure and --ca need --url/m],
      [['--max-seconds', '0'], /^remote: --max-seconds must be a number above 0/m],
    ] as const;
    const all = await runEach(
      'examples/remote/main.js',
      wrong.map(([args]) => args),
    );
    for (const [i, { code, stderr }] of all.entries())
      expect([code, wrong[i]![1].test(stderr)], stderr).to.deep.equal([2, true]);
    expect((await remote('--help')).stdout).to.include('--hosts N');
  });

  itAll('names the packages to install when PATH has no Redis server', async () => {
    const { code, stderr } = await run('examples/remote/main.js', [], {
      env: { PATH: '/nowhere' },
    });
    expect(code).to.equal(1);
    expect(stderr).to.match(
      /^remote: there is no redis-server or valkey-server in PATH: apt-get install redis-server, /,
    );
  });

  itAll('rejects a malformed URL with one sentence and exit code 1', async () => {
    const { code, stdout, stderr } = await remote('--url', 'rediss://ann:12/secret@192.0.2.1');
    expect([code, stdout]).to.deep.equal([1, '']);
    expect(stderr).to.match(/^remote: --url cannot be read: .* HOTSLOT_REDIS_PASSWORD\n$/);
  });

  itAll('rejects an unencrypted remote URL without --insecure, with exit code 1', async () => {
    const { code, stderr } = await remote('--url', 'redis://192.0.2.1');
    expect(code).to.equal(1);
    expect(stderr).to.match(
      // A slow machine first says that it waits for the server.
      /(?:^|\n)remote: redis:\/\/192\.0\.2\.1 is unencrypted .*, or pass --insecure if .*\n$/,
    );
  });

  itAll(
    'keeps the password out of its output and out of the command lines of hosts',
    async function () {
      needServer(this);
      const secret = 'nobody:may-read-this';
      const server = await startServer({ acl: ['default off', `ann on >${secret} ~* &* +@all`] });
      try {
        const url = server.url.replace('://', `://ann:${secret}@`);
        const name = 'secret-of-a-test';
        const running = remote(
          '--url',
          url,
          '--run',
          name,
          '--hosts',
          '1',
          '--max-seconds',
          '2',
          '--device',
          'host:0',
        );
        const alone = remote(
          '--url',
          url,
          '--run',
          'another-of-a-test',
          '--hosts',
          '0',
          '--max-seconds',
          '1',
        );
        const hosts = () =>
          processesWith(`--run ${name}`).filter((line) => line.includes(' collect '));
        await untilAsked('the host runs', () => hosts().length > 0);
        for (const line of hosts())
          expect(line).to.include('//ann@127.').and.to.not.include(secret);
        const { code, stdout, stderr } = await running;
        expect(stderr).to.not.include('read-this');
        // A fast machine solves the task in this time.
        expect(code).to.be.oneOf([0, 1]);
        expect(stdout)
          .to.include(`over ${server.url.replace('://', '://ann@')}`)
          .and.to.not.include('read-this');
        const said = (await alone).stdout;
        expect(said).to.match(
          /on each machine: HOTSLOT_REDIS_PASSWORD=… npx hotslot collect --url redis:\/\/ann@127/,
        );
        expect(said).to.not.include('read-this');
      } finally {
        await server.stop();
      }
    },
  );

  itAll(
    'solves CartPole from the rows of two hosts, with no row lost or refused',
    async function () {
      needServer(this);
      const { code, lines, stderr } = await remote(
        '--json',
        '--device',
        'host:0',
        '--run',
        'cartpole-of-a-test',
      );
      expect(code, stderr).to.equal(0);
      const last = JSON.parse(lines.at(-1)!);
      expect(last).to.include({
        solved: true,
        environment: 'CartPole',
        hosts: 2,
        lost: 0,
        refused: 0,
      });
      expect(last.meanReturn).to.be.at.least(475);
      for (const line of lines.slice(0, -1))
        expect(JSON.parse(line)).to.include.keys('rowsPerSecond', 'waits');
      expect(processesWith('--run cartpole-of-a-test')).to.deep.equal([]);
    },
  );

  itLong('solves Pendulum from the rows of two hosts', async function () {
    needServer(this);
    const { code, lines, stderr } = await remote(
      '--env',
      'Pendulum',
      '--json',
      '--device',
      'host:0',
    );
    expect(code, stderr).to.equal(0);
    const { solved, meanReturn, hosts } = JSON.parse(lines.at(-1)!);
    expect([solved, hosts]).to.deep.equal([true, 2]);
    expect(meanReturn).to.be.at.least(-200);
  });

  itAll(
    'ends hosts and server, and prints the result so far, when Ctrl-C interrupts the run',
    async function () {
      needServer(this);
      const said = await run(
        'examples/remote/main.js',
        ['--env', 'Pendulum', '--run', 'ctrl-c-of-a-test'],
        {
          interruptAt: /2 hosts .*\n.*2 hosts /,
        },
      );
      expect(said.code, said.stderr).to.equal(130);
      expect(said.stdout).to.match(/Pendulum interrupted after [\d.]+ s: /);
      expect(processesWith('--run ctrl-c-of-a-test')).to.deep.equal([]);
      const [, port] =
        /run ctrl-c-of-a-test over redis:\/\/127\.0\.0\.1:(\d+)/.exec(said.stdout) ?? [];
      expect(processesWith(`127.0.0.1:${port}`)).to.deep.equal([]);
    },
  );

  it('recipes use existing options of hotslot collect and the required server settings', () => {
    const recipe = (name: string) =>
      readFileSync(new URL(`../../../examples/remote/recipes/${name}`, import.meta.url), 'utf8');
    for (const name of [
      'hotslot-server.conf',
      'compose.yaml',
      'slurm.sh',
      'systemd/hotslot-host.service',
    ]) {
      const text = recipe(name);
      // The options on the same line as `hotslot collect` exist.
      for (const [, options = ''] of text.matchAll(/hotslot collect ([^\n]*)/g))
        for (const [option] of options.matchAll(/--[a-z]+/g))
          expect([
            '--url',
            '--run',
            '--entry',
            '--workers',
            '--lanes',
            '--outbox',
            '--name',
            '--ca',
            '--json',
          ]).to.include(option);
    }
    const conf = recipe('hotslot-server.conf');
    for (const line of [
      'save ""',
      'maxmemory-policy noeviction',
      'appendonly no',
      'tls-port 6380',
      'port 0',
    ])
      expect(conf.split('\n')).to.include(line);
  });
});
