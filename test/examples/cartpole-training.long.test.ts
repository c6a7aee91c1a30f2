/**
 * Tests the CartPole example through the real pipeline: it learns, and ends cleanly.
 */
import { expect } from 'chai';
import { betaAfter, defaults, type Settings } from '../../examples/cartpole-dqn/settings.ts';
import { Training, type TrainingOptions } from '../../examples/cartpole-dqn/training.ts';
import { describeAll, itAll } from '../rig/setting.ts';

const common: TrainingOptions = {
  seed: 1,
  device: 'host:0',
  placement: 'auto',
  trace: undefined,
  settings: defaults,
  maxTicks: Number.POSITIVE_INFINITY,
  maxSeconds: Number.POSITIVE_INFINITY,
  log: undefined,
};

/** Transitions that are drawn uniformly, and steps of each pole that are drawn by priority. */
const ways = [
  ['uniform replay', defaults],
  ['prioritized replay with nStep 3', { ...defaults, replay: 'prioritized', nStep: 3 }],
] as const;

describe('Training of the cartpole-dqn example', function () {
  // Learning takes a fixed number of ticks, which may last long on a busy machine.
  this.timeout(600_000);
  for (const [way, settings] of ways)
    (settings === defaults ? describe : describeAll)(way, () => trainings(settings));

  it('betaAfter() rises from 0.4 to 1 in the first 100,000 environment steps and stays 1', () => {
    const betas = [0, 50_000, 100_000, 1_000_000].map((steps) => betaAfter(steps, defaults));
    expect(betas).to.deep.equal([0.4, 0.7, 1, 1]);
  });

  it('Training.open() rejects an unknown device', async () => {
    const refused = await Training.open({ ...common, device: 'nowhere:0' }).catch((error) => error);
    expect(refused.code).to.equal('ERR_HOTSLOT_UNKNOWN_DEVICE');
  });
});

function trainings(settings: Settings): void {
  const options: TrainingOptions = { ...common, settings };

  it('run() raises the mean return and keeps the samples per insert within the band', async () => {
    await using training = await Training.open(options);
    const enough = new AbortController();
    let early = Number.NaN;
    training.parts.pipeline.on('tick', () => {
      const { episodes, meanReturn } = training.collected();
      if (Number.isNaN(early) && episodes >= 30) early = meanReturn;
      if (meanReturn > 150) enough.abort();
    });
    const outcome = await training.run(enough.signal);
    expect(early).to.be.lessThan(60);
    expect(outcome.meanReturn).to.be.greaterThan(140);
    expect(outcome.loss).to.be.within(0, 10);
    expect(outcome.ticks).to.be.greaterThan(50);
    // The limiter keeps samples in proportion to inserts, within its band.
    const { minibatches, batchSize, samplesPerInsert, warmUp, environments } = defaults;
    const samples = outcome.ticks * minibatches * batchSize;
    const band = 2 * (minibatches * batchSize + samplesPerInsert * environments);
    const inFlight = 4 * minibatches * batchSize;
    expect(Math.abs(samplesPerInsert * (outcome.steps - warmUp) - samples)).to.be.at.most(
      band + inFlight + 1024,
    );
    expect(outcome.interrupted || outcome.solved).to.equal(true);
  });

  itAll('run() returns interrupted: true when its signal is already aborted', async () => {
    await using training = await Training.open(options);
    const outcome = await training.run(AbortSignal.abort());
    expect(outcome).to.include({ interrupted: true, solved: false });
  });
}
