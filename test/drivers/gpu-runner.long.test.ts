/**
 * Tests `npm run test:gpu`, `bench/run.js --record` and `raw_cuda facts` on the software driver:
 * what they reject, and how they report failures.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { Result } from '../gpu/units.ts';
import { itAll } from '../rig/setting.ts';
import { toldBy } from './facts.ts';
import { modes, run } from './software.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const script = 'dist/test/gpu/run.js';
const mode = modes.cuda13;

describe('npm run test:gpu', () => {
  itAll('exits with code 2 and a reason for each family when no accelerator is available', () => {
    const none = { HOTSLOT_CUDA: 'none', HOTSLOT_HIP: 'none', HOTSLOT_LEVEL_ZERO: 'none' };
    const { status, stdout, stderr } = spawnSync(process.execPath, [script], {
      cwd: root,
      env: { ...process.env, ...none },
      encoding: 'utf8',
    });
    expect([status, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(
      /^there is no accelerator to test\n {2}cuda: .*\n {2}rocm: .*\n {2}xpu: /,
    );
  });

  itAll('rejects an unknown device or part with exit code 2, and names the devices', async () => {
    const other = await run(mode, [script, 'cuda:5']);
    expect([other.status, other.stderr.split('\n')[0]]).to.deep.equal([
      2,
      "there is no accelerator 'cuda:5' to test; there is cuda:0",
    ]);
    const part = await run(mode, [script, '--only', 'contracts']);
    expect([part.status, part.stderr.split('\n')[0]]).to.deep.equal([
      2,
      "there is no part 'contracts'",
    ]);
  });

  itAll(
    'reports a failure with its error and its result alone, and exits with code 1',
    async () => {
      const fails = { HOTSLOT_SOFTWARE_FAIL: 'cuGraphInstantiateWithFlags:1:999:forever' };
      const { status, stdout } = await run(mode, [script, '--only', 'pinned', '--json'], fails);
      const [result, summary] = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Result & { summary?: boolean });
      expect([status, summary?.summary]).to.deep.equal([1, true]);
      const failure = result?.failures.find(({ title }) =>
        title.includes('while a replay of a closed graph still copies from the memory'),
      );
      expect(failure?.alone).to.equal('fails');
      expect(failure?.error).to.include('cuGraphInstantiate');
    },
  );

  itAll('reports a process that exceeds its limit as a failure', async () => {
    const { status, stdout } = await run(mode, [
      script,
      '--only',
      'pinned',
      '--json',
      '--limit',
      '0.01',
    ]);
    const [result] = stdout.split('\n').map((line) => JSON.parse(line || '{}') as Result);
    expect([status, result?.passes]).to.deep.equal([1, 0]);
    expect(result?.failures[0]?.error).to.include('did not end within 0.01 s');
  });

  itAll('--once reports one failure for each part, and runs no test again', async () => {
    const once = ['--only', 'pinned,same', '--json', '--limit', '0.01', '--once'];
    const { status, stdout } = await run(mode, [script, ...once]);
    const results = stdout.split('\n').map((line) => JSON.parse(line || '{}') as Partial<Result>);
    expect([status, results[0]?.passes]).to.deep.equal([1, 0]);
    for (const { failures } of results.slice(0, 3)) {
      expect(failures).to.have.length(1);
      expect(failures?.[0]).not.to.include.keys('alone');
    }
  });
});

describe('bench/run.js --record', () => {
  itAll('rejects a software driver with exit code 2', async () => {
    const { status, stderr } = await run(mode, [
      'dist/bench/run.js',
      'graph',
      '--device',
      'cuda:0',
      '--record',
    ]);
    expect(status).to.equal(2);
    expect(stderr).to.match(
      /^'Hotslot software driver .*' is no device: its figures are not recorded\n/,
    );
  });
});

describe('raw_cuda facts', () => {
  const facts = (chosen: readonly string[], seconds = 30, env: NodeJS.ProcessEnv = {}) => {
    const { told, ...ended } = toldBy(chosen, env, seconds);
    const ends = Object.entries(told).filter(([name]) => name.endsWith('.end'));
    return {
      ...ended,
      told,
      ends: Object.fromEntries(ends.map(([name, end]) => [name.slice(0, -'.end'.length), end])),
    };
  };
  itAll('reports the other parts when a call of one part fails or hangs', () => {
    const failed = facts(['registering', 'capturing', 'losing'], 30, {
      HOTSLOT_SOFTWARE_FAIL: 'cuMemHostRegister:1:2:forever',
    });
    expect(failed.status).to.equal(1);
    expect(failed.ends).to.deep.equal({
      registering: 'status 1',
      capturing: 'ok',
      losing: 'status 1',
    });
    expect(failed.stderr).to.include('cuMemHostRegister failed with 2 CUDA_ERROR_OUT_OF_MEMORY');
    const hung = facts(['registering', 'capturing', 'managed'], 2, {
      HOTSLOT_SOFTWARE_CUDA: '13.0,hang=cuStreamBeginCapture',
    });
    expect(hung.ends).to.deep.equal({ registering: 'ok', capturing: 'signal 14', managed: 'ok' });
  });

  itAll('reports none for missing features, and rejects an unknown part', () => {
    const without = facts(['products', 'managed'], 30, {
      HOTSLOT_CUBLAS: 'none',
      HOTSLOT_SOFTWARE_CUDA: '13.0,managed=none',
    });
    expect(without.ends).to.deep.equal({ products: 'ok', managed: 'ok' });
    expect(without.told).to.include({
      'products.cublas': 'none: HOTSLOT_CUBLAS=none',
      'managed.managed': 'none',
    });
    const none = facts(['everything']);
    expect([none.status, none.stderr]).to.deep.equal([
      1,
      'raw_cuda: there is no part everything\n',
    ]);
  });
});
