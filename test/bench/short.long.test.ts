/**
 * Tests that the short benchmarks run with `npm run bench -- NAME… --quick`. They call code in ways
 * that no other test does.
 */
import { expect } from 'chai';
import { meets } from '../../bench/harness.ts';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';

describe('bench/run.js', () => {
  const figuresOf = ['ring', 'graph', 'learner', 'full-iteration', 'todevice', 'halo', 'prefetch'];
  itAll(
    `prints finite figures of benchmarks that run in one process: ${figuresOf.join(' ')}`,
    async () => {
      const { code, stdout, stderr } = await run('bench/run.js', [
        ...figuresOf,
        '--quick',
        '--json',
      ]);
      expect(code, stderr).to.equal(0);
      const figures = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .filter((line) => 'metric' in line);
      expect([...new Set(figures.map(({ bench }) => bench))]).to.deep.equal(figuresOf);
      for (const { value } of figures) expect(value, stdout).to.satisfy(Number.isFinite);
    },
  );

  itAll(
    'prints text results of pack and tick, the number of met goals and each missed goal',
    async () => {
      const { code, stdout, stderr } = await run('bench/run.js', ['pack', 'tick', '--quick']);
      expect(code, stderr).to.equal(0);
      const lines = stdout.split('\n');
      for (const name of ['pack', 'tick'])
        expect(lines.filter((line) => line.startsWith(`${name} `)).length, stdout).to.be.at.least(
          8,
        );
      expect(stdout).to.not.match(/NaN|Infinity/);
      const goals = lines.filter((line) => / {2}goal \S.*$/.test(line));
      const missed = goals.filter((line) => line.endsWith(', missed'));
      const [, met, all] = /^(\d+) of (\d+) goals met/m.exec(stdout)!.map(Number);
      expect([met, all]).to.deep.equal([goals.length - missed.length, goals.length]);
      expect(all).to.be.at.least(4);
      expect(stdout.match(/^ {2}(?:pack|tick): .*\)$/gm) ?? []).to.have.length(missed.length);
    },
  );

  it('meets() compares the ratio to the baseline, or the value with `least` or `most`', () => {
    expect(meets({ value: 1, ratio: 0.8 }, { ratio: 0.8 })).to.equal(true);
    expect(meets({ value: 1, ratio: 0.79 }, { ratio: 0.8 })).to.equal(false);
    expect(meets({ value: 1 }, { ratio: 0.1 })).to.equal(false);
    expect(meets({ value: 80 }, { least: 80 })).to.equal(true);
    expect(meets({ value: 79 }, { least: 80 })).to.equal(false);
    expect(meets({ value: 20 }, { most: 20 })).to.equal(true);
    expect(meets({ value: 21 }, { most: 20 })).to.equal(false);
  });

  itAll('exits with 2 if torch is combined with other benchmarks', async () => {
    const { code, stdout, stderr } = await run('bench/run.js', ['graph', 'torch', '--quick']);
    expect([code, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(
      /^'torch' is of one core and the others of all: run it alone, or set HOTSLOT_CORES/,
    );
  });

  itAll('exits with 2 if torch-tf32 runs without a GPU', async () => {
    const { code, stdout, stderr } = await run('bench/run.js', [
      'torch-tf32',
      '--device',
      'host:0',
      '--quick',
    ]);
    expect([code, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(/^'torch-tf32' is for a GPU whose cuBLAS reads NVIDIA_TF32_OVERRIDE=1/);
  });
});
