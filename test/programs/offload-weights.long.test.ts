/**
 * Tests the example with weights that exceed a budget: its output, and its error for wrong usage,
 * which is one sentence.
 */
import { expect } from 'chai';
import { run, runEach } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

const example = (...args: string[]) => run('test/programs/offload-weights/main.js', args);
const small = [
  '--device',
  TESTED,
  '--width',
  '64',
  '--layers',
  '6',
  '--steps',
  '8',
  '--budget-mib',
  '0.06',
];

describe('offload-weights program', () => {
  it('learns within the budget, with equal losses with and without prefetch', async function () {
    const { code, stderr, lines } = await example(...small, '--json');
    if (!ON_HOST && /no managed memory/.test(stderr)) this.skip();
    expect([code, stderr]).to.deep.equal([0, '']);
    const all = lines.map((line) => JSON.parse(line));
    const summary = all.at(-1);
    const losses = (prefetch: boolean) =>
      all.filter((each) => each.prefetch === prefetch).map(({ loss }) => loss);
    expect(losses(true)).to.have.length(8);
    expect(losses(false)).to.deep.equal(losses(true));
    expect(summary).to.deep.include({
      ok: true,
      equal: true,
      device: TESTED,
      totalBytes: 6 * 65 * 64 * 4,
    });
    expect(summary.lastLoss).to.be.below(summary.firstLoss);
    if (!ON_HOST) return;
    // The budget fits three layers, and three were on the device at once. The driver reports the
    // same number of bytes.
    expect([summary.peakBytes, summary.peakByDriverBytes]).to.deep.equal([
      3 * 65 * 64 * 4,
      3 * 65 * 64 * 4,
    ]);
    expect(summary.budgetBytes).to.be.within(summary.peakBytes, summary.totalBytes);
  });

  itAll('prints its results in 80 columns, with a note on the CPU device', async function () {
    const { code, stderr, stdout, lines } = await example(...small);
    if (!ON_HOST && /no managed memory/.test(stderr)) this.skip();
    expect([code, stderr]).to.deep.equal([0, '']);
    for (const line of lines) expect(line.length, line).to.be.at.most(80);
    expect(stdout).to.match(/losses with and without prefetch: equal, bit for bit/);
    expect(stdout).to.match(/on the device at most: .* of .* of a budget of/);
    expect(stdout).to.match(/time per step: .* ms with prefetch, .* ms without/);
    expect(/CPU device and the CPU\s+share their memory/.test(stdout)).to.equal(ON_HOST);
  });

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    const wrong = [
      [['--budget', '4'], /unknown option '--budget'/],
      [['--budget-mib', '0'], /--budget-mib must be a number above 0, got '0'/],
      [['--budget-mib', '1'], /--budget-mib must hold two layers, 2\.00 MiB at width 512; got 1/],
      [['--steps', '1.5'], /--steps must be a whole number of at least 2, got '1\.5'/],
      [['--width', '-3'], /--width must be a whole number of at least 8, got '-3'; see --help/],
      [['--budget-mib', '-.5'], /--budget-mib must be a number above 0, got '-\.5'/],
      [['--json', '-1'], /--json takes no value, got '-1'/],
      [['--device', 'gpu'], /unknown device 'gpu'/],
    ] as const;
    const all = await runEach(
      'test/programs/offload-weights/main.js',
      wrong.map(([args]) => args),
    );
    for (const [i, { code, stdout, stderr }] of all.entries()) {
      expect([code, stdout]).to.deep.equal([2, '']);
      expect(stderr.trim().split('\n')).to.have.length(1);
      expect(stderr).to.match(wrong[i]![1]);
    }
  });

  itAll('rejects a device whose driver is disabled, with exit code 2', async function () {
    const args = [
      'test/programs/offload-weights/main.js',
      ['--device', 'cuda:0'],
      { env: { HOTSLOT_CUDA: 'none' } },
    ] as const;
    const { code, stdout, stderr } = await run(...args);
    if (!ON_HOST && /no managed memory/.test(stderr)) this.skip();
    expect([code, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(
      /^offload-weights: device 'cuda:0' is not available: .+; see --help\n$/,
    );
  });

  itAll('--help prints every option in at most 80 columns', async () => {
    const { code, stdout, lines } = await example('--help');
    for (const line of lines) expect(line.length, line).to.be.at.most(80);
    expect(code).to.equal(0);
    for (const option of ['device', 'steps', 'layers', 'width', 'budget-mib', 'json', 'help'])
      expect(stdout).to.include(`--${option}`);
  });
});
