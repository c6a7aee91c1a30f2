/**
 * Tests the CartPole example's collectors: the rows that they add contain the true last
 * observations, and `dones` and `truncated` as learners need them.
 */
import { expect } from 'chai';
import { CartPoles, OBS_DIM } from '../../examples/cartpole-dqn/cartpole.ts';
import { CartPoleCollector } from '../../examples/cartpole-dqn/collector.ts';
import { evaluate } from '../../examples/cartpole-dqn/evaluate.ts';
import { fields, LaneCollector } from '../../examples/cartpole-dqn/lane-collector.ts';
import { defaults, networkSizes } from '../../examples/cartpole-dqn/settings.ts';
import { MlpPolicy } from '../../src/entries/learner.ts';
import { Random, TrajectoryBuffer } from '../../src/index.ts';

const settings = { ...defaults, environments: 3, exploreSteps: 1 };

function contextOf(seed: number) {
  const episodes: number[] = [];
  let steps = 0;
  const report = {
    steps: (count: number) => {
      steps += count;
    },
    episode: (value: number) => void episodes.push(value),
  };
  const context = {
    worker: 0,
    workers: 1,
    seed,
    restarts: 0,
    stepsBefore: 0,
    options: settings,
    writer: null,
    fields: {},
    report,
  };
  return { context, episodes, steps: () => steps };
}

function collector(seed = 3) {
  const { context, ...counted } = contextOf(seed);
  return { collector: new CartPoleCollector(context), ...counted };
}

/** Returns weights whose network prefers one action for every observation. */
function always(action: number): Float32Array {
  const { network, parameters } = new MlpPolicy({ sizes: networkSizes(settings) });
  const bias = network.parameters.at(-1) as (typeof network.parameters)[number];
  parameters[bias.offset + action] = 1;
  return parameters;
}

describe('cartpole-dqn collectors and evaluate()', () => {
  it('collect() returns a nextObs that equals the next obs, unless an episode ended', () => {
    const { collector: made, episodes, steps } = collector();
    let before: Float32Array | null = null;
    let ended: boolean[] = [];
    let ends = 0;
    for (let step = 0; step < 200; step++) {
      const { obs, nextObs, dones, truncated, rewards } = made.collect();
      for (let pole = 0; pole < 3; pole++) {
        const own = (rows: Float32Array) => [
          ...rows.subarray(pole * OBS_DIM, (pole + 1) * OBS_DIM),
        ];
        if (before && !ended[pole]) expect(own(obs)).to.deep.equal(own(before));
        if (before && ended[pole]) {
          ends++;
          // An ended row keeps the observation outside the limit. The new episode begins within
          // ±0.05.
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

  it('LaneCollector adds the same transitions as CartPoleCollector', () => {
    const rows = collector(7);
    const { context, episodes, steps } = contextOf(7);
    const lanes = new LaneCollector(context);
    const buffer = TrajectoryBuffer.create({ capacity: 3 * 1024, lanes: 3, fields });
    using writer = buffer.writer();
    const view = buffer.transitions({ nStep: 1, gamma: 0.5 });
    /** for each lane, the place of its next step */
    const places = [0, 0, 0];
    const expected: [id: number, row: object][] = [];
    for (let step = 0; step < 300; step++) {
      if (step === 100) for (const each of [rows.collector, lanes]) each.load(always(1));
      const { obs, nextObs, actions, dones, truncated } = rows.collector.collect();
      expect(writer.add(lanes.collect())).to.equal(3);
      for (let pole = 0; pole < 3; pole++) {
        const own = (all: Float32Array) => [...all.subarray(pole * OBS_DIM, (pole + 1) * OBS_DIM)];
        const [ended, cut] = [dones[pole] as number, truncated[pole] as number];
        const flags = {
          terminated: [ended - cut],
          truncated: [cut],
          discounts: [0.5 * (1 - ended + cut)],
        };
        const row = {
          obs: own(obs),
          nextObs: own(nextObs),
          actions: [actions[pole]],
          rewards: [1],
          ...flags,
        };
        expected.push([places[pole]! * 3 + pole, row]);
        // The final observation also takes a place.
        places[pole]! += ended === 1 ? 2 : 1;
      }
    }
    const drawable = new Set(buffer.drawableIds(view));
    for (const [id, row] of expected) {
      if (!drawable.delete(id)) continue;
      const found = buffer.transitionsAt({ view, ids: [id] });
      const plain = Object.keys(row).map((key) => [
        key,
        [...(found[key as 'obs'] as Float32Array)],
      ]);
      expect(Object.fromEntries(plain)).to.deep.equal(row);
    }
    expect(drawable.size).to.equal(0);
    // The last step of each pole can only be drawn after its next step is added, unless it ended
    // the episode.
    expect(buffer.drawable(view)).to.be.within(897, 900);
    expect(episodes).to.deep.equal(rows.episodes);
    expect(episodes.length).to.be.greaterThan(10);
    expect([steps(), buffer.ptr]).to.deep.equal([900, 900]);
  });

  it('CartPoleCollector follows the loaded weights after exploration ends', () => {
    const { collector: made } = collector();
    made.collect();
    for (const action of [1, 0]) {
      made.load(always(action));
      let taken = 0;
      for (let step = 0; step < 100; step++)
        taken += made.collect().actions.reduce((sum, value) => sum + value, 0);
      // Exploration replaces 2 % of the actions. Half of these are the other action.
      expect(taken / 300).to.be.closeTo(action, 0.05);
    }
  });

  it('evaluate() plays whole episodes, and stops early when its goal is out of reach', async () => {
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
