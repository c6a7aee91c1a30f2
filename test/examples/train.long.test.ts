/**
 * Tests `npm run train`: what it prints, how it ends, and that its presets solve their
 * environments.
 */
import { expect } from 'chai';
import { tasks } from '../../examples/train/presets.ts';
import { run, runEach } from '../cli/run-command.ts';
import { describeAll, itAll, itLong } from '../rig/setting.ts';

const train = (...args: string[]) => run('examples/train/main.js', args);

describe('npm run train', () => {
  itAll('prints a JSON summary and exits with code 0 when CartPole is solved', async () => {
    const solved = await train('--env', 'CartPole', '--json', '--seed', '3', '--device', 'host:0');
    expect(solved.code, solved.stderr).to.equal(0);
    const last = JSON.parse(solved.lines.at(-1)!);
    expect(last).to.include({
      solved: true,
      environment: 'CartPole-v1',
      algorithm: 'dqn',
      seed: 3,
      interrupted: false,
    });
    expect(last.meanReturn).to.be.at.least(475);
    expect(last.curve.at(-1).meanReturn).to.equal(last.meanReturn);
    expect([last.steps, last.updates, last.seconds].every((value) => value > 0)).to.equal(true);
    for (const line of solved.lines.slice(0, -1))
      expect(JSON.parse(line)).to.include.keys('steps', 'meanReturn');
  });

  itAll(
    'prints the mean return and the counts, and exits with code 1 when the goal is missed',
    async () => {
      const short = await train('--env', 'pendulum', '--algo', 'td3', '--steps', '1500', '--quiet');
      expect(short.code).to.equal(1);
      expect(short.lines[0]).to.match(
        /^Pendulum not solved in [\d.]+ s: mean return -[\d.]+ ± [\d.]+ over 100 greedy episodes$/,
      );
      expect(short.lines[1]).to.match(/^1,5\d\d environment steps, 5\d\d updates$/);
    },
  );

  itAll('prints the same weights in two runs with --deterministic and the same seed', async () => {
    const args = [
      '--env',
      'CartPole',
      '--json',
      '--quiet',
      '--device',
      'host:0',
      '--steps',
      '1500',
    ];
    const hashes = await Promise.all(
      ['4', '4', '5'].map(async (seed) => {
        const { lines } = await train(...args, '--deterministic', '--seed', seed);
        return JSON.parse(lines[0]!).weights as string;
      }),
    );
    expect(hashes[0]).to.match(/^[0-9a-f]{16}$/);
    expect([hashes[1] === hashes[0], hashes[2] === hashes[0]]).to.deep.equal([true, false]);
  });

  // Uses an environment that no run solves in a few seconds.
  itAll('prints progress, and the result so far when Ctrl-C interrupts the run', async () => {
    const said = await run(
      'examples/train/main.js',
      ['--env', 'HalfCheetah', '--steps', '10000000'],
      {
        interruptAt: /updates .*\n.*updates /,
      },
    );
    expect(said.code).to.equal(130);
    expect(said.lines[0]).to.equal('sac on HalfCheetah-v5: seed 1, auto, goal 4800');
    expect(said.lines[1]).to.match(/^ +[\d.]+ s {2}[\d,]+ of 10,000,000 steps {2}[\d,]+ updates/);
    expect(said.stdout).to.match(/HalfCheetah interrupted after [\d.]+ s: /);
  });

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    const wrong = [
      [['--env', 'Chess'], /^train: --env must be CartPole, Acrobot, .* got 'Chess'; see --help$/m],
      [['--algo', 'dqn'], /^train: --algo for Pendulum must be sac or td3, got 'dqn'/m],
      [['--steps', '10'], /^train: --steps must be a whole number of at least 1001, got '10'/m],
      [['--max-seconds', '0'], /^train: --max-seconds must be a number above 0/m],
      [['--device', 'cuda:77'], /^train: /m],
      [['--evn', 'Pendulum'], /^train: unknown option '--evn'/m],
    ] as const;
    const all = await runEach(
      'examples/train/main.js',
      wrong.map(([args]) => args),
    );
    for (const [i, { code, stderr }] of all.entries())
      expect([code, wrong[i]![1].test(stderr)], stderr).to.deep.equal([2, true]);
    expect((await train('--help')).stdout).to.include('MountainCarContinuous  sac, td3');
  });
});

describeAll('presets of npm run train on the CPU device', function () {
  this.timeout(200_000);
  // Robots take hours and images minutes, so they are not trained here. test/examples/pixels trains
  // on images too. DQN solves CartPole above, and SAC solves Pendulum in test/collect/train.
  for (const [name, { goal, presets, options }] of Object.entries(tasks))
    for (const algorithm of Object.keys(options ? {} : presets))
      (name === 'Pendulum' && algorithm === 'td3' ? it : itLong)(
        `solve ${name} by ${algorithm}`,
        async () => {
          const { code, lines } = await train(
            '--env',
            name,
            '--algo',
            algorithm,
            '--json',
            '--max-seconds',
            '150',
            '--device',
            'host:0',
          );
          const { meanReturn, seconds, solved } = JSON.parse(lines.at(-1)!);
          expect([code, solved], `${meanReturn} of ${goal} in ${seconds} s`).to.deep.equal([
            0,
            true,
          ]);
        },
      );
});
