/**
 * Tests `npm run offline`: what it prints for a file, how it ends, and that it solves Pendulum from
 * data that SAC collected.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseCommandLine } from '../../examples/offline/options.ts';
import { writeNpz } from '../../src/entries/formats.ts';
import { Random } from '../../src/index.ts';
import { run } from '../cli/run-command.ts';
import { inFolder } from '../formats/tensors.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll, itLong, itShort } from '../rig/setting.ts';

const offline = (...args: string[]) => run('examples/offline/main.js', args);

describe('npm run offline', function () {
  this.timeout(300_000);

  itShort('learns from D4RL columns, and prints the returns of the file and the policy', () =>
    inFolder(
      async (folder) => {
        const random = new Random(1);
        const column = (shape: number[], value: (i: number) => number) => {
          const data = Float64Array.from({ length: shape.reduce((n, d) => n * d, 1) }, (_, i) =>
            value(i),
          );
          return { dtype: 'float64', shape, data } as const;
        };
        const data = join(folder, 'd4rl.npz');
        await writeNpz(data, {
          observations: column([600, 3], () => random.between(-1, 1)),
          actions: column([600, 1], () => random.between(-2, 2)),
          rewards: column([600], () => -1),
          terminals: column([600], () => 0),
          timeouts: column([600], (i) => Number(i % 200 === 199)),
        });
        const { code, lines, stderr } = await offline(
          '--data',
          data,
          '--steps',
          '40',
          '--episodes',
          '2',
        );
        expect([code, stderr]).to.deep.equal([1, '']);
        // The last row of each episode has no next observation, so it is skipped.
        expect(lines[0]).to.equal(
          `${data}: 597 rows to learn from, mean return -200.0 over 3 episodes`,
        );
        expect(lines[1]).to.match(
          /^\d+ gradient steps {2}criticLoss [\d.]+ {2}meanQ -?[\d.]+ {2}actorLoss -?[\d.]+$/,
        );
        expect(lines.at(-2)).to.match(
          /^TD3\+BC did not solve Pendulum-v1 from the file: mean return -[\d.]+ ± [\d.]+ over 2 episodes, wanted -200$/,
        );
        expect(lines.at(-1)).to.match(
          /^the file's own episodes: -200\.0; learned in [\d.]+ s, [\d.]+ s in all$/,
        );
      },
      ['d4rl.npz'],
    ),
  );

  itAll('rejects invalid options with exit code 2, and a file without data with exit code 1', () =>
    inFolder(async (folder) => {
      for (const [args, says] of [
        [['--steps', '0'], "--steps must be a whole number of at least 2, got '0'"],
        [['--alpha', '-1'], "--alpha must be a number from 0 to 1000000, got '-1'"],
        [['--data='], "--data must name a file, got ''"],
        [['--dtaa', 'x'], "unknown option '--dtaa'"],
      ] as const)
        expect(refusal(() => parseCommandLine(args)).message).to.equal(says);
      expect(parseCommandLine(['--help'])).to.equal(null);
      const wrong = await offline('--device', 'cuda:77');
      expect(
        [wrong.code, /^offline: .*; see --help$/m.test(wrong.stderr)],
        wrong.stderr,
      ).to.deep.equal([2, true]);
      const file = join(folder, 'x.npz');
      writeFileSync(file, 'no zip');
      const { code, stderr } = await offline('--data', file);
      expect([code, stderr]).to.deep.equal([1, stderr]);
      expect(stderr).to.match(/^offline: --data .*x\.npz cannot be learned from: readNpz: .*zip/);
    }),
  );

  itLong('records data by SAC, solves Pendulum from the data, and uses the file again', () =>
    inFolder(async (folder) => {
      const data = join(folder, 'sac.npz');
      const first = await offline('--data', data, '--json', '--quiet', '--device', 'host:0');
      expect(first.code, first.stdout + first.stderr).to.equal(0);
      const said = JSON.parse(first.lines.at(-1)!);
      expect(said).to.include({
        solved: true,
        made: true,
        rows: 20_000,
        dataEpisodes: 100,
        interrupted: false,
      });
      expect(said.meanReturn).to.be.at.least(-200).and.greaterThan(said.dataReturn);
      const again = await offline(
        '--data',
        data,
        '--json',
        '--quiet',
        '--alpha',
        '0',
        '--steps',
        '400',
      );
      expect([again.code, JSON.parse(again.lines.at(-1)!).made]).to.deep.equal([1, false]);
    }),
  );

  itAll('leaves no data file when Ctrl-C interrupts the recording', () =>
    inFolder(async (folder) => {
      const data = join(folder, 'sac.npz');
      const said = await run('examples/offline/main.js', ['--data', data], {
        interruptAt: /updates/,
      });
      expect([said.code, existsSync(data)]).to.deep.equal([130, false]);
      expect(said.lines.at(-1)).to.equal('interrupted: nothing was judged');
    }, []),
  );
});
