/**
 * Tests bench/gpu/run.sh on the software driver. If a step hangs or fails, the other steps still
 * run and the results stay.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { itAll, itLong } from '../rig/setting.ts';
import { buildSoftwareDriver } from './build.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

describe('bench/gpu/run.sh', () => {
  let out: string;
  beforeEach(() => {
    out = mkdtempSync(join(tmpdir(), 'hotslot-steps-'));
  });
  afterEach(() => rmSync(out, { recursive: true, force: true }));

  const steps = (names: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    spawnSync('bash', ['bench/gpu/run.sh', ...names], {
      cwd: root,
      env: {
        ...process.env,
        HOTSLOT_CUDA: buildSoftwareDriver('cuda'),
        HOTSLOT_SOFTWARE_CUDA: '13.0',
        WORK: root,
        OUT: out,
        REHEARSE: '1',
        ...env,
      },
      encoding: 'utf8',
    });
  const told = (file: string) => readFileSync(join(out, file), 'utf8');

  itAll('runs the next steps after a step hangs, and keeps its results and stacks', () => {
    const { status, stdout } = steps(['copy', 'calls', 'kernels', 'after'], {
      LIMIT: 'calls=3',
      HOTSLOT_SOFTWARE_CUDA: '13.0,hang=cuStreamBeginCapture',
    });
    expect(status).to.equal(1);
    expect(stdout).to.match(/^copy +ok .*\ncalls +over its 3 s .*\nkernels +(ok|left out) .*\n/m);
    expect(stdout).to.match(/^\d of 4 steps are ok; .*not ok: calls$/m);
    // A skipped step has its reason at the end of its line, and the log has all steps.
    expect(stdout).to.match(/^after +(ok|left out +\d+ s no nvidia-smi here$)/m);
    expect(told('log.txt').match(/^== \w+: /gm)).to.have.length(4);
    expect(JSON.parse(told('copy.json'))).to.include.keys('allocatedMs', 'registeredMs');
    expect(told('kernels.ptx')).to.match(/^\/\/\n.*\.visible \.entry axpby\(/s);
    expect(told('stacks.txt')).to.match(/^== calls, over its 3 s\n-- \d+: .*raw_cuda calls 0 /);
    // The table has the available results and all steps.
    expect(told('table.txt')).to.match(
      /^a copy to the device: .*\ncopy +ok .* copies to the device from pinned memory\ncalls +over its 3 s/ms,
    );
  });

  itAll(
    'prints the driver error and a missing cuBLAS, and keeps the last result of each step',
    () => {
      const refused = steps(['copy'], { HOTSLOT_SOFTWARE_FAIL: 'cuMemHostRegister:1:801:forever' });
      expect(refused.status).to.equal(1);
      expect(refused.stdout).to.match(
        /^copy +failed \(1\) .*\n {4}raw_cuda: cuMemHostRegister failed with 801 /,
      );
      const { status, stdout } = steps(['doctor', 'copy'], { HOTSLOT_CUBLAS: 'none' });
      expect(status).to.equal(0);
      expect(stdout).to.match(
        /^!! no cuBLAS; matrix products: Hotslot's own kernel \(HOTSLOT_CUBLAS=none\)$/m,
      );
      expect(told('table.txt').match(/^copy +ok /gm)).to.have.length(1);
      expect(told('table.txt')).not.to.include('failed');
      const absent = steps(['doctor'], { DEVICE: 'cuda:5' });
      expect(absent.stdout).to.match(/^doctor +failed \(1\) /m);
    },
  );

  // Every step first creates the context.
  const hangs = { HOTSLOT_SOFTWARE_CUDA: '13.0,hang=cuDevicePrimaryCtxRetain' };
  const everyStep = (): string[] => {
    const { stdout } = steps(['--limits']);
    const names = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]!);
    return names.filter((name) => !['first', 'second', 'third'].includes(name));
  };
  const hang = (names: readonly string[], limit: number) => {
    const { status, stdout } = steps(names, { ...hangs, LIMIT: String(limit) });
    expect(status).to.equal(1);
    // These steps need no driver, or they need a tool that few machines have.
    for (const name of names.filter((each) => !['kernels', 'after', 'memcheck'].includes(each)))
      expect(stdout, name).to.match(
        new RegExp(`^${name} +(over its ${limit} s|failed \\(1\\)) `, 'm'),
      );
    expect(stdout).to.include(`over its ${limit} s`);
    expect(stdout).not.to.include('does not end');
  };
  itAll('ends two steps at their limit when the driver hangs', () => hang(['look', 'train'], 3));
  itLong('ends every step at its limit when the driver hangs', () => hang(everyStep(), 6));

  it('limits each of the three groups to five minutes, and rejects an unknown step', () => {
    const { stdout } = steps(['--limits']);
    const sums = /^first (\d+)\nsecond (\d+)\nthird (\d+)$/m.exec(stdout)!.slice(1).map(Number);
    for (const sum of sums) expect(sum).to.be.within(200, 300);
    const none = steps(['look', 'everything']);
    expect([none.status, none.stdout]).to.deep.equal([2, '']);
    expect(none.stderr).to.match(
      /^there is no step 'everything'; there are: first second third bench tests, or look facts /,
    );
    expect(existsSync(join(out, 'look.txt'))).to.equal(false);
  });
});
