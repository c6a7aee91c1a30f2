/** Tests CUDA devices on their software driver, as CUDA 12.0 and 13.0. */
import { expect } from 'chai';
import { describeAll, itAll, itShort, setting } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { buildSoftwareDriver } from './build.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes, run, runTests } from './software.ts';

describeMode(modes.cuda12, { differs: ['managed memory', 'kernels', 'errors'] });
describeMode(modes.cuda13, { newest: true }, () => {
  describeAll('modules above devices', () => carriesAbove(modes.cuda13, { brief: true }));
  hasPeers(modes.cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,devices=2' }, itShort);
  describeAll('two devices without peer access', () => {
    hasPeers(modes.cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,devices=2,peer=none' });
  });
  itAll(
    'multiplies matrices by cuBLAS, and by its own kernel if cuBLAS is missing or unfit',
    async () => {
      const cublas = {
        HOTSLOT_CUBLAS: buildSoftwareDriver('cublas'),
        HOTSLOT_OWN_PRODUCTS: 'none',
      };
      const files = setting({ short: [], all: ['dqn'], long: ['*'] });
      const learners = files.map((name) => testFile(`learner/${name}`));
      expect(await runTests(modes.cuda13, learners, cublas)).to.be.at.least(
        setting({ short: 0, all: 8, long: 50 }),
      );
      const { stdout } = await run(
        modes.cuda13,
        ['dist/test/drivers/probe.js', 'products'],
        cublas,
      );
      expect(JSON.parse(stdout)).to.match(/^cuBLAS 13\.1 /);
      for (const [how, words] of [
        ['refuse', 'cublasSgemm failed with cuBLAS status 13'],
        ['wrong', 'its products are wrong'],
      ] as const) {
        const env = { ...cublas, HOTSLOT_SOFTWARE_BLAS: how };
        const unfit = await run(modes.cuda13, ['dist/test/drivers/probe.js', 'products'], env);
        expect(JSON.parse(unfit.stdout))
          .to.match(/^Hotslot's own kernel \(.* does not multiply here: /)
          .and.include(words);
      }
      const own = await run(modes.cuda13, ['dist/test/drivers/probe.js', 'products']);
      expect(JSON.parse(own.stdout)).to.equal("Hotslot's own kernel");
    },
  );
  itAll(
    'npm run test:gpu runs each test with a failing kernel in a process of its own',
    async () => {
      const { stdout, stderr, status } = await run(modes.cuda13, [
        'dist/test/gpu/run.js',
        'cuda:0',
        '--only',
        'lost',
        '--json',
      ]);
      expect(status, stdout + stderr).to.equal(0);
      const lines = stdout.trim().split('\n');
      const units = lines.map((line) => JSON.parse(line) as { part?: string; passes: number });
      const alone = units.filter(({ part }) => part === 'lost').map(({ passes }) => passes);
      expect(alone).to.deep.equal(Array(setting({ short: 0, all: 4, long: 12 })).fill(1));
    },
  );
  failsEveryCall(modes.cuda13, setting({ short: 1, all: 1, long: 200 }));
});
