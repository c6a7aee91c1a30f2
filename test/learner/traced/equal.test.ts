/**
 * Tests that learners which are described with other ops compute what the built-in ones compute, to the
 * bit.
 */
import { expect } from 'chai';
import { DECAY, optionsOf, RANGE, tracedFastSac } from '../../../bench/traced-learners.ts';
import {
  DqnLearner,
  type Learner,
  Mlp,
  SacLearner,
  type SacOptions,
  Td3Learner,
} from '../../../src/entries/learner.ts';
import {
  adam,
  bootstrap,
  copied,
  type DescribedLearner,
  huber,
  learner,
  polyak,
} from '../../../src/entries/trace.ts';
import { ACTIONS, type Batch, OBS, Rig, ROWS, tracedSac, tracedTd3 } from './rig.ts';

describe('described learners and built-in ones', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  const hidden = { actorHidden: [8, 7], criticHidden: [8, 7] };
  const sizes: SacOptions = { obsDim: OBS, actionDim: ACTIONS, batchSize: ROWS, ...hidden };

  /**
   * Updates both learners with the same batches. Expects the same scalars, priorities and states for
   * the names that `names` maps from one state to the other.
   */
  async function compare(
    builtIn: Learner,
    traced: DescribedLearner,
    batches: readonly Batch[],
    names: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    await Promise.all([builtIn.ready, traced.ready]);
    const outs = [builtIn, traced].map(({ scalars }) => rig.zeros(Math.max(scalars.length, 1)));
    for (const batch of batches) {
      builtIn.update(rig.stream, batch as never, outs[0]!);
      traced.update(rig.stream, batch, outs[1]!);
    }
    const [one, two] = [await builtIn.state(), await traced.state()];
    const renamed = (key: string) => {
      const from = Object.keys(names).find((name) => key.startsWith(`${name}.`));
      return from === undefined ? key : names[from] + key.slice(from.length);
    };
    let compared = 0;
    for (const [key, { data }] of Object.entries(two)) {
      const other = one[renamed(key)];
      if (!other || key === 'numbers') continue;
      compared++;
      if (!key.endsWith('.options')) expect(data, key).to.deep.equal(other.data);
    }
    expect(compared).to.be.greaterThan(8);
    const [a, b] = await Promise.all(outs.map((out) => out.toArray()));
    for (const [i, name] of traced.scalars.entries()) {
      const at = builtIn.scalars.indexOf(name);
      if (at >= 0) expect(b![i], name).to.be.closeTo(a![at]!, 2e-6 * Math.abs(a![at]!) + 1e-7);
    }
  }

  const three = (actions: 'index' | 'numbers', rows = ROWS) =>
    [1, 2, 3].map((seed) => rig.batch(rows, actions, seed));

  const dqn = (double: boolean, follower: ReturnType<typeof polyak> | ReturnType<typeof copied>) =>
    learner(rig.device, {
      name: 'dqn',
      rows: ROWS,
      batch: {
        obs: [OBS],
        nextObs: [OBS],
        actions: 'index',
        rewards: [],
        discounts: [],
        weights: [],
      },
      networks: { q: new Mlp({ sizes: [OBS, 8, 7, ACTIONS] }), target: follower },
      optimizers: { q: adam({ learningRate: 1e-3, maxGradNorm: 0.1 }) },
      update({ q, target }, { obs, nextObs, actions, rewards, discounts, weights }) {
        const next = target(nextObs);
        const best = (double ? q(nextObs) : next).argmax();
        const goal = bootstrap(rewards, discounts, next.pick(best) as never).detach();
        const error = q(obs).pick(actions).sub(goal);
        const losses = huber(error).mul(weights);
        return {
          minimize: { q: losses.mean() },
          scalars: { loss: losses.mean() },
          priorities: error.abs(),
        };
      },
    });
  const online = { q: 'online', 'optimizers.q': 'optimiser' };
  const options = { obsDim: OBS, actions: ACTIONS, hidden: [8, 7], batchSize: ROWS };

  it('double DQN with a follower that moves after each step', async () => {
    const builtIn = rig.keep(new DqnLearner(rig.device, { ...options, maxGradNorm: 0.1 }));
    const traced = rig.keep(dqn(true, polyak('q', 0.005)));
    await compare(builtIn, traced, three('index', 2 * ROWS), online);
  });

  it('DQN whose target copies the network every second step', async () => {
    const how = { ...options, maxGradNorm: 0.1, double: false, targetEvery: 2 };
    const builtIn = rig.keep(new DqnLearner(rig.device, how));
    await compare(builtIn, rig.keep(dqn(false, copied('q', { every: 2 }))), three('index'), online);
  });

  it('DQN with importance weights and priorities', async () => {
    const builtIn = rig.keep(new DqnLearner(rig.device, { ...options, maxGradNorm: 0.1 }));
    const traced = rig.keep(dqn(true, polyak('q', 0.005)));
    const batches = three('index').map((batch) => ({
      ...batch,
      weights: rig.tensor([ROWS], new Float32Array(ROWS).fill(0.5)),
      priorities: rig.zeros(ROWS),
    }));
    const [own, other] = [rig.zeros(ROWS), rig.zeros(ROWS)];
    await compare(builtIn, traced, batches, online);
    const out = rig.zeros(2);
    builtIn.update(rig.stream, batches[0] as never, out, { priorities: own });
    traced.update(rig.stream, batches[0]!, out, { priorities: other });
    expect(await other.toArray()).to.deep.equal(await own.toArray());
    // Columns of packed rows lie apart.
    const packed = rig.zeros(ROWS, 3);
    const column = packed.view({ shape: [ROWS], offset: 1, strides: [3] });
    builtIn.update(rig.stream, batches[0] as never, out, { priorities: own });
    traced.update(rig.stream, batches[0]!, out, { priorities: column });
    const [all, wanted] = [await packed.toArray(), await own.toArray()];
    expect(all.filter((_, i) => i % 3 === 1)).to.deep.equal(wanted);
    expect(all.filter((_, i) => i % 3 !== 1).every((x) => x === 0)).to.equal(true);
  });

  const optimizers = {
    'optimizers.critics': 'criticOptimiser',
    'optimizers.actor': 'actorOptimiser',
    'optimizers.logAlpha': 'temperatureOptimiser',
  };

  it('SAC with its own random numbers', async () => {
    const builtIn = rig.keep(new SacLearner(rig.device, sizes));
    await compare(builtIn, rig.keep(tracedSac(rig.device)), three('numbers', 2 * ROWS), optimizers);
  });

  it('TD3, whose actor steps every second time', async () => {
    const builtIn = rig.keep(new Td3Learner(rig.device, { ...sizes, tau: 0.005 }));
    await compare(builtIn, rig.keep(tracedTd3(rig.device)), three('numbers', 3 * ROWS), optimizers);
  });

  it('FastSAC, whose critics have distributions', async () => {
    const small = { obs: OBS, actions: ACTIONS, hidden: [8, 7], rows: ROWS, atoms: 11 };
    const decayed = { weightDecay: DECAY, decoupled: true };
    const builtIn = rig.keep(
      new SacLearner(rig.device, {
        ...optionsOf(small),
        layerNorm: true,
        activation: 'silu',
        critic: { kind: 'categorical', atoms: 11, ...RANGE },
        actorOptimizer: decayed,
        criticOptimizer: decayed,
      }),
    );
    const traced = rig.keep(tracedFastSac(rig.device, small));
    await compare(builtIn, traced, three('numbers', 2 * ROWS), optimizers);
  });
});
