/** A training that is killed goes on: bit for bit in lock-step, and with its collectors, statistics and limiter in the free run. */
import { readdirSync } from 'node:fs';
import { expect } from 'chai';
import { Checkpoint } from '../../src/index.ts';
import { itAll, setting } from '../rig/setting.ts';
import { Example, killedAndWhole, withFolder } from './killed.ts';

const ways = {
  uniform: ['--device', 'host:0'],
  'prioritized, three steps': ['--device', 'host:0', '--replay', 'prioritized', '--n-step', '3'],
};

describe('checkpoint/resume', () => {
  const kills = setting({ short: 1, all: 4, long: 30 });
  const more = setting({ short: 60, all: 200 });
  for (const [way, args] of Object.entries(ways))
    (way === 'uniform' ? itAll : it)(
      `a killed lock-step run ends with the bits of one that was left alone (${way})`,
      async function () {
        this.timeout(120_000);
        const [killed, whole] = await killedAndWhole(new Example(args), kills, more);
        // Times differ, and the loss is smoothed since the process began.
        const { weights, ticks, steps, episodes } = killed;
        expect({ weights, ticks, steps, episodes }).to.deep.equal({
          ...{ weights: whole.weights, ticks: whole.ticks, steps: whole.steps, episodes: whole.episodes },
        });
      },
    );

  itAll('in 200 ticks and 200 more it is what 400 make, though a round has eight', async function () {
    this.timeout(60_000);
    const example = new Example(ways.uniform);
    await withFolder(async (folder) => {
      const first = await example.run('--ticks', '203', '--checkpoint', folder);
      expect(first.ticks).to.equal(203);
      const [then, whole] = [
        await example.run('--ticks', '400', '--resume', folder),
        await example.run('--ticks', '400'),
      ];
      expect([then.ticks, then.weights]).to.deep.equal([400, whole.weights]);
      expect((await Checkpoint.inspect(folder))?.tick).to.equal(399);
    });
  });

  it('a folder that is not there begins at tick 0 and says so; another run is not saved over it', async function () {
    this.timeout(60_000);
    await withFolder(async (folder) => {
      const loud = new Example(ways.uniform).start(['--ticks', '8', '--resume', folder]);
      const { stdout } = await loud.ended;
      expect(JSON.parse(stdout.trim().split('\n').at(-1) as string)).to.include({ ticks: 8, firstTick: 0 });
      const files = readdirSync(folder);
      const again = new Example(ways.uniform).start(['--ticks', '8', '--checkpoint', folder]);
      expect((await again.ended).stderr).to.match(/^cartpole-dqn: .* holds the checkpoint of another run, at tick 7: /);
      expect(again.exitCode).to.equal(1);
      const other = new Example([...ways.uniform, '--seed', '2']).start(['--ticks', '16', '--resume', folder]);
      expect((await other.ended).stderr).to.match(
        /^cartpole-dqn: .* pipeline.baseSeed is \d+ here, \d+ in the checkpoint/,
      );
      expect(readdirSync(folder)).to.deep.equal(files);
    });
  });
});
