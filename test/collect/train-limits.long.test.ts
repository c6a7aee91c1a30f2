/**
 * Tests that train() ends at its time limit and by its signal, also during an evaluation whose
 * episodes never end.
 */
import { expect } from 'chai';
import { evaluate, type TrainOptions, train } from '../../src/entries/collect.ts';
import { LongTimers } from '../rig/long-timers.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { warningsOf } from '../rig/warnings.ts';
import { counting } from './counting.ts';
import { Target, type TargetOptions } from './target.ts';

const DAY = 86_400;

const training = (
  change: Partial<TrainOptions> & { environmentOptions?: TargetOptions } = {},
): TrainOptions => ({
  environment: new URL('./target.js', import.meta.url),
  learner: { algorithm: 'sac', actorHidden: [16], criticHidden: [16], batchSize: 32, gamma: 0 },
  device: TESTED,
  steps: 1000,
  warmUp: 200,
  environments: 2,
  evaluation: { every: 500, episodes: 5, confirm: 20 },
  ...change,
});
const words = () => new Int32Array(new SharedArrayBuffer(8));
const policy = { act: (_: unknown, n: number) => new Float32Array(n) };

/** Calls `fn` after ten turns of the event loop. */
async function later(fn: () => void): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
  fn();
}

describe('collect/train: limits', function () {
  this.timeout(60_000);

  itAll('train() arms no timer when seconds is omitted, and ends after its steps', async () => {
    using timers = new LongTimers((armed) => armed.fire());
    const { steps, interrupted } = await train(training());
    expect(timers.delays).to.deep.equal([]);
    expect([steps >= 1000, interrupted]).to.deep.equal([true, false]);
  });

  itAll('train() whose signal is aborted in onOpen applies no update', async () => {
    const stop = new AbortController();
    const { updates, interrupted } = await train(
      training({ signal: stop.signal, onOpen: () => stop.abort() }),
    );
    expect([updates, interrupted]).to.deep.equal([0, true]);
  });

  itAll('train() continues after 24.8 days of a limit of 40 days', async () => {
    // The limit is armed in two pieces. The first one ends as soon as it is armed, and the second
    // one never ends.
    using timers = new LongTimers(
      (armed, ms) => ms === 2 ** 31 - 1 && setImmediate(() => armed.fire()),
    );
    const { steps } = await train(training({ seconds: 40 * DAY }));
    expect(steps).to.be.at.least(1000);
    expect(timers.delays.slice(0, 2)).to.deep.equal([2 ** 31 - 1, 40 * DAY * 1000 - (2 ** 31 - 1)]);
  });

  it('train() ends at its seconds during an endless evaluation, unsolved and without a curve point', async () => {
    const count = words();
    const environmentOptions = { length: Number.POSITIVE_INFINITY, words: count };
    // The time limit ends when the evaluation has warned. The time of the last evaluation ends soon
    // after its begin.
    using timers = new LongTimers(
      (armed, ms) => ms !== DAY * 1000 && void later(() => armed.fire()),
    );
    process.once('warning', () => timers.fire());
    const result = await train(
      training({ environmentOptions, seconds: DAY, goal: -1e9, steps: 10_000_000 }),
    );
    expect(result).to.deep.include({
      solved: false,
      meanReturn: null,
      interrupted: false,
      curve: [],
    });
    expect(result.updates).to.be.greaterThan(0);
    expect(timers.delays).to.deep.equal([DAY * 1000, timers.delays[1]]);
    expect(count[0], 'environments that were made and closed').to.equal(count[1]);
  });

  itAll(
    'train() ends at its seconds when the last evaluation after its steps never ends',
    async () => {
      const environmentOptions = { length: Number.POSITIVE_INFINITY };
      using timers = new LongTimers();
      process.once('warning', () => timers.fire());
      const result = await train(
        training({ environmentOptions, seconds: DAY, goal: -1e9, evaluation: { every: 5000 } }),
      );
      expect(result).to.deep.include({
        solved: false,
        meanReturn: null,
        interrupted: false,
        curve: [],
      });
      expect(result.steps).to.be.at.least(1000);
    },
  );

  itAll(
    'train() ends when its signal aborts during a last evaluation that never ends',
    async () => {
      const stop = new AbortController();
      const environmentOptions = { length: Number.POSITIVE_INFINITY };
      const heard = warningsOf('EvaluationWarning', async () => {
        process.once('warning', () => stop.abort());
        const result = await train(
          training({
            environmentOptions,
            signal: stop.signal,
            goal: -1e9,
            evaluation: { every: 5000 },
          }),
        );
        expect(result).to.deep.include({
          solved: false,
          meanReturn: null,
          interrupted: true,
          curve: [],
        });
      });
      expect(await heard).to.have.length(1);
    },
  );

  itAll(
    'train() is unsolved when its seconds end the evaluation that should confirm the goal',
    async () => {
      // The first evaluation reaches the goal. Later episodes do not end, and the time limit also
      // ends the last evaluation.
      using timers = new LongTimers(
        (armed, ms) => ms !== DAY * 1000 && void later(() => armed.fire()),
      );
      process.once('warning', () => timers.fire());
      const evaluation = { every: 500, episodes: 2, confirm: 4 };
      const result = await train(
        training({
          environmentOptions: { ending: 1 },
          seconds: DAY,
          goal: -1e9,
          evaluation,
          steps: 10_000_000,
        }),
      );
      expect(result).to.include({ solved: false, interrupted: false });
      expect(result.curve.map(({ episodes }) => episodes)).to.deep.equal([2]);
      expect(result.meanReturn).to.equal(result.curve[0]!.meanReturn);
    },
  );

  it('evaluate() warns once of environments whose episode has not ended after 100,000 steps', async () => {
    const environments = [new Target(0, {}), new Target(1, { length: Number.POSITIVE_INFINITY })];
    const heard = await warningsOf('EvaluationWarning', async () => {
      for (let i = 0; i < 2; i++) {
        const stop = new AbortController();
        let steps = 0;
        const act = (_: unknown, n: number) => {
          if (++steps > 100_001) stop.abort(new Error('enough'));
          return policy.act(_, n);
        };
        const evaluating = evaluate({
          environments,
          policy: { act },
          episodes: 4,
          signal: stop.signal,
        });
        expect((await rejection(evaluating)).message).to.equal('enough');
      }
    });
    expect(heard).to.deep.equal([
      'environment 1 of those that evaluate has taken 100,000 steps in one episode, which has not ended: ' +
        'set maxEpisodeSteps of the environment, so that its episodes are truncated',
    ]);
  });

  it('evaluate() does not warn of episodes of 99,999 steps', async () => {
    const environments = [new Target(0, { length: 99_999 }), new Target(1, { length: 50_000 })];
    const heard = await warningsOf('EvaluationWarning', () =>
      evaluate({ environments, policy, episodes: 4 }),
    );
    expect(heard).to.deep.equal([]);
  });

  it('a collector warns once of an episode that has not ended after 100,000 steps, in the first worker', async () => {
    for (const [worker, expected] of [
      [0, 1],
      [1, 0],
    ] as const) {
      const make = ({ index }: { index: number }) =>
        new Target(index, { length: Number.POSITIVE_INFINITY });
      const { collector } = await counting({ worker, workers: 2, fields: {} }, { make });
      const heard = await warningsOf('CollectorWarning', async () => {
        for (let step = 0; step < 100_001; step++) collector.collect();
      });
      expect(heard).to.have.length(expected);
      for (const text of heard)
        expect(text).to.match(/^environment 0 has taken 100,000 steps .* set maxEpisodeSteps /);
    }
  });
});
