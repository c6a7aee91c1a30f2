/** Learners of other algorithms and settings: each difference is named, and nothing is loaded. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Checkpoint, openDevice } from '../../src/index.ts';
import { type ActorCriticOptions, DqnLearner, type Learner, SacLearner, Td3Learner } from '../../src/learner/index.ts';
import { rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { inFolder, signed } from './rig.ts';

const small = { obsDim: 3, actionDim: 2, batchSize: 4, actorHidden: [4], criticHidden: [4] };
const dqnOptions = { obsDim: 3, actions: 2, hidden: [4], batchSize: 4 };

describe('checkpoint: learners', () => {
  const made: Learner[] = [];
  const own = <L extends Learner>(learner: L): L => {
    made.push(learner);
    return learner;
  };
  const device = openDevice(TESTED);
  const dqn = (more = {}) => own(new DqnLearner(device, { ...dqnOptions, ...more }));
  const sac = (more: Partial<ActorCriticOptions> = {}) => own(new SacLearner(device, { ...small, ...more }));
  const td3 = (more = {}) => own(new Td3Learner(device, { ...small, ...more }));
  afterEach(() => {
    for (const learner of made.splice(0)) learner.close();
  });
  after(() => device.close());

  async function saved(folder: string, learner: Learner): Promise<void> {
    await using checkpoint = await Checkpoint.open(folder, { learner });
    await checkpoint.save();
  }
  async function refused(folder: string, learner: Learner): Promise<string> {
    const before = await learner.state();
    const error = await rejection(Checkpoint.restore(folder, { learner }));
    expect(error).to.include({ code: 'ERR_HOTSLOT_RANGE' });
    expect(await learner.state()).to.deep.equal(before);
    return error.message.replace(/^.*does not fit these parts: /, '');
  }

  it('another algorithm, by name', () =>
    inFolder(async (folder) => {
      await saved(folder, dqn());
      const text = await refused(folder, sac());
      expect(text).to.match(/^learner\.kind is "SacLearner" here, "DqnLearner" in the checkpoint; /);
      expect(text).to.include('learner.settings.clippedDouble (true) is not in the checkpoint');
    }));

  it('TD3 that clones behaviour, of one that does not: their states are alike', () =>
    inFolder(async (folder) => {
      await saved(folder, td3());
      expect(await refused(folder, td3({ behaviourCloning: {} }))).to.equal(
        'learner.settings.behaviourCloning is {"alpha":2.5} here, null in the checkpoint',
      );
    }));

  it('settings of which a state says nothing', () =>
    inFolder(async (folder) => {
      await saved(`${folder}/dqn`, dqn());
      expect(
        await refused(`${folder}/dqn`, dqn({ gamma: 0.9, tau: 0.01, double: false, activation: 'tanh' })),
      ).to.equal(
        [
          'learner.settings.gamma is 0.9 here, 0.99 in the checkpoint',
          'learner.settings.double is false here, true in the checkpoint',
          'learner.settings.activation is "tanh" here, "relu" in the checkpoint',
          'learner.settings.tau is 0.01 here, 0.005 in the checkpoint',
        ].join('; '),
      );
      expect(await refused(`${folder}/dqn`, dqn({ batchSize: 8, targetEvery: 10 }))).to.equal(
        [
          'learner.settings.batchSize is 8 here, 4 in the checkpoint',
          'learner.settings.targetEvery (10) is not in the checkpoint',
          'learner.settings.tau (0.005) is only in the checkpoint',
        ].join('; '),
      );
      await saved(`${folder}/sac`, sac());
      expect(await refused(`${folder}/sac`, sac({ actionHigh: 2, rewardScale: 5, actorValue: 'mean' }))).to.equal(
        [
          'learner.settings.actorValue is "mean" here, "min" in the checkpoint',
          'learner.settings.rewardScale is 5 here, 1 in the checkpoint',
          'learner.settings.actionHigh is [2,2] here, [1,1] in the checkpoint',
        ].join('; '),
      );
      // What is said in full is what is meant in short, and a seed is of first values only.
      const same = sac({ gamma: 0.99, tau: 0.005, actionLow: [-1, -1], seed: 9, criticOptimiser: { learningRate: 1 } });
      expect(await Checkpoint.restore(`${folder}/sac`, { learner: same })).to.include({ save: 1 });
    }));

  it('a class by another name is the same algorithm; a checkpoint from before settings were told is taken', () =>
    inFolder(async (folder) => {
      const first = dqn();
      await saved(folder, first);
      class a extends DqnLearner {}
      const minified = own(new a(device, { ...dqnOptions, seed: 4 }));
      await Checkpoint.restore(folder, { learner: minified });
      expect(await minified.state()).to.deep.equal(await first.state());
      const path = join(folder, 'checkpoint.json');
      const whole = JSON.parse(readFileSync(path, 'utf8'));
      expect(whole.body.parts.learner.is.kind).to.equal('DqnLearner');
      delete whole.body.parts.learner.is.settings;
      writeFileSync(path, signed(whole));
      await Checkpoint.restore(folder, { learner: dqn({ gamma: 0.5, seed: 5 }) });
    }));
});
