/**
 * Tests discrete SAC and QR-DQN with masks of legal actions against models in float64, and that π·ln π
 * gives no NaN at illegal actions. Two actions are always illegal, and final states have empty masks.
 */
import { expect } from 'chai';
import type { DType } from '../../src/base/dtype.ts';
import {
  DiscreteSacLearner,
  type DiscreteSacOptions,
  type LearnerState,
  QrDqnLearner,
  type QrDqnOptions,
} from '../../src/entries/learner.ts';
import {
  adam,
  checkGradients,
  learner as described,
  type Expression,
  expect as expected,
  parameter,
  type TracedLearner,
  trace,
  where,
} from '../../src/entries/trace.ts';
import { refusal } from '../rig/refusal.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import {
  ACTIONS,
  batchIn,
  type Columns,
  type Form,
  NEVER,
  OBS,
  ones,
  poisons,
  ROWS,
  rowsOf,
} from './masked.ts';
import { expectClose } from './reference.ts';
import { numbers, Rig } from './traced/rig.ts';

const [HIDDEN, QUANTILES, CRITICS] = [5, 3, 2];
const shared = {
  obsDim: OBS,
  actions: ACTIONS,
  hidden: [HIDDEN],
  batchSize: ROWS,
  activation: 'tanh',
  tau: 0.25,
  actionMask: true,
} as const;
const fast = { learningRate: 0.05 };
const sacOptions = (more: Partial<DiscreteSacOptions> = {}): DiscreteSacOptions => ({
  ...shared,
  initialTemperature: 0.3,
  actorOptimizer: fast,
  criticOptimizer: fast,
  temperatureOptimizer: fast,
  ...more,
});
const qrOptions = (more: Partial<QrDqnOptions> = {}): QrDqnOptions => ({
  ...shared,
  ...fast,
  quantiles: QUANTILES,
  ...more,
});

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
const mean = (of: readonly number[]) => of.reduce((a, b) => a + b, 0) / of.length;
const rowOf = <T extends { subarray(a: number, b: number): T }>(of: T, i: number, n: number): T =>
  of.subarray(i * n, (i + 1) * n);

/** Returns the outputs of a network with one hidden layer, in float64. */
function pass(flat: ArrayLike<number>, x: Float32Array, outputs: number): number[] {
  const linear = (from: readonly number[], width: number, start: number) =>
    range(width).map((o) =>
      from.reduce(
        (sum, v, i) => sum + v * flat[start + o * from.length + i]!,
        flat[start + width * from.length + o]!,
      ),
    );
  return linear(linear([...x], HIDDEN, 0).map(Math.tanh), outputs, HIDDEN * (OBS + 1));
}
const SIZE = HIDDEN * (OBS + 1) + ACTIONS * (HIDDEN + 1);

/** Returns the probabilities of legal actions, and 0 for the others. */
function policyOf(actor: ArrayLike<number>, x: Float32Array, legal: Uint8Array): number[] {
  const logits = pass(actor, x, ACTIONS).map((v, a) => (legal[a] ? v : Number.NEGATIVE_INFINITY));
  const most = Math.max(...logits);
  if (most === Number.NEGATIVE_INFINITY) return logits.map(() => 0);
  const all = logits.reduce((sum, v) => sum + Math.exp(v - most), 0);
  return logits.map((v) => Math.exp(v - most) / all);
}
const leastOf = (critics: ArrayLike<number>, x: Float32Array): number[] => {
  const all = range(CRITICS).map((j) =>
    pass(Array.from(critics).slice(j * SIZE, (j + 1) * SIZE), x, ACTIONS),
  );
  return range(ACTIONS).map((a) => Math.min(...all.map((values) => values[a]!)));
};
/** Returns Σ π · x over the actions with a probability. */
const over = (pi: readonly number[], x: (a: number) => number): number =>
  pi.reduce((sum, p, a) => (p > 0 ? sum + p * x(a) : sum), 0);

/** Returns central differences of f by each finite parameter. Others have the slope 0. */
function slopesOf(parameters: Float32Array, f: (of: Float64Array) => number): number[] {
  const own = Float64Array.from(parameters);
  return [...own].map((value, i) => {
    if (!Number.isFinite(value) || value === Math.fround(1e30)) return 0;
    const at = (by: number) => {
      own[i] = value + by;
      const found = f(own);
      own[i] = value;
      return found;
    };
    return (at(1e-5) - at(-1e-5)) / 2e-5;
  });
}

