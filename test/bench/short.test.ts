/** Benchmarks that take seconds run, each as `npm run bench -- NAME --quick`: nothing else calls what they measure as they do. */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';

describe('bench', function () {
  this.timeout(120_000);

  for (const name of ['pack', 'ring', 'graph', 'tick', 'learner', 'full-iteration', 'todevice', 'halo', 'prefetch'])
    itAll(`${name} runs, and tells figures`, async () => {
      const { code, stdout, stderr } = await run('bench/run.js', [name, '--quick', '--json']);
      expect(code, stderr).to.equal(0);
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      const figures = lines.filter((line) => 'metric' in line);
      expect(figures.length, stdout).to.be.at.least(1);
      for (const { value } of figures) expect(value, stdout).to.satisfy(Number.isFinite);
    });

  it('torch, which is of one core, does not run in a process with others', async () => {
    const { code, stdout, stderr } = await run('bench/run.js', ['graph', 'torch', '--quick']);
    expect([code, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(/^'torch' is of one core and the others of all: run it alone, or set HOTSLOT_CORES/);
  });
});
