/**
 * Tests DqnLearner with masks of legal actions, for each head, against a model in float64. Two actions
 * are always illegal and have huge, infinite or NaN values. Final states have empty masks.
 */
import { expect } from 'chai';
import type { DType } from '../../src/base/dtype.ts';
import { DqnLearner, type DqnOptions, type LearnerState } from '../../src/entries/learner.ts';
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

const [ATOMS, LOW, HIGH, HIDDEN] = [4, -1, 2, 5];
const head = { kind: 'categorical', atoms: ATOMS, min: LOW, max: HIGH } as const;
const heads: Record<string, Partial<DqnOptions>> = {
  scalar: {},
  dueling: { dueling: true },
  categorical: { head },
  'dueling and categorical': { head, dueling: true },
};
const options = (more: Partial<DqnOptions> = {}): DqnOptions => ({
  obsDim: OBS,
  actions: ACTIONS,
  hidden: [HIDDEN],
  batchSize: ROWS,
  tau: 0.25,
  learningRate: 0.05,
  huberDelta: 0.5,
  activation: 'tanh',
  actionMask: true,
  ...more,
});

/** A model of the network's passes and of the loss, in float64. */
class Model {
  readonly #dueling: boolean;
  readonly #atoms: number;
  readonly #outputs: number;
  readonly #options: Partial<DqnOptions>;

  constructor(of: Partial<DqnOptions>) {
    this.#options = of;
    this.#dueling = of.dueling ?? false;
    this.#atoms = of.head ? ATOMS : 1;
    this.#outputs = (ACTIONS + Number(this.#dueling)) * this.#atoms;
  }

  /** Returns the numbers of each action, [actions][atoms], of which the illegal ones mean nothing. */
  #pass(flat: ArrayLike<number>, x: Float32Array, legal: Uint8Array): number[][] {
    const linear = (from: readonly number[], outputs: number, start: number) =>
      Array.from({ length: outputs }, (_, o) =>
        from.reduce(
          (sum, v, i) => sum + v * flat[start + o * from.length + i]!,
          flat[start + outputs * from.length + o]!,
        ),
      );
    const hidden = linear([...x], HIDDEN, 0).map(Math.tanh);
    const out = linear(hidden, this.#outputs, HIDDEN * (OBS + 1));
    const n = this.#atoms;
    const part = (a: number) => out.slice(a * n, (a + 1) * n);
    if (!this.#dueling) return Array.from({ length: ACTIONS }, (_, a) => part(a));
    const parts = Array.from({ length: ACTIONS }, (_, a) => part(1 + a));
    const counted = parts.filter((_, a) => legal[a] !== 0);
    const mean = (k: number) =>
      counted.reduce((sum, each) => sum + each[k]!, 0) / Math.max(counted.length, 1);
    return parts.map((each) => each.map((advantage, k) => part(0)[k]! + advantage - mean(k)));
  }

  #softmax(logits: readonly number[]): number[] {
    const most = Math.max(...logits);
    const all = logits.reduce((sum, each) => sum + Math.exp(each - most), 0);
    return logits.map((each) => Math.exp(each - most) / all);
  }
  #worth(part: readonly number[]): number {
    if (!this.#options.head) return part[0]!;
    const gap = (HIGH - LOW) / (ATOMS - 1);
    return this.#softmax(part).reduce((sum, p, k) => sum + p * (LOW + k * gap), 0);
  }