describe('traced learners with masks of legal actions', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());
  const batchOf = (columns: Columns, form?: Form) => batchIn(rig, columns, form);

  /** Gives targets other parameters, and illegal actions the value `poison`. */
  async function changed<L extends TracedLearner>(
    made: L,
    poison: number | undefined,
    perAction: number,
  ): Promise<L> {
    rig.keep(made);
    await made.ready;
    const other: Record<string, LearnerState[string]> = {};
    for (const [name, entry] of Object.entries(await made.state())) {
      other[name] = entry;
      if (!/\.(weight|bias)$/.test(name) || name.startsWith('optimizers')) continue;
      const data = Float32Array.from(entry.data as Float32Array);
      if (name.startsWith('target'))
        for (const [i, x] of numbers(data.length, data.length).entries()) data[i]! += 0.6 * x;
      // The outputs of one action are ACTIONS elements apart.
      if (poison !== undefined && name.endsWith('.2.bias'))
        for (const a of NEVER) for (const k of range(perAction)) data[k * ACTIONS + a] = poison;
      other[name] = { ...entry, data };
    }
    made.loadState(other);
    return made;
  }
  const sac = (more?: Partial<DiscreteSacOptions>, poison?: number) =>
    changed(new DiscreteSacLearner(rig.device, sacOptions(more)), poison, 1);
  const qr = (more?: Partial<QrDqnOptions>, poison?: number) =>
    changed(new QrDqnLearner(rig.device, qrOptions(more)), poison, QUANTILES);

  async function updated(made: TracedLearner, batch: object, events: readonly string[]) {
    const rows = (batch as ReturnType<typeof batchOf>).rewards.shape[0] as number;
    const [out, priorities] = [rig.zeros(made.scalars.length), rig.zeros(rows)];
    const record = Object.fromEntries(
      events.map((event) => [
        event,
        { loss: rig.zeros(1), gradient: rig.zeros(made.optimizer(event).parameters.size) },
      ]),
    );
    made.update(rig.stream, batch, out, { priorities, record });
    const scalars = [...(await out.toArray())].map((x, i) => [made.scalars[i]!, x] as const);
    const gradients = events.map(
      async (event) => [event, await record[event]!.gradient.toArray()] as const,
    );
    return {
      scalars: Object.fromEntries(scalars),
      priorities: await priorities.toArray(),
      gradients: Object.fromEntries(await Promise.all(gradients)),
      parameters: await made.parameters.toArray(),
    };
  }

  for (const [what, poison] of poisons)
    for (const targetEntropy of [undefined, 0.7])
      it(`DiscreteSacLearner agrees with float64 if illegal actions have ${what} values, target entropy ${targetEntropy}`, async () => {
        const made = await sac(targetEntropy === undefined ? {} : { targetEntropy }, poison);
        const columns = rowsOf(3, ROWS);
        const flat = async (name: string) => made.weights(name).toArray();
        const [actor, critics, targets] = [
          await flat('actor'),
          await flat('critics'),
          await flat('targets'),
        ];
        const got = await updated(made, batchOf(columns), ['critics', 'actor', 'logAlpha']);
        const stepped = await flat('critics');
        const alpha = 0.3;
        const state = (i: number, next: boolean) =>
          [
            rowOf(next ? columns.nextObs : columns.obs, i, OBS),
            rowOf(next ? columns.nextActionMask : columns.actionMask, i, ACTIONS),
          ] as const;
        const rows = range(ROWS);

        const goals = rows.map((i) => {
          const [x, legal] = state(i, true);
          const [pi, least] = [policyOf(actor, x, legal), leastOf(targets, x)];
          const next = over(pi, (a) => least[a]! - alpha * Math.log(pi[a]!));
          return (
            columns.rewards[i]! + (columns.discounts[i] === 0 ? 0 : columns.discounts[i]! * next)
          );
        });
        const errors = (of: ArrayLike<number>) =>
          rows.map((i) =>
            range(CRITICS).map((j) => {
              const own = Array.from(of).slice(j * SIZE, (j + 1) * SIZE);
              return pass(own, state(i, false)[0], ACTIONS)[columns.actions[i]!]! - goals[i]!;
            }),
          );
        const criticLoss = (of: ArrayLike<number>) =>
          CRITICS * mean(errors(of).flatMap((row) => row.map((e) => e * e)));
        expectClose([got.scalars.criticLoss!], [criticLoss(critics)], 2e-5, 'criticLoss');
        const absolute = errors(critics).map((row) => mean(row.map(Math.abs)));
        expectClose(got.priorities, absolute, 2e-5, 'priorities');
        expectClose(
          got.gradients.critics!,
          slopesOf(critics, criticLoss),
          5e-5,
          'gradient of critics',
        );

        const actorLoss = (of: ArrayLike<number>) =>
          -mean(
            rows.map((i) => {
              const [x, legal] = state(i, false);
              const [pi, least] = [policyOf(of, x, legal), leastOf(stepped, x)];
              return over(pi, (a) => least[a]! - alpha * Math.log(pi[a]!));
            }),
          ) / ACTIONS;
        expectClose([got.scalars.actorLoss!], [actorLoss(actor)], 2e-5, 'actorLoss');
        expectClose(
          got.gradients.actor!,
          slopesOf(actor, actorLoss),
          5e-5,
          'gradient of the actor',
        );

        const policies = rows.map((i) => policyOf(actor, ...state(i, false)));
        const entropy = mean(policies.map((pi) => -over(pi, (a) => Math.log(pi[a]!))));
        const excess = mean(
          policies.map((pi, i) => {
            const count = state(i, false)[1].reduce((a, b) => a + b, 0);
            const aim = targetEntropy ?? 0.89 * Math.log(count);
            return over(pi, (a) => Math.log(pi[a]!) + aim);
          }),
        );
        expectClose([got.scalars.entropy!], [entropy], 2e-5, 'entropy');
        const temperatureLoss = (-alpha * excess) / ACTIONS;
        expectClose([got.scalars.temperatureLoss!], [temperatureLoss], 2e-5, 'temperatureLoss');
        expectClose(got.gradients.logAlpha!, [temperatureLoss], 2e-5, 'gradient of logAlpha');
        const finite = got.parameters.filter(Number.isFinite).length;
        if (poison === undefined) expect(finite).to.equal(got.parameters.length);
      });

  for (const [what, poison] of poisons)
    it(`QrDqnLearner agrees with float64 if illegal actions have ${what} values`, async () => {
      const made = await qr({}, poison);
      const columns = rowsOf(3, ROWS);
      const [q, target] = [
        await made.weights('q').toArray(),
        await made.weights('target').toArray(),
      ];
      const got = await updated(made, batchOf(columns), ['q']);
      const quantiles = (flat: ArrayLike<number>, x: Float32Array) => {
        const out = pass(flat, x, QUANTILES * ACTIONS);
        return range(ACTIONS).map((a) => range(QUANTILES).map((k) => out[k * ACTIONS + a]!));
      };
      const targetsOf = (masks: Uint8Array) =>
        range(ROWS).map((i) => {
          const values = quantiles(target, rowOf(columns.nextObs, i, OBS));
          const legal = rowOf(masks, i, ACTIONS);
          const best = range(ACTIONS).reduce(
            (at, a) => (legal[a] && (at < 0 || mean(values[a]!) > mean(values[at]!)) ? a : at),
            -1,
          );
          const discount = columns.discounts[i]!;
          return range(QUANTILES).map(
            (k) => columns.rewards[i]! + (discount === 0 ? 0 : discount * values[best]![k]!),
          );
        });
      const goals = targetsOf(columns.nextActionMask);
      const losses = (flat: ArrayLike<number>) =>
        range(ROWS).map((i) => {
          const own = quantiles(flat, rowOf(columns.obs, i, OBS))[columns.actions[i]!]!;
          return own.reduce(
            (sum, theta, k) =>
              sum +
              mean(
                goals[i]!.map((goal) => {
                  const error = goal - theta;
                  const size = Math.abs(error);
                  const loss = size <= 1 ? 0.5 * size ** 2 : size - 0.5;
                  return Math.abs((k + 0.5) / QUANTILES - Number(error < 0)) * loss;
                }),
              ),
            0,
          );
        });
      expectClose(got.priorities, losses(q), 2e-5, 'losses');
      expectClose([got.scalars.loss!], [mean(losses(q))], 2e-5, 'loss');
      expectClose(
        got.gradients.q!,
        slopesOf(q, (of) => mean(losses(of))),
        5e-5,
        'gradient',
      );
      if (poison !== undefined) return;
      const free = targetsOf(columns.nextActionMask.map(() => 1));
      expect(
        free.some((goal, i) => columns.discounts[i] !== 0 && goal[0] !== goals[i]![0]),
      ).to.equal(true);
    });

  const both = [
    ['DiscreteSacLearner', sac, ['critics', 'actor', 'logAlpha'], ['actionMask', 'nextActionMask']],
    ['QrDqnLearner', qr, ['q'], ['nextActionMask']],
  ] as const;
  for (const [name, make, events, fields] of both) {
    it(`${name}: bits and bytes of masks give the same bits, in a capture too`, async () => {
      const columns = rowsOf(4, 2 * ROWS);
      const forms = ['uint32', 'bool', 'uint8', 'float32'] as const;
      const all = [];
      for (const form of forms)
        all.push(await updated(await make(), batchOf(columns, form), events));
      for (const each of all) expect(each).to.deep.equal(all[0]);
      const captured = await make();
      const [batch, out] = [batchOf(columns), rig.zeros(captured.scalars.length)];
      await rig.stream.synchronize();
      rig.captured((stream) => captured.update(stream, batch, out))();
      expect(await captured.parameters.toArray()).to.deep.equal(all[0]!.parameters);
    });

    it(`${name}: masks without illegal actions change nothing`, async () => {
      const columns = ones(rowsOf(5, 2 * ROWS));
      const { actionMask, nextActionMask, ...batch } = batchOf(columns);
      const aim = name === 'QrDqnLearner' ? {} : { targetEntropy: 0.5 };
      const plain = await updated(await make({ ...aim, actionMask: false }), batch, events);
      const masks = { actionMask, nextActionMask };
      const masked = await updated(await make(aim), { ...batch, ...masks }, events);
      expect(masked).to.deep.equal(plain);
      if (name === 'QrDqnLearner') return;
      // The default target entropy of a row is 0.89 · ln of its number of actions.
      const one = await updated(await make({ actionMask: false }), batch, events);
      const other = await updated(await make(), { ...batch, ...masks }, events);
      expectClose(Object.values(other.scalars), Object.values(one.scalars), 1e-6, 'scalars');
    });

    it(`${name}: settings have actionMask only if it is true, and states load into either`, async () => {
      const [plain, masked] = [await make({ actionMask: false }), await make()];
      expect(masked.settings.actionMask).to.equal(true);
      expect(plain.settings).to.not.have.property('actionMask');
      expect(masked.settings).to.not.deep.equal(plain.settings);
      const state = await plain.state();
      expect(Object.keys(await masked.state())).to.deep.equal(Object.keys(state));
      masked.loadState(state);
      expect(await masked.state()).to.deep.equal(state);
    });

    it(`${name}: batches and options that do not fit are refused`, async () => {
      const { actionMask, nextActionMask, ...batch } = batchOf(rowsOf(1, ROWS));
      const says = (made: TracedLearner, given: object) => {
        const out = rig.zeros(made.scalars.length);
        const error = refusal(() => made.update(rig.stream, given, out));
        return `${error.name}: ${error.message}`;
      };
      expect(says(await make({ actionMask: false }), { ...batch, nextActionMask })).to.equal(
        `TypeError: ${name}: this batch has nextActionMask, and the learner was made without masks; make it with the option actionMask: true`,
      );
      const masked = await make();
      for (const field of fields) {
        const masks: Record<string, unknown> = { actionMask, nextActionMask };
        delete masks[field];
        expect(says(masked, { ...batch, ...masks })).to.include(
          `TypeError: ${name}: a batch needs a tensor '${field}'; this one has obs, `,
        );
        const wrong = (dtype: DType, ...shape: number[]) =>
          says(masked, {
            ...batch,
            actionMask,
            nextActionMask,
            [field]: rig.keep(rig.device.allocate({ shape, dtype })),
          });
        const kinds = `${name}: ${field} must be uint32 [8, 2] of bits, or bool, uint8 or float32 [8, 35], got`;
        expect(wrong('int32', ROWS, 2)).to.include(`TypeError: ${kinds} int32`);
        expect(wrong('uint32', ROWS, ACTIONS)).to.include(`RangeError: ${kinds} uint32 [8, 35]`);
      }
      const error = (more: object) =>
        refusal(() =>
          name === 'QrDqnLearner'
            ? new QrDqnLearner(rig.device, qrOptions(more))
            : new DiscreteSacLearner(rig.device, sacOptions(more)),
        ).message;
      expect(error({ actionMask: 'yes' })).to.equal("actionMask must be a boolean, got 'yes'");
      expect(error({ actions: 5000 })).to.equal(
        'actionMask: actions must be a whole number of at least 1 and at most 4096, got 5000',
      );
    });
  }

  it('masks cost a launch each, five more for discrete SAC, and one more for QR-DQN', async function () {
    if (!ON_HOST) this.skip(); // nodes of the CPU device are launches
    const { actionMask, nextActionMask, ...plain } = batchOf(rowsOf(1, ROWS));
    const count = async (made: TracedLearner, batch: object) => {
      const out = rig.zeros(made.scalars.length);
      await rig.stream.synchronize();
      rig.stream.beginCapture();
      made.update(rig.stream, batch, out);
      return rig.keep(rig.stream.endCapture()).nodeCount;
    };
    const masked = { ...plain, actionMask, nextActionMask };
    const free = { actionMask: false };
    const counts = {
      'discrete SAC': [await count(await sac(free), plain), await count(await sac(), masked)],
      'QR-DQN': [await count(await qr(free), plain), await count(await qr(), masked)],
    };
    expect(counts).to.deep.equal({ 'discrete SAC': [65, 72], 'QR-DQN': [29, 31] });
  });

  describe('π · ln π', () => {
    const { NEGATIVE_INFINITY: never } = Number;
    const masks = [
      [1, 1, 1, 1],
      [1, 0, 0, 1],
      [0, 0, 1, 0],
      [0, 0, 0, 0],
    ];
    const poison = [Number.NaN, Number.POSITIVE_INFINITY, 1e38, never];
    const logits = masks.flatMap((row, i) =>
      row.map((legal, a) => (legal ? 0.3 * a - 0.2 * i : poison[(a + i) % 4]!)),
    );
    const values = masks.flatMap((row, i) =>
      row.map((legal, a) => (legal ? 0.5 - a + i : poison[(a + 2 * i) % 4]!)),
    );
    /** The soft value of each row, [4]. */
    const soft = (mask: Expression, x: Expression, q: Expression): Expression => {
      const shown = where(mask, x, never);
      return expected(shown.softmax(), q.sub(shown.logSoftmax().mul(0.5)));
    };

    it('has no NaN in values and gradients, at illegal actions and without a legal one', async () => {
      // The logits are parameters, so that their gradient is recorded.
      const made = rig.keep(
        described(rig.device, {
          name: 'soft',
          rows: 4,
          batch: { mask: { mask: 4 }, values: [4] },
          parameters: { logits: parameter({ shape: [4, 4] }) },
          optimizers: { logits: adam() },
          update(_, { mask, values: q }, { logits: x }) {
            const each = soft(mask, x, q);
            return { minimize: { logits: each.sum() }, priorities: each };
          },
        }),
      );
      await made.ready;
      made.weights('logits').write(Float32Array.from(logits));
      const [priorities, gradient] = [rig.zeros(4), rig.zeros(16)];
      const batch = {
        mask: rig.tensor([4, 4], Float32Array.from(masks.flat())),
        values: rig.tensor([4, 4], Float32Array.from(values)),
        priorities,
      };
      made.update(rig.stream, batch, rig.zeros(1), { record: { logits: { gradient } } });
      const softOf = (x: readonly number[]) =>
        masks.map((row, i) => {
          const legal = range(4).filter((a) => row[a]);
          const all = legal.reduce((sum, a) => sum + Math.exp(x[4 * i + a]!), 0);
          return legal.reduce((sum, a) => {
            const p = Math.exp(x[4 * i + a]!) / all;
            return sum + p * (values[4 * i + a]! - 0.5 * Math.log(p));
          }, 0);
        });
      expectClose(await priorities.toArray(), softOf(logits), 1e-6, 'soft values');
      const slopes = logits.map((_, j) => {
        if (!masks.flat()[j]) return 0;
        const at = (by: number) =>
          softOf(logits.with(j, logits[j]! + by)).reduce((a, b) => a + b, 0);
        return (at(1e-6) - at(-1e-6)) / 2e-6;
      });
      expectClose(await gradient.toArray(), slopes, 1e-6, 'gradient');
    });

    it('has gradients that checkGradients() confirms, with masks given and drawn', () => {
      rig.keep(
        trace(rig.device, { mask: [4, 4], logits: [4, 4], values: [4, 4] }, (of) => {
          const loss = soft(of.mask, of.logits, of.values).sum();
          checkGradients(loss, [of.logits, of.values]);
          checkGradients(loss, [of.logits, of.values], { values: { mask: masks.flat() } });
          checkGradients(loss, [of.logits], { values: { mask: masks.flat(), values } });
          return loss;
        }),
      );
    });

    it('has illegal actions in the masks that checkGradients() draws', () => {
      rig.keep(
        trace(rig.device, { mask: [2, 3], x: [2, 3] }, ({ mask, x }) => {
          const loss = where(mask.reshape([2, 3, 1]), 0, x.reshape([2, 3, 1])).sum();
          const slopes = range(20).map((seed) => checkGradients(loss, [x], { seed }).gradient);
          expect(new Set(slopes)).to.deep.equal(new Set([0, 1]));
          return loss;
        }),
      );
    });
  });
});
