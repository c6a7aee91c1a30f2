/**
 * Tests Checkpoint.restore() of learners with other algorithms or settings. It must name each
 * difference and load nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  type ActorCriticOptions,
  DqnLearner,
  type Learner,
  SacLearner,
  Td3Learner,
} from '../../src/entries/learner.ts';
import { Checkpoint, openDevice } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { warningsOf } from '../rig/warnings.ts';
import { inFolder, signed } from './rig.ts';

const small = { obsDim: 3, actionDim: 2, batchSize: 4, actorHidden: [4], criticHidden: [4] };
const dqnOptions = { obsDim: 3, actions: 2, hidden: [4], batchSize: 4 };

describe('Checkpoint.restore() of a learner', () => {
  const made: Learner[] = [];
  const own = <L extends Learner>(learner: L): L => {
    made.push(learner);
    return learner;
  };
  const device = openDevice(TESTED);
  const dqn = (more = {}) => own(new DqnLearner(device, { ...dqnOptions, ...more }));
  const sac = (more: Partial<ActorCriticOptions> = {}) =>
    own(new SacLearner(device, { ...small, ...more }));
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

  it('rejects another algorithm and names both algorithms', () =>
    inFolder(async (folder) => {
      await saved(folder, dqn());
      const text = await refused(folder, sac());
      expect(text).to.match(
        /^learner\.kind is "SacLearner" here, "DqnLearner" in the checkpoint; /,
      );
      expect(text).to.include('learner.settings.clippedDouble (true) is not in the checkpoint');
    }));

  it('rejects a TD3 checkpoint when behaviorCloning differs', () =>
    inFolder(async (folder) => {
      await saved(folder, td3());
      expect(await refused(folder, td3({ behaviorCloning: {} }))).to.equal(
        'learner.settings.behaviourCloning is {"alpha":2.5} here, null in the checkpoint',
      );
    }));

  it('rejects different settings that the state does not contain, and accepts explicit defaults', () =>
    inFolder(async (folder) => {
      await saved(`${folder}/dqn`, dqn());
      expect(
        await refused(
          `${folder}/dqn`,
          dqn({ gamma: 0.9, tau: 0.01, double: false, activation: 'tanh' }),
        ),
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
      expect(
        await refused(`${folder}/sac`, sac({ actionHigh: 2, rewardScale: 5, actorValue: 'mean' })),
      ).to.equal(
        [
          'learner.settings.actorValue is "mean" here, "min" in the checkpoint',
          'learner.settings.rewardScale is 5 here, 1 in the checkpoint',
          'learner.settings.actionHigh is [2,2] here, [1,1] in the checkpoint',
        ].join('; '),
      );
      // An explicit default equals the omitted option. A seed affects only the initial parameters,
      // so it may differ.
      const same = sac({
        gamma: 0.99,
        tau: 0.005,
        actionLow: [-1, -1],
        seed: 9,
        criticOptimizer: { learningRate: 1 },
      });
      expect(await Checkpoint.restore(`${folder}/sac`, { learner: same })).to.include({ save: 1 });
    }));

  /**
   * Restores the folder into the learner and applies a step. Returns the learning rate that the
   * learner uses, and the warnings.
   */
  async function resumed(
    folder: string,
    learner: DqnLearner,
  ): Promise<[rate: number, heard: string[]]> {
    const heard = await warningsOf('LearnerWarning', () => Checkpoint.restore(folder, { learner }));
    return [(await learner.optimizer.learningRate.toArray())[0]!, heard];
  }

  it('replaces the saved learning rate by a different given rate, with one warning', () =>
    inFolder(async (folder) => {
      await saved(`${folder}/first`, dqn({ learningRate: 0.25 }));
      expect(await resumed(`${folder}/first`, dqn())).to.deep.equal([0.25, []]);
      expect(await resumed(`${folder}/first`, dqn({ learningRate: 0.25 }))).to.deep.equal([
        0.25,
        [],
      ]);
      const text =
        "DqnLearner: this learner's options replace those of the loaded state: optimizer.learningRate ";
      expect(await resumed(`${folder}/first`, dqn({ learningRate: 0.5 }))).to.deep.equal([
        0.5,
        [`${text}0.5 (state: 0.25)`],
      ]);
      // A rate that is left at its default counts as not given.
      await saved(`${folder}/sac`, sac());
      const faster = sac({ actorOptimizer: { learningRate: 0.5 } });
      const restoring = () => Checkpoint.restore(`${folder}/sac`, { learner: faster });
      expect(await warningsOf('LearnerWarning', restoring)).to.deep.equal([
        `${text.replace('Dqn', 'Sac').replace('optimizer', 'actorOptimizer')}0.5 (state: 0.0003)`,
      ]);
      expect(await faster.actorOptimizer.learningRate.toArray()).to.deep.equal(
        Float32Array.of(0.5),
      );
      expect(await faster.criticOptimizer.learningRate.toArray()).to.deep.equal(
        Float32Array.of(3e-4),
      );
    }));

  it('keeps a rate set by setLearningRate() if the given rate equals the initial rate', () =>
    inFolder(async (folder) => {
      const first = dqn({ learningRate: 0.5 });
      first.optimizer.setLearningRate(0.125);
      await saved(`${folder}/first`, first);
      expect(await resumed(`${folder}/first`, dqn({ learningRate: 0.5 }))).to.deep.equal([
        0.125,
        [],
      ]);
      const second = dqn();
      expect(await resumed(`${folder}/first`, second)).to.deep.equal([0.125, []]);
      // A second resume keeps the rate too.
      await saved(`${folder}/again`, second);
      expect(await resumed(`${folder}/again`, dqn({ learningRate: 0.5 }))).to.deep.equal([
        0.125,
        [],
      ]);
      const [rate, heard] = await resumed(`${folder}/again`, dqn({ learningRate: 0.25 }));
      expect([rate, heard.length]).to.deep.equal([0.25, 1]);
      expect(heard[0]).to.match(/optimizer\.learningRate 0\.25 \(state: 0\.125\)$/);
    }));

  it('replaces other optimizer options by the options of the new learner, with one warning', () =>
    inFolder(async (folder) => {
      await saved(`${folder}/first`, dqn({ beta1: 0.5, weightDecay: 0.25, maxGradNorm: 10 }));
      const [, heard] = await resumed(
        `${folder}/first`,
        dqn({ beta1: 0.75, decoupled: true, maxGradNorm: 10 }),
      );
      expect(heard).to.deep.equal([
        "DqnLearner: this learner's options replace those of the loaded state: optimizer.beta1 0.75 (state: 0.5), " +
          'optimizer.weightDecay 0 (state: 0.25), optimizer.decoupled true (state: false)',
      ]);
      const [, unclipped] = await resumed(
        `${folder}/first`,
        dqn({ beta1: 0.5, weightDecay: 0.25 }),
      );
      expect(unclipped[0]).to.match(/: optimizer\.maxGradNorm none \(state: 10\)$/);
    }));

  it('loadState() accepts a state without optimizer options, and prefers a given rate', async () => {
    const { 'optimiser.options': _, ...state } = await dqn({ learningRate: 0.25 }).state();
    const loaded = async (learner: DqnLearner) => {
      const heard = await warningsOf('LearnerWarning', async () => learner.loadState(state));
      return [(await learner.optimizer.learningRate.toArray())[0], heard.length];
    };
    expect(await loaded(dqn())).to.deep.equal([0.25, 0]);
    expect(await loaded(dqn({ learningRate: 0.25 }))).to.deep.equal([0.25, 0]);
    expect(await loaded(dqn({ learningRate: 0.5 }))).to.deep.equal([0.5, 1]);
  });

  it('accepts a subclass with another name, and a checkpoint without settings', () =>
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
      delete whole.body.parts.learner.is.state['optimiser.options'];
      writeFileSync(path, signed(whole));
      await Checkpoint.restore(folder, { learner: dqn({ gamma: 0.5, seed: 5 }) });
    }));
});
