/** Tests `hotslot kernels` as a user runs it, and the example with its own kernel. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { openDevice } from '../../src/index.ts';
import { saxpySource } from '../device/saxpy.ts';
import { itAll } from '../rig/setting.ts';
import { run, runEach } from './run-command.ts';

const MAIN = 'src/cli/main.js';

describe('hotslot kernels', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-cli-'));
  const source = join(folder, 'saxpy.gk');
  writeFileSync(source, saxpySource);
  after(() => rmSync(folder, { recursive: true }));

  itAll(
    'builds images with the installed compilers, and the CPU device loads its image',
    async () => {
      const { code, lines, stderr } = await run(MAIN, [
        'kernels',
        source,
        '--out',
        join(folder, 'images'),
      ]);
      expect(stderr).to.equal('');
      expect(code).to.equal(0);
      expect(lines[0]).to.equal(`${source}: saxpy, tally`);
      const made = Object.fromEntries(
        lines.slice(1).map((line) => [line.slice(0, 5).trim(), line.slice(6)]),
      );
      expect(Object.keys(made)).to.deep.equal(['host', 'cuda', 'xpu', 'rocm']);
      expect(made.rocm).to.include('--arch');
      for (const family of ['cuda', 'xpu'])
        expect(
          made[family]?.startsWith('not made: install ') || existsSync(made[family] as string),
        ).to.equal(true);
      using device = openDevice('host:0');
      const { saxpy } = await device.loadKernels({
        images: { host: made.host as string },
        kernels: { saxpy: { tensors: ['float32', 'float32'], wholes: 1, reals: 1 } },
      });
      expect(saxpy.name).to.equal('saxpy');
    },
  );

  itAll('compiles the same source once, and reuses the result from HOTSLOT_CACHE', async () => {
    const env = { HOTSLOT_CACHE: join(folder, 'cache') };
    const first = await run(MAIN, ['kernels', source], { env });
    expect(first.code).to.equal(0);
    // A compilation would fail now, because TMPDIR does not exist.
    const again = await run(MAIN, ['kernels', source], {
      env: { ...env, TMPDIR: '/no/such/folder' },
    });
    expect([again.code, again.stdout]).to.deep.equal([0, first.stdout]);
  });

  itAll('prints the errors of a source and of wrong usage', async () => {
    const broken = join(folder, 'broken.gk');
    writeFileSync(broken, saxpySource.replace('y[i] = a', 'y[i] == a').replace('gk_i64 n,', ''));
    const { code, stderr } = await run(MAIN, ['kernels', broken]);
    expect(code).to.equal(1);
    expect(stderr)
      .to.include('does not compile')
      .and.match(/broken\.gk:3:\d+: error: .*n/);
    writeFileSync(broken, 'int main() {}');
    expect((await run(MAIN, ['kernels', broken])).stderr).to.include(
      'has no kernel; a kernel begins with GK_KERNEL',
    );
    const wrong = [
      [['kernels'], 'takes the file'],
      [['kernels', '/no/such.gk'], '/no/such.gk cannot be read'],
      [['kernels', source, 'more'], "got 'more'"],
      [['kernels', source, '--out'], '--out needs a value'],
      [['kernels', source, '--json'], 'kernels takes no --json'],
      [['doctor', '--out', 'x'], 'doctor takes no --out'],
    ] as const;
    const all = await runEach(
      MAIN,
      wrong.map(([args]) => args),
    );
    for (const [i, { stderr }] of all.entries())
      expect(stderr, wrong[i]![0].join(' ')).to.include(wrong[i]![1]);
  });

  itAll('examples/own-kernel shifts frames as JavaScript does', async () => {
    const small = ['--rows', '3', '--size', '20', '--replays', '5'];
    const { code, lines } = await run('test/programs/own-kernel/main.js', [
      '--device',
      'host:0',
      ...small,
    ]);
    expect(code).to.equal(0);
    expect(lines[0]).to.match(/^a frame +the first batch +the last batch$/);
    expect(lines.slice(1, 12).join('')).to.include('##');
    expect(lines.slice(12).join(' ')).to.include('bit for bit');
    const wrong = await run('test/programs/own-kernel/main.js', ['--size', '4']);
    expect([wrong.code, wrong.stderr]).to.deep.equal([
      2,
      "own-kernel: --size must be a whole number from 8 to 1024, got '4'; see --help\n",
    ]);
  });
});
