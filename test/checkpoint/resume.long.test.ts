/**
 * Tests training that is killed and resumed. In lock-step it must end bit for bit like an
 * uninterrupted run. A free run must keep its collectors, statistics and limiter.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { expect } from 'chai';
import { Checkpoint } from '../../src/index.ts';
import { run } from '../cli/run-command.ts';
import { itAll, itLong, setting } from '../rig/setting.ts';
import { Example, killedAndWhole, type Ran, withFolder } from './killed.ts';

const ways = {
  uniform: ['--device', 'host:0'],
  'prioritized, three steps': ['--device', 'host:0', '--replay', 'prioritized', '--n-step', '3'],
};

/**
 * Selects the fields that must be equal. Times differ, and the mean loss begins anew in each
 * process.
 */
const exact = ({ weights, ticks, steps, episodes }: Ran) => ({ weights, ticks, steps, episodes });

/** Returns the CartPole example, which collects and learns concurrently. */
const free = (args: readonly string[]) => new Example(args, process.env, { free: true });

describe('cartpole-dqn with --resume', () => {
  const kills = setting({ short: 1, all: 2, long: 30 });
  const more = setting({ short: 60, all: 100, long: 200 });
  for (const [way, args] of Object.entries(ways))
    (way === 'uniform' ? itLong : itAll)(
      `a killed lock-step run ends with the exact weights of an uninterrupted run (${way})`,
      async () => {
        const [killed, whole] = await killedAndWhole(new Example(args), kills, more);
        expect(exact(killed)).to.deep.equal(exact(whole));
      },
    );

  for (const [way, args] of Object.entries(ways))
    itLong(
      `a run killed after tick 199 and resumed ends like an uninterrupted run (${way})`,
      async () => {
        const example = new Example(args);
        await withFolder(async (folder) => {
          const saved = await example.killedBehind(199, folder);
          expect(saved).to.be.at.least(199);
          // On a busy machine the process may be killed much later than tick 199.
          const most = Math.max(400, saved + 51);
          const ticks = ['--ticks', String(most)];
          const [killed, whole] = await Promise.all([
            example.run(...ticks, '--resume', folder),
            example.run(...ticks),
          ]);
          expect(killed.ticks).to.equal(most);
          expect(exact(killed)).to.deep.equal(exact(whole));
        });
      },
    );

  itAll(
    'a free run resumes after a kill, and ticks, steps and episodes never decrease',
    async () => {
      const example = free(ways.uniform);
      await withFolder(async (folder) => {
        const rows = async () =>
          ((await Checkpoint.inspect(folder))?.parts.limiter?.inserts as number | undefined) ?? 0;
        let before = await example.run('--ticks', '100', '--resume', folder);
        expect(before.ticks).to.equal(100);
        for (let kill = 0; kill < setting({ short: 1, all: 1, long: 20 }); kill++) {
          const added = await rows();
          const saved = await example.killedBehind(before.ticks + 50, folder);
          expect(await rows()).to.be.above(added);
          const after = await example.run('--ticks', String(saved + 51), '--resume', folder);
          expect(after.ticks).to.equal(saved + 51);
          expect(after.steps).to.be.at.least(await rows());
          expect(after.steps).to.be.above(before.steps);
          expect(after.episodes).to.be.at.least(before.episodes);
          before = after;
        }
      });
    },
  );

  itAll(
    'a run of 203 ticks that resumes to tick 400 has the weights of one run of 400 ticks',
    async () => {
      const example = new Example(ways.uniform);
      await withFolder(async (folder) => {
        const first = await example.run('--ticks', '203', '--resume', folder);
        expect(first.ticks).to.equal(203);
        const [then, whole] = [
          await example.run('--ticks', '400', '--resume', folder),
          await example.run('--ticks', '400'),
        ];
        expect([then.ticks, then.weights]).to.deep.equal([400, whole.weights]);
        expect((await Checkpoint.inspect(folder))?.tick).to.equal(399);
      });
    },
  );

  itAll(
    '--resume prints whether a run begins at tick 0 or resumes after the saved tick',
    async () => {
      await withFolder(async (folder) => {
        mkdirSync(folder);
        const main = 'examples/cartpole-dqn/main.js';
        const said = async (ticks: string) => {
          const args = ['--device', 'host:0', '--ticks', ticks, '--resume', folder];
          const { lines, stderr } = await run(main, args);
          expect(stderr).to.equal('');
          return lines;
        };
        const first = await said('8');
        expect(first[1]).to.equal(`saved in ${folder} every 60s and at the end`);
        expect(first[2]).to.equal(`${folder} does not contain a checkpoint yet: begins at tick 0`);
        expect(first).to.include(`saved: --resume ${folder} resumes from here`);
        expect((await Checkpoint.inspect(folder))?.tick).to.equal(7);
        expect((await said('16'))[2]).to.match(
          / resumes after tick 7, saved [-\dT:.]+Z: begins at tick 8$/,
        );
      });
    },
  );

  itAll(
    '--resume begins at tick 0 in a missing folder, and another run exits without saving there',
    async () => {
      await withFolder(async (folder) => {
        const loud = free(ways.uniform).start(['--ticks', '8', '--resume', folder]);
        const { stdout } = await loud.ended;
        expect(JSON.parse(stdout.trim().split('\n').at(-1) as string)).to.include({
          ticks: 8,
          firstTick: 0,
        });
        const files = readdirSync(folder);
        const again = free(ways.uniform).start(['--ticks', '8', '--checkpoint', folder]);
        expect((await again.ended).stderr).to.match(
          /^cartpole-dqn: .* holds the checkpoint of another run, at tick 7: /,
        );
        expect(again.exitCode).to.equal(1);
        const other = free([...ways.uniform, '--seed', '2']).start([
          '--ticks',
          '16',
          '--resume',
          folder,
        ]);
        expect((await other.ended).stderr).to.match(
          /^cartpole-dqn: .* pipeline.baseSeed is \d+ here, \d+ in the checkpoint/,
        );
        expect(readdirSync(folder)).to.deep.equal(files);
      });
    },
  );
});
