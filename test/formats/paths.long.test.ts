/**
 * Tests that a relative path is resolved when a function is called, even if the process changes its
 * working directory afterwards.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { train } from '../../src/entries/collect.ts';
import { readNpz, readSafetensors, writeNpz, writeSafetensors } from '../../src/entries/formats.ts';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { Checkpoint, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { checkedGymnasium } from '../../src/run/environments/gymnasium/options.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { make } from '../checkpoint/rig.ts';
import { filled } from '../pipeline/fixture.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { tensor } from './tensors.ts';

describe('relative paths', () => {
  const home = process.cwd();
  afterEach(() => process.chdir(home));

  /** Calls `act` in one folder and awaits it in another one. The other folder must stay empty. */
  const moved = (act: (folder: string) => Promise<unknown>) =>
    withFolder(async (folder) => {
      const [here, elsewhere] = ['here', 'elsewhere'].map((name) => join(folder, name)) as [
        string,
        string,
      ];
      for (const each of [here, elsewhere]) mkdirSync(each, { recursive: true });
      process.chdir(here);
      const done = act(here);
      process.chdir(elsewhere);
      await done;
      process.chdir(home);
      expect(readdirSync(elsewhere)).to.deep.equal([]);
    });

  it('of tensor files and dumps resolve when the write or read is called', () =>
    moved(async (here) => {
      const tensors = { x: tensor('float32', [2]) };
      const buffer = filled(10);
      const written = [
        writeNpz('x.npz', tensors),
        writeSafetensors('x.safetensors', tensors),
        buffer.dump('rows.npz'),
      ];
      await Promise.all(written);
      expect(readdirSync(here).sort()).to.deep.equal(['rows.npz', 'x.npz', 'x.safetensors']);
      process.chdir(here);
      const again = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 4, actionDim: 1 });
      const read = [readNpz('x.npz'), readSafetensors('x.safetensors'), again.load('rows.npz')];
      process.chdir(join(here, '../elsewhere'));
      await Promise.all(read);
      expect(again.ptr).to.equal(10);
      buffer.close();
      again.close();
    }));

  it('of a checkpoint resolve when open() or inspect() is called', async () => {
    const run = await make('rows');
    await moved(async (here) => {
      const opening = Checkpoint.open('run', run.parts);
      const inspecting = Checkpoint.inspect('run');
      expect(await inspecting).to.equal(null);
      const checkpoint = await opening;
      await checkpoint.save();
      await checkpoint.close();
      expect(readdirSync(join(here, 'run'))).to.include('checkpoint.json');
    });
    await run.close();
  });

  it('of curves resolve when tensorBoard() is called', () =>
    moved(async (here) => {
      const writer = tensorBoard('curves');
      writer.scalar('loss', 1, 0);
      const closed = writer.close();
      await closed;
      expect(readdirSync(join(here, 'curves'))).to.have.length(1);
      expect(writer.folder).to.equal(join(here, 'curves'));
    }));

  it('of a trace resolve when the pipeline is opened', () =>
    moved(async (here) => {
      const pipeline = await ReplayPipeline.open({
        buffer: filled(),
        device: TESTED,
        sampleCount: 4,
        trace: { file: 'trace.json' },
      });
      await pipeline.close();
      expect(readdirSync(here)).to.deep.equal(['trace.json']);
    }));

  itAll('of a checkpoint and a dump resolve when train() is called', () =>
    moved(async (here) => {
      await train({
        environment: new URL('../collect/target.js', import.meta.url),
        environmentOptions: {},
        device: TESTED,
        learner: { algorithm: 'sac', actorHidden: [8], criticHidden: [8], batchSize: 8, gamma: 0 },
        steps: 200,
        warmUp: 50,
        environments: 2,
        capacity: 500,
        checkpoint: { folder: 'run' },
        dump: 'rows.npz',
        evaluation: { every: 200, episodes: 1, confirm: 1 },
      });
      expect(readdirSync(here).sort()).to.deep.equal(['rows.npz', 'run']);
    }),
  );

  it('of Python modules and the interpreter resolve when gymnasium options are checked', () => {
    process.chdir('/');
    const plan = checkedGymnasium({ entry: 'mine:make', path: 'usr', python: 'usr/bin/python3' });
    expect([plan.path, plan.python]).to.deep.equal(['/usr', '/usr/bin/python3']);
    expect(checkedGymnasium({ entry: 'mine:make' })).to.include({ path: '/', python: 'python3' });
  });
});
