/**
 * Tests `npm run gymnasium`: it solves the installed environment, and prints a sentence if an
 * environment cannot be made.
 */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import { needNumpy, PYTHON } from '../collect/bridged.ts';
import { itAll } from '../rig/setting.ts';

const gymnasium = (...args: string[]) =>
  run('examples/gymnasium/main.js', ['--python', PYTHON, ...args]);

describe('npm run gymnasium', () => {
  before(function () {
    needNumpy(this);
  });

  itAll('solves its default environment', async () => {
    const { code, lines, stderr } = await gymnasium('--json', '--device', 'host:0');
    expect(code, stderr).to.equal(0);
    const { solved, meanReturn } = JSON.parse(lines.at(-1)!);
    expect([solved, meanReturn >= -12]).to.deep.equal([true, true]);
  });

  itAll(
    'rejects invalid options with exit code 2, and a missing Python module with exit code 1',
    async () => {
      for (const [args, code, says] of [
        [
          ['--algo', 'ppo'],
          2,
          /^gymnasium: --algo must be sac, td3 or dqn, got 'ppo'; see --help$/m,
        ],
        [['--id', 'a', '--entry', 'b:c'], 2, /^gymnasium: --id and --entry exclude each other/m],
        [
          ['--entry', 'nowhere:make'],
          1,
          /^gymnasium: nowhere:make: \S+ has no module nowhere, which is needed for nowhere:make$/m,
        ],
      ] as const) {
        const said = await gymnasium(...args);
        expect([said.code, says.test(said.stderr)], said.stderr).to.deep.equal([code, true]);
      }
    },
  );
});
