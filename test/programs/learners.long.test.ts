/**
 * Tests the example of several learners that keep their parameters equal, in one process.
 * test/ranks tests it with a launcher.
 */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';

const script = 'test/programs/learners/main.js';

describe('learners program', () => {
  itAll('solves CartPole with two learners whose parameters stay equal', async () => {
    const { code, stderr, lines } = await run(script, ['--device', TESTED, '--json']);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    const summary = JSON.parse(lines.at(-1) as string) as { finalReturn: number; looks: number };
    expect(summary).to.include({ learners: 2, solved: true, equal: true });
    expect(summary.finalReturn).to.be.at.least(475);
    expect(summary.looks).to.be.above(5);
  });

  itAll('prints the result and exits with code 1 when --max-ticks is too low', async () => {
    const { code, lines } = await run(script, [
      '--learners',
      '3',
      '--max-ticks',
      '80',
      '--every',
      '4',
    ]);
    expect(code).to.equal(1);
    expect(lines[0]).to.match(
      /^not solved, by 3 learners in 80 ticks, \d+ steps of their poles, [0-9.]+ s$/,
    );
    expect(lines[1]).to.equal('parameters of all learners: equal, bit for bit, at 1 looks');
  });

  for (const [args, sentence] of [
    [['--learners', '1'], '--learners must be a whole number'],
    [['--every', '0'], '--every must be a whole number of at least 1'],
    [['--mpi'], 'no MPI launcher started this process'],
  ] as const)
    (args[0] === '--mpi' ? it : itAll)(`rejects ${args.join(' ')} with one sentence`, async () => {
      const { code, stdout, stderr } = await run(script, args);
      expect(code).to.be.oneOf([1, 2]);
      expect(stdout).to.equal('');
      expect(stderr).to.match(/^learners: [^\n]+\n$/);
      expect(stderr).to.contain(sentence);
    });
});
