/** `npm run test:gpu` and the benchmarks' record, over the software driver: what they refuse, and how they tell what failed. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { buildRawCuda } from '../../bench/native.ts';
import type { Result } from '../gpu/units.ts';
import { buildSoftwareDriver } from './build.ts';
import { modes, run } from './software.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const script = 'dist/test/gpu/run.js';
const mode = modes.cuda13;

describe('the tests for a GPU', function () {
  this.timeout(120_000);

  it('refuse to run without one, naming why for each family', () => {
    const none = { HOTSLOT_CUDA: 'none', HOTSLOT_HIP: 'none', HOTSLOT_LEVEL_ZERO: 'none' };
    const { status, stdout, stderr } = spawnSync(process.execPath, [script], {
      cwd: root,
      env: { ...process.env, ...none },
      encoding: 'utf8',
    });
    expect([status, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(/^there is no accelerator to test\n {2}cuda: .*\n {2}rocm: .*\n {2}xpu: /);
  });

  it('refuse a device that is not there, naming those that are, and parts that are none', async () => {
    const other = await run(mode, [script, 'cuda:5']);
    expect([other.status, other.stderr.split('\n')[0]]).to.deep.equal([
      2,
      "there is no accelerator 'cuda:5' to test; there is cuda:0",
    ]);
    const part = await run(mode, [script, '--only', 'contracts']);
    expect([part.status, part.stderr.split('\n')[0]]).to.deep.equal([2, "there is no part 'contracts'"]);
  });

  it('tell a failure with its error and how the test does alone, and end with 1', async () => {
    const fails = { HOTSLOT_SOFTWARE_FAIL: 'cuMemHostUnregister:20:999:forever' };
    const { status, stdout } = await run(mode, [script, '--only', 'pinned', '--json'], fails);
    const [result, summary] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Result & { summary?: boolean });
    expect([status, summary?.summary]).to.deep.equal([1, true]);
    const [failure] = result?.failures ?? [];
    expect(failure?.title).to.include('is let go a thousand times');
    expect(failure?.alone).to.equal('fails');
    expect(failure?.error).to.include('cuMemHost');
  });

  it('take a process that does not end for a failure, and run the tests it kept from running', async () => {
    const { status, stdout } = await run(mode, [script, '--only', 'pinned', '--json', '--limit', '0.01']);
    const [result] = stdout.split('\n').map((line) => JSON.parse(line || '{}') as Result);
    expect([status, result?.passes]).to.deep.equal([1, 0]);
    expect(result?.failures[0]?.error).to.include('did not end within 0.01 s');
  });
});

describe('the record of a device', () => {
  it('is not written for a software driver', async () => {
    const { status, stderr } = await run(mode, ['dist/bench/run.js', 'graph', '--device', 'cuda:0', '--record']);
    expect(status).to.equal(2);
    expect(stderr).to.match(/^'Hotslot software driver .*' is no device: its figures are not recorded\n/);
  });
});

describe("a driver's own facts", function () {
  this.timeout(120_000);

  const facts = (seconds: number, env: NodeJS.ProcessEnv) => {
    const software = { HOTSLOT_CUDA: buildSoftwareDriver('cuda'), HOTSLOT_SOFTWARE_CUDA: '13.0' };
    const { status, stdout } = spawnSync(buildRawCuda(), ['facts', '0', String(seconds)], {
      env: { ...process.env, ...software, ...env },
      encoding: 'utf8',
    });
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const ends = Object.fromEntries(lines.filter(({ end }) => end).map(({ part, end }) => [part, end]));
    return { status, lines, ends };
  };
  const parts = ['waiting', 'registering', 'capturing', 'holding', 'losing'];

  it('are told one by one, a process for each part', () => {
    const { status, lines, ends } = facts(30, {});
    expect([status, ends]).to.deep.equal([0, Object.fromEntries(parts.map((part) => [part, 'ok']))]);
    for (const line of lines) expect(Object.keys(line)).to.have.length(2).and.include('part');
    for (const fact of [
      'msBeside_memFree',
      'streamsHeldBesideAFreeOne',
      'streamsHeldWithWorkBehindThem',
      'lost_memFree',
    ])
      expect(lines.filter((line) => fact in line)).to.have.length(1);
  });

  it('of one part are lost alone, when a call fails or never returns', () => {
    const failed = facts(30, { HOTSLOT_SOFTWARE_FAIL: 'cuMemHostRegister:1:2:forever' });
    expect(failed.status).to.equal(1);
    expect(failed.ends).to.include({ registering: 'status 1', capturing: 'ok', losing: 'ok' });
    const hung = facts(2, { HOTSLOT_SOFTWARE_CUDA: '13.0,hang=cuStreamBeginCapture' });
    expect(hung.ends).to.include({ waiting: 'ok', registering: 'ok', capturing: 'signal 14' });
  });
});
