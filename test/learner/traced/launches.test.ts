/** Pins the number of launches of learners, so that a change of the planner shows what it costs. */
import { expect } from 'chai';
import { DqnLearner, type Learner, SacLearner, Td3Learner } from '../../../src/entries/learner.ts';
import type { DescribedLearner, Expression } from '../../../src/entries/trace.ts';
import { adam, concat, parameter } from '../../../src/entries/trace.ts';
import { TracedLearner } from '../../../src/learn/trace/learner/learner.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { OBS, Rig, ROWS, tracedSac, tracedTd3 } from './rig.ts';

describe('launches of traced learners', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  /** Returns the number of launches, and the ops of the copies and chains among them. */
  const planned = (made: DescribedLearner) => {
    const { plan } = rig.keep(made);
    const rows = String(plan)
      .split('\n')
      .slice(3)
      .map((line) => line.split(/ {2,}/));
    const opsOf = (of: RegExp) => rows.filter((row) => of.test(row[1]!)).map((row) => row[2]);
    return { launches: plan.launches, copies: opsOf(/^copy/), chains: opsOf(/^chain$/) };
  };

  it('SAC concatenates the observations for its critics at most once', () => {
    const { launches, copies } = planned(tracedSac(rig.device));
    expect(copies.filter((op) => op === 'concat')).to.have.length(ON_HOST ? 3 : 0);
    expect(launches).to.equal(ON_HOST ? 72 : 51);
  });

  it('TD3 concatenates the observations for its critics at most once', () => {
    const { launches, copies } = planned(tracedTd3(rig.device));
    expect(copies.filter((op) => op === 'concat')).to.have.length(ON_HOST ? 4 : 0);
    expect(launches).to.equal(ON_HOST ? 58 : 42);
  });

  /** Captures an update of K minibatches, and returns the nodes of one. */
  async function nodes(made: Learner, obs: number, actions: number, k = 1): Promise<number> {
    const learner = rig.keep(made);
    const rows = learner.batchSize * k;
    const column = () => rig.zeros(rows);
    const batch = {
      ...{ obs: rig.zeros(rows, obs), nextObs: rig.zeros(rows, obs) },
      actions: actions === 1 ? column() : rig.zeros(rows, actions),
      ...{ rewards: column(), discounts: column() },
    };
    const out = rig.zeros(learner.scalars.length);
    await learner.ready;
    await rig.stream.synchronize();
    rig.stream.beginCapture();
    learner.update(rig.stream, batch, out);
    return rig.keep(rig.stream.endCapture()).nodeCount / k;
  }

  it('updates of the built-in learners have few nodes', async function () {
    if (!ON_HOST) this.skip(); // nodes of the CPU device are launches
    const { device } = rig;
    const box = { obsDim: 17, actionDim: 6, batchSize: 16 };
    const q = { obsDim: 4, actions: 2, hidden: [12, 8], batchSize: 16 };
    expect(await nodes(new SacLearner(device, box), 17, 6)).to.equal(66);
    expect(await nodes(new Td3Learner(device, box), 17, 6, 2)).to.equal(44);
    expect(await nodes(new DqnLearner(device, q), 4, 1)).to.equal(17);
  });

  describe('sums that only a report needs', () => {
    /** Makes a learner with two scalars of obs and a parameter. */
    const summing = (
      scalars: (x: Expression, y: Expression) => Record<string, Expression>,
      options: object = {},
    ) =>
      rig.keep(
        new TracedLearner(
          rig.device,
          {
            name: 'sums',
            rows: ROWS,
            batch: { obs: [OBS] },
            parameters: { a: parameter({ initial: 1 }) },
            optimizers: { a: adam() },
            update(_: object, { obs }: { obs: Expression }, { a }: { a: Expression }) {
              const [x, y] = [0, 1].map((j) =>
                obs
                  .slice(1, j, j + 1)
                  .reshape([ROWS])
                  .mul(a),
              );
              return { minimize: { a }, scalars: scalars(x!.tanh() as never, y!.exp() as never) };
            },
          },
          options,
        ),
      );
    /** Returns the sums of step_end, and those that are launches of their own. */
    const sums = (made: TracedLearner) => {
      const rows = String(made.plan)
        .split('\n')
        .map((line) => line.split(/ {2,}/))
        .filter((row) => /^sum\b/.test(row[2]!));
      const late = rows.filter((row) => row[1] === 'step_end').length;
      return { late, own: rows.length - late };
    };
    /** Returns the scalars of an update. */
    async function values(made: TracedLearner): Promise<number[]> {
      const out = rig.zeros(made.scalars.length);
      const { obs } = rig.batch(ROWS, 'numbers');
      made.update(rig.stream, { obs }, out);
      return [...(await out.toArray())];
    }
    const cases: [
      string,
      (x: Expression, y: Expression) => Record<string, Expression>,
      { late: number; own: number },
    ][] = [
      ['two means', (x, y) => ({ one: x.mean(), two: y.mean() }), { late: 2, own: 0 }],
      [
        'three means',
        (x, y) => ({ a: x.mean(), b: y.mean(), c: y.abs().mean() }),
        { late: 3, own: 0 },
      ],
      [
        'two means that have another scalar between them',
        (x, y) => ({ one: x.mean(), between: x.max(), two: y.mean() }),
        { late: 2, own: 0 },
      ],
      ['a mean and a sum', (x, y) => ({ one: x.mean(), two: y.sum() }), { late: 2, own: 0 }],
      ['means of one value', (x) => ({ one: x.mean(), two: x.mean().abs() }), { late: 0, own: 1 }],
      [
        'columns of one value',
        (x, y) => {
          const both = concat(1, x.reshape([ROWS, 1]), y.reshape([ROWS, 1])) as Expression;
          const column = (j: number) => both.slice(1, j, j + 1).mean() as Expression;
          return { one: column(0), two: column(1) };
        },
        { late: 2, own: 0 },
      ],
      [
        'means of which another op needs the first',
        (x, y) => {
          const one = x.mean() as Expression;
          return { one, two: y.sub(one).mean(), three: y.mean() };
        },
        { late: 2, own: 1 },
      ],
    ];
    for (const [what, scalars, wanted] of cases)
      it(`${what}: step_end computes ${wanted.late} of them, with the bits of single launches`, async () => {
        const joined = summing(scalars);
        expect(sums(joined)).to.deep.equal(wanted);
        const found = await values(joined);
        expect(found.every((value) => Math.abs(value) > 1e-3)).to.equal(true);
        expect(await values(summing(scalars, { late: false }))).to.deep.equal(found);
        expect(await values(summing(scalars, { chains: false }))).to.deep.equal(found);
        expect(await values(summing(scalars, { poison: true }))).to.deep.equal(found);
      });
  });
});
