/** Tests the hotslot command as a user runs it. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { itAll } from '../rig/setting.ts';
import { run, runEach } from './run-command.ts';

const MAIN = 'src/cli/main.js';
const { version } = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);

describe('hotslot', () => {
  itAll('doctor finds the CPU device, tests it and exits with code 0', async () => {
    const { code, stdout, stderr } = await run(MAIN, ['doctor']);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    expect(stdout).to.match(/host:0 .*cores?/);
    expect(stdout).to.match(/test host:0 +copied to it and back/);
    expect(stdout).to.match(/addon pack +\/.*pack\.node/);
    expect(stdout).to.match(/Hotslot works here on .*host:0/);
    expect(stdout).to.not.include('\x1b');
  });

  itAll('doctor prints no error when its reader closes after one line', () => {
    const main = fileURLToPath(new URL(`../../${MAIN}`, import.meta.url));
    const { stdout, stderr } = spawnSync(
      'sh',
      ['-c', `'${process.execPath}' '${main}' doctor | head -n 1`],
      {
        encoding: 'utf8',
      },
    );
    expect([stdout.trim().split('\n').length, stderr]).to.deep.equal([1, '']);
  });

  it('doctor --json prints one object per line and the summary last', async () => {
    const { code, lines } = await run(MAIN, ['doctor', '--json']);
    const objects = lines.map((line) => JSON.parse(line));
    const summary = objects.pop();
    expect(code).to.equal(0);
    expect(summary).to.include({ ok: true, version, node: process.versions.node });
    expect(summary.devices).to.include('host:0');
    const checks = objects.map(({ check }) => check);
    expect(checks).to.include.members([
      'node',
      'cpu',
      'memory',
      'cores',
      'addon device',
      'blas',
      'placement',
      'host:0',
      'test host:0',
    ]);
    for (const { ok, text, family, reason } of objects) {
      expect(ok).to.be.a('boolean');
      expect(text).to.be.a('string').and.not.equal('');
      if (family && !ok)
        expect(reason, `why ${family} is unavailable`).to.be.a('string').and.not.equal('');
    }
  });

  itAll('doctor prints how to build missing native parts, and exits with code 1', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'hotslot-'));
    try {
      const { code, stdout } = await run(MAIN, ['doctor'], { env: { HOTSLOT_ADDONS: empty } });
      expect(code).to.equal(1);
      expect(stdout).to.include(`${empty}/system.node: not there`);
      expect(stdout).to.include('npx hotslot build').and.not.include('npm run');
      expect(stdout).to.include('does not work here yet');
    } finally {
      rmSync(empty, { recursive: true });
    }
  });

  itAll('doctor prints why the CPU device multiplies matrices without a BLAS library', async () => {
    const asked = async (blas: string) =>
      (await run(MAIN, ['doctor'], { env: { HOTSLOT_BLAS: blas } })).stdout;
    expect(await asked('none')).to.match(
      /blas +the CPU device multiplies matrices by itself.* \(HOTSLOT_BLAS=none\)/,
    );
    expect(await asked('/no/such.so')).to.match(
      /by itself.* \(.*no\/such\.so.*named by HOTSLOT_BLAS\)/,
    );
    expect(await asked('libm.so.6')).to.match(/by itself.* \(libm\.so\.6 has no sgemm_\)/);
    // With AVX2, Hotslot's own matrix products are as fast as a library's, so the doctor does not
    // recommend one.
    const { stdout } = await run(MAIN, ['doctor'], { env: { HOTSLOT_BLAS: '' } });
    if (/\bavx2\b/.test(readFileSync('/proc/cpuinfo', 'utf8')))
      expect(stdout)
        .to.match(/blas +the CPU device multiplies matrices by itself, with AVX(2|-512)\n/)
        .and.not.include('apt-get install libopenblas0');
  });

  itAll('--version and --help print to stdout and exit with code 0', async () => {
    for (const asked of ['--version', '-v'])
      expect(await run(MAIN, [asked])).to.include({ code: 0, stdout: `${version}\n` });
    for (const asked of ['--help', '-h', 'help']) {
      const { code, stdout } = await run(MAIN, [asked]);
      expect([code, stdout.includes('doctor'), stdout.includes('build')], asked).to.deep.equal([
        0,
        true,
        true,
      ]);
    }
  });

  const misuse: [string[], RegExp][] = [
    [[], /no command was given/],
    [['operate'], /unknown command 'operate'; the commands are doctor, build/],
    [['doctor', 'now'], /doctor takes no further arguments, got 'now'/],
    [['doctor', '--jason'], /unknown option '--jason'/],
    [['doctor', '-x'], /unknown option '-x'/],
    [['doctor', '--json=1'], /--json takes no value, got '1'/],
    [['doctor', '--json', '--json'], /--json is given twice/],
    [['build', '--json'], /build takes no --json/],
  ];
  it('prints a one-line error and exits with code 2 on wrong usage', async () => {
    const all = await runEach(
      MAIN,
      misuse.map(([args]) => args),
    );
    for (const [i, { code, stdout, stderr }] of all.entries()) {
      const [args, sentence] = misuse[i]!;
      expect([code, stdout], args.join(' ')).to.deep.equal([2, '']);
      expect(stderr).to.match(sentence);
      expect(stderr.trim().split('\n')).to.have.length(1);
    }
  });
});