  /** Returns each row's target: a number, or a distribution. */
  targets(online: ArrayLike<number>, target: ArrayLike<number>, columns: Columns): number[][] {
    const { double = true } = this.#options;
    return Array.from(columns.rewards, (reward, i) => {
      const x = columns.nextObs.subarray(i * OBS, (i + 1) * OBS);
      const legal = columns.nextActionMask.subarray(i * ACTIONS, (i + 1) * ACTIONS);
      const discount = columns.discounts[i]!;
      const next = this.#pass(target, x, legal);
      const choice = double ? this.#pass(online, x, legal) : next;
      let best = -1;
      for (let a = 0; a < ACTIONS; a++)
        if (legal[a] && (best < 0 || this.#worth(choice[a]!) > this.#worth(choice[best]!)))
          best = a;
      if (!this.#options.head) return [reward + (best < 0 ? 0 : discount * next[best]![0]!)];
      const gap = (HIGH - LOW) / (ATOMS - 1);
      const goal = new Array<number>(ATOMS).fill(0);
      const from = best < 0 ? [1, 0, 0, 0] : this.#softmax(next[best]!);
      from.forEach((p, k) => {
        const z = Math.min(Math.max(reward + discount * (LOW + k * gap), LOW), HIGH);
        const place = (z - LOW) / gap;
        const left = Math.min(Math.floor(place), ATOMS - 2);
        goal[left]! += p * (1 - (place - left));
        goal[left + 1]! += p * (place - left);
      });
      return goal;
    });
  }

  /** Returns each row's loss, its error and the value of its action. */
  losses(online: ArrayLike<number>, targets: readonly number[][], columns: Columns) {
    return targets.map((goal, i) => {
      const x = columns.obs.subarray(i * OBS, (i + 1) * OBS);
      const legal = columns.actionMask.subarray(i * ACTIONS, (i + 1) * ACTIONS);
      const part = this.#pass(online, x, legal)[columns.actions[i]!]!;
      const value = this.#worth(part);
      if (this.#options.head) {
        const loss = this.#softmax(part).reduce((sum, p, k) => sum - goal[k]! * Math.log(p), 0);
        return { loss, error: loss, value };
      }
      const error = Math.abs(part[0]! - goal[0]!);
      return { loss: error <= 0.5 ? error ** 2 / 2 : 0.5 * (error - 0.25), error, value };
    });
  }
}

describe('DqnLearner with masks of legal actions', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  const batchOf = (columns: Columns, form?: Form) => batchIn(rig, columns, form);

  /** Makes a learner whose target network differs from its online network. */
  async function made(more: Partial<DqnOptions>, poison?: number): Promise<DqnLearner> {
    const learner = rig.keep(new DqnLearner(rig.device, options(more)));
    await learner.ready;
    const state = await learner.state();
    const other: Record<string, LearnerState[string]> = { ...state };
    const n = more.head ? ATOMS : 1;
    for (const [name, entry] of Object.entries(state)) {
      if (!/^(online|target)\./.test(name)) continue;
      const data = Float32Array.from(entry.data as Float32Array);
      // Larger numbers, so that means of advantages change which action is the best one.
      if (more.dueling && name.endsWith('.2.weight')) for (const i of data.keys()) data[i]! *= 4;
      if (name.startsWith('target'))
        for (const [i, x] of numbers(data.length, data.length).entries()) data[i]! += 0.6 * x;
      // The bias of an action reaches its value alone.
      if (poison !== undefined && name.endsWith('.2.bias'))
        for (const a of NEVER.map((each) => each + Number(more.dueling ?? false)))
          data.fill(poison, a * n, (a + 1) * n);
      other[name] = { ...entry, data };
    }
    learner.loadState(other);
    return learner;
  }
  /** Runs one update. Returns everything that it computes. */
  async function updated(learner: DqnLearner, batch: ReturnType<typeof batchOf>) {
    const rows = batch.rewards.shape[0] as number;
    const [out, loss, priorities] = [rig.zeros(2), rig.zeros(1), rig.zeros(rows)];
    const gradient = rig.zeros(learner.network.parameterCount);
    learner.update(rig.stream, batch, out, { priorities, record: { q: { gradient, loss } } });
    return {
      out: await out.toArray(),
      loss: await loss.toArray(),
      priorities: await priorities.toArray(),
      gradient: await gradient.toArray(),
      parameters: await learner.parameters.toArray(),
      target: await learner.target.toArray(),
    };
  }

  for (const [name, head] of Object.entries(heads))
    for (const double of [true, false])
      for (const [what, poison] of poisons)
        it(`${name}, double ${double}: loss and gradient agree with float64 if illegal actions have ${what} values`, async () => {
          const more = { ...head, double };
          const learner = await made(more, poison);
          const columns = rowsOf(3, ROWS);
          const [online, target] = [
            await learner.parameters.toArray(),
            await learner.target.toArray(),
          ];
          const got = await updated(learner, batchOf(columns));
          const model = new Model(more);
          const targets = model.targets(online, target, columns);
          const rows = model.losses(online, targets, columns);
          const mean = (of: readonly number[]) => of.reduce((a, b) => a + b, 0) / ROWS;
          const loss = mean(rows.map((row) => row.loss));
          expectClose(got.loss, [loss], 1e-5, 'loss');
          expectClose(got.out, [loss, mean(rows.map((row) => row.value))], 1e-5, 'scalars');
          expectClose(
            got.priorities,
            rows.map((row) => row.error),
            1e-5,
            'priorities',
          );
          const own = Float64Array.from(online);
          const slopes = [...own].map((value, i) => {
            if (!Number.isFinite(value) || value === Math.fround(1e30)) return 0;
            const at = (by: number) => {
              own[i] = value + by;
              const found = mean(model.losses(own, targets, columns).map((row) => row.loss));
              own[i] = value;
              return found;
            };
            return (at(1e-5) - at(-1e-5)) / 2e-5;
          });
          expectClose(got.gradient, slopes, 2e-5, 'gradient');
          // The masks decide, and not only at states that they leave empty.
          const free = model.targets(online, target, ones(columns));
          const differing = targets.filter(
            (goal, i) => i % 4 !== 3 && goal.some((x, k) => Math.abs(x - free[i]![k]!) > 1e-3),
          );
          if (poison === undefined) expect(differing.length).to.be.greaterThan(0);
        });

  for (const [name, head] of Object.entries(heads)) {
    it(`${name}: bits and bytes of masks give the same bits`, async () => {
      const columns = rowsOf(4, 2 * ROWS);
      const all = await Promise.all(
        (['uint32', 'bool', 'uint8', 'float32'] as const).map(async (form) =>
          updated(await made(head), batchOf(columns, form)),
        ),
      );
      for (const each of all) expect(each).to.deep.equal(all[0]);
    });

    it(`${name}: masks without illegal actions change nothing`, async () => {
      const columns = ones(rowsOf(5, 2 * ROWS));
      const { actionMask, nextActionMask, ...batch } = batchOf(columns);
      const plain = await updated(await made({ ...head, actionMask: false }), batch as never);
      const masked = await updated(await made(head), { ...batch, actionMask, nextActionMask });
      if (!head.dueling) return expect(masked).to.deep.equal(plain);
      // A mean over legal actions adds in another order than the dueling layer.
      expectClose(masked.loss, plain.loss, 1e-6, 'loss');
      expectClose(masked.priorities, plain.priorities, 3e-6, 'priorities');
      expectClose(masked.gradient, plain.gradient, 3e-6, 'gradient');
    });

    it(`${name}: a captured update, and one of two minibatches, give the bits of single updates`, async () => {
      const columns = rowsOf(6, 2 * ROWS);
      const batch = batchOf(columns);
      const [single, captured, both] = [await made(head), await made(head), await made(head)];
      const part = (k: number) =>
        Object.fromEntries(
          Object.entries(batch).map(([key, tensor]) => {
            const { shape, strides } = tensor;
            const own = [ROWS, ...shape.slice(1)];
            return [key, tensor.view({ shape: own, offset: k * ROWS * strides[0]!, strides })];
          }),
        );
      const out = rig.zeros(2);
      await rig.stream.synchronize();
      const replay = rig.captured((stream) => captured.update(stream, batch, out));
      both.update(rig.stream, batch, out);
      replay();
      for (const k of [0, 1]) single.update(rig.stream, part(k) as never, out);
      const wanted = await single.parameters.toArray();
      expect(wanted.every(Number.isFinite)).to.equal(true);
      expect(await captured.parameters.toArray()).to.deep.equal(wanted);
      expect(await both.parameters.toArray()).to.deep.equal(wanted);
    });

    it(`${name}: a state has the names of a learner without masks, and loads into either`, async () => {
      const [plain, masked] = [await made({ ...head, actionMask: false }), await made(head)];
      const state = await plain.state();
      expect(Object.keys(await masked.state())).to.deep.equal(Object.keys(state));
      masked.loadState(state);
      expect(await masked.state()).to.deep.equal(state);
      expect(masked.settings).to.deep.equal({ ...plain.settings, actionMask: true });
      expect(plain.settings).to.not.have.property('actionMask');
      // Both begin with the same weights.
      const [a, b] = [true, false].map((actionMask) =>
        rig.keep(new DqnLearner(rig.device, options({ ...head, actionMask }))),
      );
      expect(await a!.parameters.toArray()).to.deep.equal(await b!.parameters.toArray());
    });
  }

  it('a watch finds nothing in masks', async () => {
    for (const head of Object.values(heads)) {
      const learner = await made(head);
      const watch = learner.watch();
      learner.update(rig.stream, batchOf(rowsOf(2, ROWS)), rig.zeros(2));
      expect(await watch.first()).to.equal(null);
    }
  });

  it('masks of a scalar or categorical head cost two launches, and those of a dueling head save some', async function () {
    if (!ON_HOST) this.skip(); // nodes of the CPU device are launches
    const count = async (more: Partial<DqnOptions>, form?: Form) => {
      const learner = await made(more);
      const { actionMask, nextActionMask, ...rest } = batchOf(rowsOf(1, ROWS), form);
      const batch = more.actionMask === false ? rest : { ...rest, actionMask, nextActionMask };
      const out = rig.zeros(2);
      await rig.stream.synchronize();
      rig.stream.beginCapture();
      learner.update(rig.stream, batch, out);
      return rig.keep(rig.stream.endCapture()).nodeCount;
    };
    const counts: Record<string, number[]> = {};
    for (const [name, head] of Object.entries(heads))
      counts[name] = await Promise.all(
        [{ ...head, actionMask: false }, head].map((more) => count(more)),
      );
    expect(counts).to.deep.equal({
      scalar: [13, 15],
      dueling: [301, 33],
      categorical: [19, 21],
      'dueling and categorical': [307, 55],
    });
    expect(await count({}, 'bool')).to.equal(counts.scalar![1]);
    expect(await count({}, 'float32')).to.equal(counts.scalar![1]! - 1);
  });

  it('batches and options that do not fit are refused', async () => {
    const { actionMask, nextActionMask, ...batch } = batchOf(rowsOf(1, ROWS));
    const out = rig.zeros(2);
    const says = (learner: DqnLearner, given: object) => {
      const error = refusal(() => learner.update(rig.stream, given as never, out));
      return `${error.name}: ${error.message}`;
    };
    const plain = await made({ actionMask: false });
    expect(says(plain, { ...batch, nextActionMask })).to.equal(
      'TypeError: DqnLearner: this batch has nextActionMask, and the learner was made without masks; make it with the option actionMask: true',
    );
    plain.update(rig.stream, { ...batch, actionMask }, out);
    plain.update(rig.stream, { ...batch, nextActionMask: undefined }, out);
    const masked = await made({});
    expect(says(masked, batch)).to.match(
      /^TypeError: a DqnLearner batch needs a tensor 'nextActionMask'; this one has obs, /,
    );
    masked.update(rig.stream, { ...batch, nextActionMask }, out);
    const dueling = await made({ dueling: true });
    expect(says(dueling, { ...batch, nextActionMask })).to.match(
      /^TypeError: a DqnLearner batch needs a tensor 'actionMask'/,
    );
    const kinds = 'uint32 [8, 2] of bits, or bool, uint8 or float32 [8, 35]';
    const wrong = (dtype: DType, ...shape: number[]) =>
      says(masked, {
        ...batch,
        nextActionMask: rig.keep(rig.device.allocate({ shape, dtype })),
      });
    expect(wrong('int32', ROWS, 2)).to.equal(
      `TypeError: nextActionMask must be ${kinds}, got int32`,
    );
    expect(wrong('uint32', ROWS, ACTIONS)).to.equal(
      `RangeError: nextActionMask must be ${kinds}, got uint32 [8, 35]`,
    );
    expect(wrong('bool', ROWS, 2)).to.equal(
      `RangeError: nextActionMask must be ${kinds}, got bool [8, 2]`,
    );
    expect(wrong('uint32', 1, 2)).to.equal(
      `RangeError: nextActionMask must be ${kinds}, got uint32 [1, 2]`,
    );
    const make = (more: object) => {
      const error = refusal(() => new DqnLearner(rig.device, options(more)));
      return `${error.name}: ${error.message}`;
    };
    expect(make({ actionMask: 1 })).to.equal('TypeError: actionMask must be a boolean, got 1');
    expect(make({ actions: 4097 })).to.equal(
      'RangeError: actionMask: actions must be a whole number of at least 1 and at most 4096, got 4097',
    );
  });
});
