/**
 * Tests the exported learners that are written with learner(): that they learn small tasks, save and
 * load, and give policies. Golden cases compare their arithmetic with peers.
 */
import { expect } from 'chai';
import { encodeOnnx } from '../../../src/entries/formats.ts';
import {
  CqlLearner,
  DiscreteSacLearner,
  IqlLearner,
  QrDqnLearner,
  TqcLearner,
} from '../../../src/entries/learner.ts';
import type { TracedLearner } from '../../../src/entries/trace.ts';
import { refusal } from '../../rig/refusal.ts';
import { type Batch, numbers, Rig } from './rig.ts';

const [rows, obsDim, actionDim] = [64, 2, 1];
const fast = { learningRate: 1e-2 };
const box = {
  obsDim,
  actionDim,
  actionLow: -2,
  actionHigh: 2,
  batchSize: rows,
  actorHidden: [24],
  criticHidden: [24],
  actorOptimizer: fast,
  criticOptimizer: fast,
  seed: 3,
};
const choice = { obsDim, actions: 3, hidden: [24], batchSize: rows, seed: 3 };

describe('learners written with learner()', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  /** Episodes of one step. The best action is the one of three that the first number names. */
  function choices(seed: number): Batch {
    const obs = numbers(rows * obsDim, seed);
    const actions = numbers(rows, seed + 50, 0, 3).map(Math.floor);
    const best = (row: number) => (obs[2 * row]! < -0.3 ? 0 : obs[2 * row]! < 0.3 ? 1 : 2);
    return {
      obs: rig.tensor([rows, obsDim], obs),
      nextObs: rig.zeros(rows, obsDim),
      actions: rig.keep(
        rig.device.allocate({ shape: [rows], dtype: 'int32' }).write(Int32Array.from(actions)),
      ),
      rewards: rig.tensor(
        [rows],
        actions.map((a, row) => (a === best(row) ? 1 : 0)),
      ),
      terminated: rig.tensor([rows], new Float32Array(rows).fill(1)),
    };
  }
  /** Episodes of one step. The best action is the first number. */
  function moves(seed: number): Batch {
    const obs = numbers(rows * obsDim, seed);
    const actions = numbers(rows, seed + 50, -2, 2);
    return {
      ...choices(seed),
      obs: rig.tensor([rows, obsDim], obs),
      actions: rig.tensor([rows, 1], actions),
      rewards: rig.tensor(
        [rows],
        actions.map((a, row) => -((a - obs[2 * row]!) ** 2)),
      ),
    };
  }

  async function train(made: TracedLearner, batch: (seed: number) => Batch, updates: number) {
    rig.keep(made);
    await made.ready;
    const out = rig.zeros(made.scalars.length);
    const batches = [1, 2, 3, 4, 5, 6, 7, 8].map(batch);
    for (let i = 0; i < updates; i++) made.update(rig.stream, batches[i % 8]!, out);
    const scalars = await out.toArray();
    expect(scalars.every(Number.isFinite), made.scalars.join()).to.equal(true);
  }
  const seen = Float32Array.of(-0.8, 0.1, -0.05, 0.4, 0.7, -0.2);

  it('QrDqnLearner takes the best of three actions, and its policy can be exported', async () => {
    const made = new QrDqnLearner(rig.device, { ...choice, quantiles: 8, learningRate: 1e-2 });
    await train(made, choices, 400);
    const policy = made.policy().load(await made.weights('q').toArray());
    expect([...policy.act(seen, 3)]).to.deep.equal([0, 1, 2]);
    expect(policy.values(seen, 3)[0]).to.be.closeTo(1, 0.3);
    expect(encodeOnnx(policy).length).to.be.greaterThan(100);
  });

  it('DiscreteSacLearner prefers the best of three actions, and its policy samples', async () => {
    const made = new DiscreteSacLearner(rig.device, {
      ...choice,
      actorOptimizer: fast,
      criticOptimizer: fast,
      temperatureOptimizer: fast,
      targetEntropy: 0.3,
    });
    await train(made, choices, 400);
    const weights = await made.weights('actor').toArray();
    const greedy = made.policy({ greedy: true }).load(weights);
    expect([...greedy.act(seen, 3)]).to.deep.equal([0, 1, 2]);
    const policy = made.policy({ seed: 5 }).load(weights);
    const same = new Float32Array(2 * 600).fill(-0.8);
    const counts = [0, 0, 0];
    for (const action of policy.act(same, 600)) counts[action]!++;
    expect(counts[0]).to.be.within(300, 599);
  });

  for (const [name, make, updates] of [
    ['TqcLearner', () => new TqcLearner(rig.device, { ...box, quantiles: 5, drop: 1 }), 400],
    [
      'IqlLearner',
      () => new IqlLearner(rig.device, { ...box, beta: 10, valueOptimizer: fast }),
      600,
    ],
    [
      'IqlLearner with a deterministic actor',
      () =>
        new IqlLearner(rig.device, {
          ...box,
          beta: 10,
          valueOptimizer: fast,
          actorKind: 'deterministic',
        }),
      600,
    ],
    [
      'CqlLearner',
      () => new CqlLearner(rig.device, { ...box, sampledActions: 4, penalty: 0.1 }),
      400,
    ],
  ] as const)
    it(`${name} learns the best action in a box, and saves and loads its state`, async () => {
      const made = make();
      await train(made, moves, updates);
      const policy = (
        made instanceof TqcLearner ? made.policy({ greedy: true }) : made.policy()
      ).load(await made.weights('actor').toArray());
      for (const [i, action] of [...policy.act(seen, 3)].entries())
        expect(action, `row ${i}`).to.be.closeTo(seen[2 * i]!, 0.5);
      const again = rig.keep(make());
      await again.ready;
      again.loadState(await made.state());
      const [batch, out] = [moves(9), rig.zeros(made.scalars.length)];
      for (const each of [made, again]) each.update(rig.stream, batch, out);
      expect(await again.parameters.toArray()).to.deep.equal(await made.parameters.toArray());
      expect(again.settings).to.deep.equal(made.settings);
    });

  it('wrong options are refused', () => {
    const device = rig.device;
    const says = (call: () => unknown) => refusal(call).message;
    expect(says(() => new QrDqnLearner(device, { ...choice, quantiles: 0 }))).to.match(
      /^quantiles must be/,
    );
    expect(says(() => new QrDqnLearner(device, { ...choice, nstep: 2 } as never))).to.match(
      /^QrDqnLearner: unknown option 'nstep'/,
    );
    expect(says(() => new TqcLearner(device, { ...box, quantiles: 5, drop: 5 }))).to.match(
      /^drop must be below quantiles \(5\), got 5/,
    );
    expect(says(() => new IqlLearner(device, { ...box, expectile: 1 }))).to.match(
      /^expectile must be within/,
    );
    expect(says(() => new IqlLearner(device, { ...box, actorKind: 'beta' as never }))).to.match(
      /^actorKind must be 'gaussian' or 'deterministic', got 'beta'/,
    );
    expect(says(() => new CqlLearner(device, { ...box, importanceSampling: 1 as never }))).to.match(
      /^importanceSampling must be a boolean/,
    );
    expect(
      says(() => new DiscreteSacLearner(device, { ...choice, initialTemperature: 0 })),
    ).to.match(/^initialTemperature must be within/);
  });
});
