/**
 * Tests a program's own kernels on every family's software driver: compiled from source, loaded
 * from images, and with failing driver calls.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { compileWith, formats, missingFor } from '../../src/device/own-kernels/compilers.ts';
import { saxpySource } from '../device/saxpy.ts';
import { itAll, setting } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { buildSoftwareDriver } from './build.ts';
import { type Mode, modes, need, run, runTests } from './software.ts';

const source = { text: saxpySource, file: 'saxpy.gk' };
const shift = 'test/programs/own-kernel/random_shift.gk';
const folder = mkdtempSync(join(tmpdir(), 'hotslot-own-kernels-'));

/**
 * Returns the additional environment of a mode's process. The driver launches the host form of the
 * kernels, and the test compiler replaces the driver's.
 */
async function beside(mode: Mode): Promise<Record<string, string>> {
  const { readSource } = await import('../../src/device/own-kernels/source.ts');
  const frames = await readSource('', new URL(`../../../${shift}`, import.meta.url));
  const libraries = await Promise.all(
    [source, frames].map((each) => compileWith(formats.host, each)),
  );
  return {
    HOTSLOT_SOFTWARE_KERNELS: libraries.join(':'),
    ...(mode.driver === 'cuda' && { HOTSLOT_NVRTC: buildSoftwareDriver('nvrtc') }),
    ...(mode.driver.startsWith('hip') && { HOTSLOT_HIPRTC: buildSoftwareDriver('hiprtc') }),
  };
}

/** Writes an image that the family's driver accepts to a file, and returns its path. */
async function imageFor(mode: Mode): Promise<string> {
  const file = join(folder, `${mode.driver}.image`);
  if (mode.driver.startsWith('hip')) writeFileSync(file, 'HOTSLOT-SOFTWARE-HSACO\nsaxpy\ntally\n');
  else
    copyFileSync(
      await compileWith(mode.driver === 'cuda' ? formats.ptx : formats.spirv, source),
      file,
    );
  return file;
}

describe('own kernels on software drivers', function () {
  // The limit covers a run of many tests. Each of them has its own time-out, whose error names the
  // test that hung.
  this.timeout(600_000);
  after(() => rmSync(folder, { recursive: true, force: true }));
  before(async function () {
    const missing = (await missingFor(formats.ptx)) ?? (await missingFor(formats.spirv));
    if (missing === null) return;
    console.log(`      skipped: ${missing} is not here`);
    this.skip();
  });
  for (const mode of [
    modes.cuda13,
    modes.hip,
    modes.ze,
    ...setting({
      short: [],
      all: [],
      long: [modes.cuda12, modes.hipOld, modes.ze14, modes.zeGraph],
    }),
  ])
    describe(mode.name, () => {
      before(function () {
        need(this, mode);
      });

      itAll('pass the tests of device/own-kernels', async () => {
        expect(
          await runTests(mode, [testFile('device/own-kernels')], await beside(mode)),
        ).to.be.at.least(12);
      });

      itAll('shift frames in the own-kernel program with equal results', async () => {
        const args = [
          'dist/test/programs/own-kernel/main.js',
          '--device',
          mode.device,
          '--rows',
          '3',
          '--replays',
          '4',
          '--json',
        ];
        const { stdout, stderr, status } = await run(mode, args, await beside(mode));
        expect(status, stderr).to.equal(0);
        expect(JSON.parse(stdout)).to.include({ equal: true, device: mode.device });
      });

      itAll(
        'name a driver call that fails, launch again afterwards, and leave no handle open',
        async () => {
          const told =
            { cuda: 'CUDA', hip: 'HIP', level_zero: 'ZE' }[
              mode.driver as 'cuda' | 'hip' | 'level_zero'
            ] ?? 'HIP';
          const variable = `HOTSLOT_SOFTWARE_${told}`;
          const how = [(mode.told as Record<string, string>)[variable], 'devices=2']
            .filter(Boolean)
            .join(',');
          const args = ['dist/test/drivers/own-kernels-probe.js', await imageFor(mode), 'saxpy'];
          const { stdout, stderr, status } = await run(mode, args, {
            ...(await beside(mode)),
            [variable]: how,
          });
          expect(status, stderr).to.equal(0);
          const [first, ...rest] = stdout
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line));
          expect(first.right).to.deep.equal([13, 18]);
          expect(rest).to.have.length(first.calls).and.have.length.above(10);
          for (const { call, named, text, warned, again, after } of rest) {
            const said = `${call}: ${text} ${warned}`;
            expect(again, said).to.deep.equal([13, 18]);
            // Hotslot tried again to free what the driver refused to free.
            expect(after, said).to.deep.equal(first.before);
            if (text !== null) expect(named === call || text.includes(call), said).to.equal(true);
          }
        },
      );
    });

  itAll(
    'loadKernels() compiles with clang if NVRTC is missing, and rejects if clang is too',
    async () => {
      const env = { ...(await beside(modes.cuda13)), HOTSLOT_NVRTC: 'none' };
      const all = [testFile('device/own-kernels')];
      const some = [
        ...all,
        '--grep',
        'compiles kernels for float32|a source that does not compile',
      ];
      const [tests, least] = setting({ short: [[], 0], all: [some, 2], long: [all, 12] } as const);
      expect(await runTests(modes.cuda13, tests, env)).to.be.at.least(least);
      const script = `import('hotslot').then(async ({ openDevice }) => {
      try { await openDevice('cuda:0').loadKernels({ source: 'GK_KERNEL a(GK_G float* x) {}', kernels: { a: { tensors: ['float32'] } } }); }
      catch ({ code, message }) { console.log(JSON.stringify({ code, message })); }
    })`;
      const without = { ...env, PATH: '/nowhere', HOTSLOT_CACHE: folder };
      const { stdout } = await run(modes.cuda13, ['--input-type=module', '-e', script], without);
      const { code, message } = JSON.parse(stdout);
      expect(code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
      expect(message)
        .to.include('no NVRTC: HOTSLOT_NVRTC=none')
        .and.include('install the CUDA Toolkit');
    },
  );
});
