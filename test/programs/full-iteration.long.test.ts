/**
 * Tests the example of full-iteration graphs: eager and captured training must agree bit for bit.
 */
import { expect } from 'chai';
import { run, runEach } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';

const script = 'test/programs/full-iteration/main.js';

describe('full-iteration program', () => {
  itAll(
    'trains to equal weights eagerly and by one graph, and the graph costs the caller less',
    async () => {
      const { code, stderr, lines } = await run(script, [
        '--device',
        TESTED,
        '--iterations',
        '400',
        '--json',
      ]);
      expect(stderr).to.equal('');
      expect(code).to.equal(0);
      const summary = JSON.parse(lines.at(-1) as string) as {
        error: number;
        eager: { callerMicroseconds: number };
        graph: { callerMicroseconds: number };
      };
      expect(summary).to.include({ device: TESTED, iterations: 400, equal: true, captured: true });
      expect(summary.error).to.be.below(0.05);
      expect(summary.graph.callerMicroseconds).to.be.below(summary.eager.callerMicroseconds);
    },
  );

  itAll('prints the times, the error and the comparison of the weights', async () => {
    const { code, lines } = await run(script, ['--iterations', '20', '--seed', '3']);
    expect(code).to.equal(0);
    expect(lines.join('\n')).to.match(/one graph, replayed +[0-9.]+ +[0-9.]+/);
    expect(lines.at(-1)).to.match(
      /^mean squared error [0-9.]+; the weights are equal bit for bit$/,
    );
  });

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    const wrong = [
      [['--iterations', '1'], "--iterations must be a whole number of at least 2, got '1'"],
      [['--iterations', '-3'], "--iterations must be a whole number of at least 2, got '-3'"],
      [['--seed', 'x'], "--seed must be a whole number of at least 0, got 'x'"],
      [['--seed'], '--seed needs a value'],
      [['--device', '--json'], '--device needs a value'],
      [['--speed', '3'], "unknown option '--speed'"],
      [['--device', 'tpu:0'], "unknown device 'tpu:0'"],
      [['--device', 'host:99'], 'host:99'],
    ] as const;
    const all = await runEach(
      script,
      wrong.map(([args]) => args),
    );
    for (const [i, { code, stdout, stderr }] of all.entries()) {
      expect([code, stdout]).to.deep.equal([2, '']);
      expect(stderr).to.match(/^full-iteration: .+; see --help\n$/);
      expect(stderr).to.include(wrong[i]![1]);
    }
  });

  itAll('rejects a device whose driver is disabled, with exit code 2', async () => {
    const { code, stderr } = await run(script, ['--device', 'cuda:0'], {
      env: { HOTSLOT_CUDA: 'none' },
    });
    expect(code).to.equal(2);
    expect(stderr).to.match(/^full-iteration: device 'cuda:0' is not available: .+; see --help\n$/);
  });

  itAll('--help prints every option and the exit codes in at most 80 columns', async () => {
    const { code, stdout, lines } = await run(script, ['--help', '--device', 'nowhere']);
    expect(code).to.equal(0);
    for (const option of ['device', 'iterations', 'seed', 'json', 'help'])
      expect(stdout).to.include(`--${option}`);
    expect(stdout)
      .to.match(/default 1000/)
      .and.match(/exit code: 0 [\s\S]* 1 [\s\S]* 2 wrong\susage/);
    for (const line of lines) expect(line.length, line).to.be.at.most(80);
  });
});
