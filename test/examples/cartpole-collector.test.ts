/** What the example's collector hands to the buffer: real last observations, and done and truncated as learners need them. */
import { expect } from 'chai';
import { CartPoles, OBS_DIM } from '../../examples/cartpole-dqn/cartpole.ts';
import { CartPoleCollector } from '../../examples/cartpole-dqn/collector.ts';
import { evaluate } from '../../examples/cartpole-dqn/evaluate.ts';
import { defaults, networkSizes } from '../../examples/cartpole-dqn/settings.ts';
import { Random } from '../../src/index.ts';
import { MlpPolicy } from '../../src/learner/index.ts';

const settings = { ...defaults, environments: 3, exploreSteps: 1 };

function collector(seed = 3) {
  const episodes: number[] = [];
  let steps = 0;
  const report = {
    steps: (count: number) => {
      steps += count;
    },
    episode: (value: number) => void episodes.push(value),
  };
  const made = new CartPoleCollector({ worker: 0, workers: 1, seed, options: settings, writer: null, report });
  return { collector: made, episodes, steps: () => steps };
}

/** Weights whose network prefers one action everywhere. */
function always(action: number): Float32Array {
  const { layout, parameters } = new MlpPolicy({ sizes: networkSizes(settings) });
  const { bias } = layout.layers[layout.layers.length - 1] as (typeof layout.layers)[number];
  parameters[bias + action] = 1;
  return parameters;
}

describe('examples/cartpole-collector', () => {
  it('rows chain: next_obs of a step is obs of the next, except where an episode ended', () => {
    const { collector: made, episodes, steps } = collector();
    let before: Float32Array | null = null;
    let ended: boolean[] = [];
    let ends = 0;
    for (let step = 0; step < 200; step++) {
      const { obs, nextObs, dones, truncated, rewards } = made.collect();
      for (let pole = 0; pole < 3; pole++) {
        const own = (rows: Float32Array) => [...rows.subarray(pole * OBS_DIM, (pole + 1) * OBS_DIM)];
        if (before && !ended[pole]) expect(own(obs)).to.deep.equal(own(before));
        if (before && ended[pole]) {
          ends++;
          // The row that ended kept the observation beyond the limit; the new episode begins within ±0.05.
          expect(Math.max(...own(obs).map(Math.abs))).to.be.at.most(0.05);
          expect(Math.abs(own(before)[2] as number)).to.be.greaterThan(0.2094);
        }
      }
      expect([...rewards]).to.deep.equal([1, 1, 1]);
      expect([...truncated]).to.deep.equal([0, 0, 0]);
      before = nextObs.slice();
      ended = [...dones].map((done) => done === 1);
    }
    expect(ends).to.be.greaterThan(5);
    expect(episodes.length).to.be.within(ends, ends + 3);
    expect(steps()).to.equal(600);
  });

  it('loaded weights decide once exploration is over', () => {
    const { collector: made } = collector();
    made.collect();
    for (const action of [1, 0]) {
      made.load(always(action));
      let taken = 0;
      for (let step = 0; step < 100; step++) taken += made.collect().actions.reduce((sum, value) => sum + value, 0);
      // 2 % explore, half of them the other way.
      expect(taken / 300).to.be.closeTo(action, 0.05);
    }
  });

  it('an evaluation plays whole episodes, or stops when its goal is out of reach', async () => {
    const policy = new MlpPolicy({ sizes: networkSizes(settings) }, always(1));
    const whole = await evaluate(policy, 5, 0);
    expect(whole.whole).to.equal(true);
    const poles = new CartPoles(100, new Random(5, 2 ** 20));
    let steps = 0;
    for (let pole = 0; pole < 100; pole++) {
      while (!poles.over(pole)) poles.step(pole, 1);
      steps += poles.steps[pole] as number;
    }
    expect(whole.meanReturn).to.be.closeTo(steps / 100, 1e-9);
    expect(await evaluate(policy, 5, 0)).to.deep.equal(whole);
    expect(await evaluate(policy, 5, 1)).to.not.deep.equal(whole);
    const abandoned = await evaluate(policy, 5, 0, 475);
    expect(abandoned.whole).to.equal(false);
    expect(abandoned.meanReturn).to.be.within(whole.meanReturn, 475);
  });
});
