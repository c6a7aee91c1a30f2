/**
 * Tests train() that stops and is resumed from a checkpoint: its counts, its curve and its weights.
 */
import { expect } from 'chai';
import { type TrainOptions, train } from '../../src/entries/collect.ts';
import { readSafetensors } from '../../src/entries/formats.ts';
import { Checkpoint } from '../../src/index.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { LongTimers } from '../rig/long-timers.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { warningsOf } from '../rig/warnings.ts';

const training = (change: Partial<TrainOptions> = {}): TrainOptions => ({
  environment: new URL('./target.js', import.meta.url),
  environmentOptions: {},
  device: TESTED,
  learner: { algorithm: 'sac', actorHidden: [16], criticHidden: [16], batchSize: 32, gamma: 0 },
  steps: 2000,
  warmUp: 200,
  environments: 2,
  capacity: 2000,
  evaluation: { every: 500, episodes: 5, confirm: 5 },
  ...change,
});

describe('train() with a checkpoint', () => {
  itAll(
    'continues where the signal ended the first run, and repeats the result of a finished run',
    () =>
      withFolder(async (folder) => {
        const enough = new AbortController();
        const checkpoint = { folder };
        const onPoint = () => enough.abort();
        const first = await train(training({ checkpoint, signal: enough.signal, onPoint }));
        expect(first.interrupted).to.equal(true);
        const then = await train(training({ checkpoint }));
        expect(then.curve.slice(0, first.curve.length)).to.deep.equal(first.curve);
        expect(then.curve.length).to.be.greaterThan(first.curve.length);
        expect(then.steps).to.be.within(2000, 2600);
        expect(then.updates).to.equal(1800);
        expect(then.seconds).to.be.greaterThan(first.seconds);
        expect((await Checkpoint.inspect(folder))?.tick).to.equal(1799);
        const again = await train(training({ checkpoint }));
        expect([again.updates, again.curve]).to.deep.equal([1800, then.curve]);
        expect(again.weights).to.deep.equal(then.weights);
      }),
  );

  itAll('keeps each point of the curve once when it is resumed', () =>
    withFolder(async (folder) => {
      const checkpoint = { folder };
      // A slow learner makes its collectors wait. The last evaluation may then have the same number
      // of steps as the one before.
      const learner = {
        algorithm: 'sac',
        actorHidden: [128],
        criticHidden: [128],
        batchSize: 512,
        gamma: 0,
      } as const;
      const evaluation = { every: 50, episodes: 2, confirm: 2 };
      const first = await train(training({ checkpoint, learner, steps: 300, evaluation }));
      const { curve } = await train(training({ checkpoint, learner, steps: 400, evaluation }));
      expect(first.curve.length).to.be.greaterThan(0);
      expect(curve.slice(0, first.curve.length)).to.deep.equal(first.curve);
      const steps = curve.map((point) => point.steps);
      expect(steps).to.deep.equal([...new Set(steps)]);
    }),
  );

  itAll('keeps saved options that a resumed run omits, and warns once of options that differ', () =>
    withFolder(async (folder) => {
      const small = {
        environment: new URL('./target.js', import.meta.url),
        device: TESTED,
        checkpoint: { folder },
      };
      const made = { hidden: [16], batchSize: 32, gamma: 0.5, learningRate: 0.25, beta1: 0.5 };
      const learner = { algorithm: 'dqn', ...made } as const;
      const explore = { hold: 3, epsilon: { from: 0.5, to: 0.125, steps: 100 } };
      const evaluation = { every: 250, episodes: 2, confirm: 3 };
      // No return reaches this goal. Only the checkpoint's capacity, warmUp and gamma fit.
      const first = {
        ...small,
        environmentOptions: { discrete: true },
        learner,
        explore,
        evaluation,
        goal: 99,
      };
      await train({
        ...first,
        steps: 300,
        warmUp: 200,
        environments: 2,
        capacity: 1001,
        seed: 7,
      });
      const rate = async () => {
        const { learnerFile } = (await Checkpoint.inspect(folder))!;
        return (await readSafetensors(learnerFile!)).tensors['optimiser.learningRate']!.data[0];
      };
      expect(await rate()).to.equal(0.25);
      const resume = (change: Partial<TrainOptions>, algorithm: object = {}) =>
        train({
          ...small,
          environmentOptions: { discrete: true },
          ...change,
          learner: { algorithm: 'dqn', ...algorithm } as TrainOptions['learner'],
        });
      const heard: string[][] = [];
      for (const name of ['CheckpointWarning', 'LearnerWarning'])
        heard.push(
          await warningsOf(name, async () => expect((await resume({})).updates).to.equal(100)),
        );
      expect(heard).to.deep.equal([[], []]);
      const more = await warningsOf('CheckpointWarning', async () => {
        const learned = await warningsOf('LearnerWarning', async () => {
          const { updates, curve } = await resume(
            {
              steps: 400,
              goal: 98,
              explore: { epsilon: { to: 0.25, steps: 100 } },
              evaluation: { confirm: 4 },
            },
            { learningRate: 0.5 },
          );
          expect([updates, curve.at(-1)!.episodes]).to.deep.equal([200, 4]);
        });
        expect(learned.join()).to.match(/optimizer\.learningRate 0\.5 \(state: 0\.25\)$/);
      });
      expect(more).to.deep.equal([
        `train: options given now replace those saved in '${folder}': steps 400 (saved: 300), goal 98 (saved: 99), ` +
          'explore.epsilon.to 0.25 (saved: 0.125), evaluation.confirm 4 (saved: 3)',
      ]);
      expect(await rate()).to.equal(0.5);
      // The saved options are now those of the second run.
      expect(
        await warningsOf('CheckpointWarning', () => resume({ steps: 400, goal: 98 })),
      ).to.deep.equal([]);
      const other = await rejection(resume({ capacity: 2000 }));
      expect(other.message).to.match(/buffer\.capacity is 2000 here, 1001 in the checkpoint/);
    }),
  );

  itAll('warns that an initial temperature has no effect on resume', () =>
    withFolder(async (folder) => {
      const checkpoint = { folder };
      await train(training({ checkpoint, steps: 300 }));
      const { learner } = training();
      const again = training({
        checkpoint,
        steps: 300,
        learner: { ...learner, initialTemperature: 0.5 } as never,
      });
      expect(await warningsOf('CheckpointWarning', () => train(again))).to.deep.equal([
        'train: learner.initialTemperature 0.5 has no effect: it applies to the first gradient step of a training, and ' +
          `the training in '${folder}' has passed it`,
      ]);
    }),
  );

  itAll(
    'counts the seconds of all runs, and applies no update when the limit is already reached',
    () =>
      withFolder(async (folder) => {
        const DAY = 86_400;
        const enough = new AbortController();
        const shared = {
          checkpoint: { folder },
          steps: 100_000,
          evaluation: { every: 250, episodes: 2, confirm: 2 },
        };
        const first = await train(
          training({
            ...shared,
            seconds: DAY,
            signal: enough.signal,
            onPoint: () => enough.abort(),
          }),
        );
        expect(first.seconds).to.be.lessThan(DAY);
        using timers = new LongTimers();
        // The first point follows a tick of this run. At this point the time limit ends.
        const then = await train(
          training({ ...shared, seconds: DAY, onPoint: () => timers.fire() }),
        );
        expect(timers.delays[0]).to.be.closeTo((DAY - first.seconds) * 1000, 1e-3);
        expect(then.updates).to.be.greaterThan(first.updates);
        expect(then.seconds).to.equal(DAY);
        const again = await train(training({ ...shared, seconds: DAY }));
        expect([again.updates, again.seconds, again.curve]).to.deep.equal([
          then.updates,
          DAY,
          then.curve,
        ]);
        expect(again.weights).to.deep.equal(then.weights);
        const more = await train(
          training({ ...shared, seconds: 2 * DAY, onPoint: () => timers.fire() }),
        );
        expect(more.updates).to.be.greaterThan(then.updates);
      }),
  );

  itAll('applies no update after a solved run, and continues when the goal is higher', () =>
    withFolder(async (folder) => {
      const shared = {
        checkpoint: { folder },
        steps: 100_000,
        evaluation: { every: 250, episodes: 2, confirm: 3 },
      };
      const first = await train(training({ ...shared, goal: -1e9 }));
      expect(first.solved).to.equal(true);
      const again = await train(training({ ...shared, goal: -1e9 }));
      expect(again).to.deep.include({
        solved: true,
        meanReturn: first.meanReturn,
        updates: first.updates,
      });
      expect([again.curve, again.weights]).to.deep.equal([first.curve, first.weights]);
      const enough = new AbortController();
      const harder = { goal: 1, signal: enough.signal, onPoint: () => enough.abort() };
      const more = await train(training({ ...shared, ...harder }));
      expect(more.solved).to.equal(false);
      expect(more.updates).to.be.greaterThan(first.updates);
    }),
  );

  itAll(
    'rejects the checkpoint of a different training, and rejects invalid checkpoint options',
    () =>
      withFolder(async (folder) => {
        await train(training({ checkpoint: { folder }, steps: 300 }));
        const other = await rejection(
          train(training({ checkpoint: { folder }, steps: 300, nStep: 3 })),
        );
        expect(other.message).to.match(
          /buffer\.kind is "TrajectoryBuffer" here, "ReplayBuffer" in the checkpoint/,
        );
        const odd = await rejection(train(training({ checkpoint: { folder, every: 'often' } })));
        expect(odd.message).to.match(/every must be a number of ms, s, min or h/);
        const unknown = await rejection(
          train(training({ checkpoint: { place: folder } as never })),
        );
        expect(unknown.message).to.match(/place/);
      }),
  );
});
