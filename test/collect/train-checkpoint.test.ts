/** train() stopped and gone on with: its counts, its curve and what it learned. */
import { expect } from 'chai';
import { type TrainOptions, train } from '../../src/collect/index.ts';
import { Checkpoint } from '../../src/index.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';

const training = (change: Partial<TrainOptions> = {}): TrainOptions => ({
  ...{ environment: new URL('./target.js', import.meta.url), environmentOptions: {}, device: TESTED },
  learner: { algorithm: 'sac', actorHidden: [16], criticHidden: [16], batchSize: 32, gamma: 0 },
  ...{ steps: 2000, warmUp: 200, environments: 2, capacity: 2000 },
  evaluation: { every: 500, episodes: 5, confirm: 5 },
  ...change,
});

describe('collect/train-checkpoint', () => {
  itAll('goes on where the signal ended it, and where it was over there is nothing to do', () =>
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

  it('keeps each point of the curve once when it is resumed', () =>
    withFolder(async (folder) => {
      const checkpoint = { folder };
      const first = await train(
        training({ checkpoint, steps: 300, evaluation: { every: 250, episodes: 2, confirm: 2 } }),
      );
      const { curve } = await train(
        training({ checkpoint, steps: 400, evaluation: { every: 250, episodes: 2, confirm: 2 } }),
      );
      expect(first.curve.length).to.be.greaterThan(0);
      expect(curve.slice(0, first.curve.length)).to.deep.equal(first.curve);
      const steps = curve.map((point) => point.steps);
      expect(steps).to.deep.equal([...new Set(steps)]);
    }));

  it('refuses another training by its differences, and options that are none', () =>
    withFolder(async (folder) => {
      await train(training({ checkpoint: { folder }, steps: 300 }));
      const other = await rejection(train(training({ checkpoint: { folder }, steps: 300, nStep: 3 })));
      expect(other.message).to.match(/buffer\.kind is "TrajectoryBuffer" here, "ReplayBuffer" in the checkpoint/);
      const odd = await rejection(train(training({ checkpoint: { folder, every: 'often' } })));
      expect(odd.message).to.match(/every must be a number of ms, s, min or h/);
      const unknown = await rejection(train(training({ checkpoint: { place: folder } as never })));
      expect(unknown.message).to.match(/place/);
    }));
});
