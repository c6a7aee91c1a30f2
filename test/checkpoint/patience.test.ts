/**
 * Tests saves that wait. A save by `every` waits for the end of a tick, and close() drops a waiting
 * save. Errors of listeners must not disturb saves.
 */
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { Checkpoint, type CollectorStatistics, type SavedCheckpoint } from '../../src/index.ts';
import { pausables } from '../../src/run/collectors/pool-pause.ts';
import { rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import { change, changed, closeAll, inFolder, make, manualTick, ROWS, type Run } from './rig.ts';

const wants = ({ pipeline }: Run) =>
  until('it wants to save', () => internalsOf(pipeline).control.standing);

/**
 * Runs `act` and returns the messages of uncaught errors. Waits until there are `count` of them.
 */
async function uncaughtOf(count: number, act: () => Promise<void>): Promise<string[]> {
  const heard: string[] = [];
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', ({ message }) => void heard.push(message));
  try {
    await act();
    await until(`${count} are uncaught`, () => heard.length >= count);
    return heard;
  } finally {
    process.removeAllListeners('uncaughtException');
    for (const listener of before) process.on('uncaughtException', listener);
  }
}

describe('Checkpoint: saves that wait', () => {
  afterEach(closeAll);

  it('close() drops a save that waits for a tick when an error leaves the block in mid-tick', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const error = await rejection(async () => {
        await using _ = await Checkpoint.open(folder, { ...run.parts, every: '10 ms' });
        await run.pipeline.sampleLargeBatch(4, ROWS);
        await wants(run);
        throw new Error('in the midst of a tick');
      });
      expect(error.message).to.equal('in the midst of a tick');
      // The pipeline is not paused, and the folder is free.
      expect(internalsOf(run.pipeline).control.standing).to.equal(false);
      expect(await Checkpoint.inspect(folder)).to.equal(null);
      run.pipeline.afterTick();
      await manualTick(run, 5);
      const again = await Checkpoint.open(folder, run.parts);
      expect(await again.save()).to.include({ save: 1, tick: 5 });
      await again.close();
    }));

  it('close() drops a save that waits for another save or for the rows of a tick', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      await run.pipeline.sampleLargeBatch(4, ROWS);
      const every = '10 ms';
      const first = await Checkpoint.open(`${folder}/first`, { ...run.parts, every });
      await wants(run);
      const second = await Checkpoint.open(`${folder}/second`, { ...run.parts, every });
      const turn = internalsOf(run.pipeline).control;
      const use = turn.use.bind(turn);
      const asked = new Promise<void>((resolve) => {
        turn.use = (work, options) => {
          resolve();
          return use(work, options);
        };
      });
      await asked;
      await second.close();
      await first.close();
      run.pipeline.afterTick();
      // The tick is requested for rows that are not added yet.
      run.pipeline.startPrepare(5, ROWS, run.parts.buffer!.ptr + 3);
      const third = await Checkpoint.open(`${folder}/third`, { ...run.parts, every });
      await wants(run);
      await third.close();
      run.add(1);
      await run.pipeline.sampleLargeBatch(5, ROWS);
      run.pipeline.afterTick();
      await change(run, 2);
    }));

  it('save() rejects during a tick, even if a save by `every` waits for that tick', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const checkpoint = await Checkpoint.open(folder, { ...run.parts, every: '10 ms' });
      const saved = new Promise<SavedCheckpoint>((resolve) => checkpoint.once('saved', resolve));
      await run.pipeline.sampleLargeBatch(4, ROWS);
      await wants(run);
      for (let i = 0; i < 2; i++)
        expect(await rejection(checkpoint.save())).to.include({ code: 'ERR_HOTSLOT_STATE_TICK' });
      run.pipeline.afterTick();
      expect((await saved).tick).to.equal(4);
      await checkpoint.close();
    }));

  it('a save excludes a tick that startPrepare() requests while collectors pause', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const done = new Promise<void>(() => {});
      const collectors = {
        done,
        statistics: () => ({}) as CollectorStatistics,
        close: async () => {},
      };
      pausables.set(collectors, async () => {
        run.pipeline.startPrepare(4, ROWS);
        return { state: 'at rest', late: [], release: () => {} };
      });
      const checkpoint = await Checkpoint.open(folder, { ...run.parts, collectors });
      expect((await checkpoint.save()).tick).to.equal(3);
      await checkpoint.close();
      const before = await Checkpoint.inspect(folder);
      expect(before!.parts.pipeline).to.include({ tick: 3, prepared: null });
      await manualTick(run, 4);
      const again = await make('steps');
      expect(await Checkpoint.restore(folder, again.parts)).to.include({ tick: 3 });
      await manualTick(again, 4);
      const prints = [run, again].map(async (each) => {
        await each.pipeline.close();
        return each.print();
      });
      expect(await prints[0]).to.equal(await prints[1]);
    }));

  it('a failing save keeps the pipeline paused until the learner state is read', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      let read = () => {};
      const reading = new Promise<void>((resolve) => {
        read = resolve;
      });
      const learner = {
        state: () => reading.then(() => run.learner.state()),
        loadState: (state: object) => run.learner.loadState(state),
      };
      const failing = () => {
        throw new Error('no more');
      };
      const checkpoint = await Checkpoint.open(folder, { ...run.parts, learner, extra: failing });
      const { control } = internalsOf(run.pipeline);
      let over = false;
      const failed = rejection(checkpoint.save()).then((error) => {
        over = true;
        return error;
      });
      await until('it stands', () => control.standing);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      expect([over, control.standing]).to.deep.equal([false, true]);
      read();
      expect((await failed).message).to.equal('no more');
      expect(control.standing).to.equal(false);
      await checkpoint.close();
    }));

  it('errors of listeners reach uncaughtException, and saves by `every` continue', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      let extra = () => 1;
      const checkpoint = await Checkpoint.open(folder, {
        ...run.parts,
        extra: () => extra(),
        every: '10 ms',
      });
      let [saves, errors] = [0, 0];
      checkpoint.on('saved', () => {
        throw new Error(`saved ${++saves}`);
      });
      checkpoint.on('error', () => {
        throw new Error(`error ${++errors}`);
      });
      const heard = await uncaughtOf(4, async () => {
        const { save } = await checkpoint.save();
        expect((await Checkpoint.inspect(folder))!.save).to.be.at.least(save);
        await until('one of `every` is saved too', () => saves >= 2);
        extra = () => {
          throw new Error('lost');
        };
        await until('two have failed', () => errors >= 2);
        extra = () => 2;
        const before = saves;
        await until('it is saved again', () => saves > before);
        await checkpoint.close();
      });
      expect(heard).to.include.members(['saved 1', 'saved 2', 'error 1', 'error 2']);
      expect(heard).to.have.length(saves + errors);
    }));
});
