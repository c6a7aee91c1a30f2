/** Tests that a traced FastSAC computes what SacLearner computes with categorical critics. */
import { expect } from 'chai';
import { DECAY, optionsOf, RANGE, tracedFastSac } from '../../../bench/traced-learners.ts';
import { SacLearner } from '../../../src/entries/learner.ts';
import { ACTIONS, OBS, Rig, ROWS } from './rig.ts';

describe('a traced FastSAC', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  it('has the weights of the hand-written one', async () => {
    const sizes = { obs: OBS, actions: ACTIONS, hidden: [8, 7], rows: ROWS, atoms: 11 };
    const decayed = { weightDecay: DECAY, decoupled: true };
    const hand = rig.keep(
      new SacLearner(rig.device, {
        ...optionsOf(sizes),
        layerNorm: true,
        activation: 'silu',
        critic: { kind: 'categorical', atoms: 11, min: RANGE.low, max: RANGE.high },
        actorOptimizer: decayed,
        criticOptimizer: decayed,
      }),
    );
    const traced = rig.keep(tracedFastSac(rig.device, sizes));
    await Promise.all([hand.ready, traced.ready]);
    const outs = [hand, traced].map(({ scalars }) => rig.zeros(scalars.length));
    for (const seed of [1, 2, 3]) {
      const batch = rig.batch(2 * ROWS, 'numbers', seed);
      hand.update(rig.stream, batch as never, outs[0]!);
      traced.update(rig.stream, batch, outs[1]!);
    }
    const [one, two] = [await hand.state(), await traced.state()];
    const names: Readonly<Record<string, string>> = {
      'optimizers.critics': 'criticOptimiser',
      'optimizers.actor': 'actorOptimiser',
      'optimizers.logAlpha': 'temperatureOptimiser',
    };
    let compared = 0;
    for (const [key, { data }] of Object.entries(two)) {
      const from = Object.keys(names).find((name) => key.startsWith(`${name}.`));
      const other = one[from === undefined ? key : names[from] + key.slice(from.length)];
      if (!other || key === 'numbers') continue;
      compared++;
      if (!key.endsWith('.options')) expect(data, key).to.deep.equal(other.data);
    }
    expect(compared).to.be.greaterThan(8);
    const [a, b] = await Promise.all(outs.map((out) => out.toArray()));
    for (const [i, name] of traced.scalars.entries()) {
      const at = hand.scalars.indexOf(name as (typeof hand.scalars)[number]);
      expect(b![i], name).to.be.closeTo(a![at]!, 2e-6 * Math.abs(a![at]!) + 1e-7);
    }
  });
});
