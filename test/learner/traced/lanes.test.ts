/** Captured updates on two streams give the bits of one stream. The CPU device has one stream. */
import { expect } from 'chai';
import { tracedDqn } from '../../../bench/traced-learners.ts';
import {
  CqlLearner,
  DiscreteSacLearner,
  DqnLearner,
  IqlLearner,
  type Learner,
  QrDqnLearner,
  SacLearner,
  Td3Learner,
  TqcLearner,
} from '../../../src/entries/learner.ts';
import {
  adam,
  describeLearner,
  linearSchedule,
  normal,
  parameter,
  TracedLearner,
  trace,
} from '../../../src/entries/trace.ts';
import type { Device, Tensor } from '../../../src/index.ts';
import { type LaneUse, laneDefaults } from '../../../src/learn/trace/plan/lanes.ts';
import type { InternalOptions } from '../../../src/learn/trace/trace.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { cases } from './product-cases.ts';
import { ACTIONS, numbers, OBS, Rig, ROWS } from './rig.ts';

const hidden = { actorHidden: [8, 7], criticHidden: [8, 7] };
const box = { obsDim: OBS, actionDim: ACTIONS, batchSize: ROWS, ...hidden };
const discrete = { obsDim: OBS, actions: ACTIONS, hidden: [8, 7], batchSize: ROWS };
const atoms = { kind: 'categorical', atoms: 5, min: -2, max: 2 } as const;

const builtIn: Readonly<Record<string, (device: Device) => Learner>> = {
  DQN: (device) => new DqnLearner(device, discrete),
  'dueling DQN': (device) => new DqnLearner(device, { ...discrete, dueling: true }),
  SAC: (device) => new SacLearner(device, box),
  FastSAC: (device) => new SacLearner(device, { ...box, layerNorm: true, critic: atoms }),
  TD3: (device) => new Td3Learner(device, box),
  'QR-DQN': (device) => new QrDqnLearner(device, { ...discrete, quantiles: 5 }),
  'discrete SAC': (device) => new DiscreteSacLearner(device, discrete),
  TQC: (device) => new TqcLearner(device, { ...box, quantiles: 5, drop: 1 }),
  IQL: (device) => new IqlLearner(device, box),
  CQL: (device) => new CqlLearner(device, { ...box, sampledActions: 2 }),
};

describe('captured updates on two streams', () => {
  let rig: Rig;
  beforeEach(function () {
    if (ON_HOST) this.skip();
    rig = new Rig();
  });
  afterEach(() => {
    laneDefaults.use = 'estimate';
    if (!ON_HOST) rig.close();
  });

  /** Runs three captured updates of two minibatches, and returns the state and scalars as text. */
  async function ran(name: keyof typeof builtIn, use: LaneUse, capture = true) {
    laneDefaults.use = use;
    const learner = rig.keep(builtIn[name]!(rig.device));
    await learner.ready;
    const rows = 2 * ROWS;
    const indexed = /DQN|discrete/.test(name);
    const batch = {
      obs: rig.zeros(rows, OBS),
      nextObs: rig.zeros(rows, OBS),
      actions: indexed ? rig.zeros(rows) : rig.zeros(rows, ACTIONS),
      rewards: rig.zeros(rows),
      discounts: rig.zeros(rows),
    };
    const out = rig.zeros(learner.scalars.length);
    const update = () => learner.update(rig.stream, batch as never, out);
    const run = capture ? rig.captured(update) : update;
    const texts: string[] = [];
    for (let k = 0; k < 3; k++) {
      for (const [i, [field, tensor]] of Object.entries(batch).entries()) {
        const values = numbers(tensor.size, 10 * k + i);
        tensor.write(field === 'actions' && indexed ? values.map((_, at) => at % ACTIONS) : values);
      }
      run();
      texts.push(`${await out.toArray()}`);
    }
    // Replays do not advance a count that nothing reads.
    for (const [part, { data }] of Object.entries(await learner.state()))
      if (part !== 'updates') texts.push(`${part} ${data}`);
    return texts;
  }

  for (const name of Object.keys(builtIn))
    it(`${name}: two streams give the bits of one, and of issued updates`, async () => {
      const issued = await ran(name, 'none', false);
      expect(issued.join()).to.not.match(/NaN/);
      for (const use of ['none', 'all', 'estimate'] as const)
        expect(await ran(name, use), use).to.deep.equal(issued);
    });

  for (const [name, describeCase] of Object.entries(cases))
    it(`${name}: two streams give the bits of one, also with poisoned memory`, async () => {
      const { batch: fields } = describeCase();
      const columns = Object.fromEntries(
        Object.keys(fields).map((field, i) => {
          const width = { obs: OBS, nextObs: OBS, actions: 3 }[field];
          const indexed = field === 'actions' && 'discounts' in fields;
          const shape = width && !indexed ? [ROWS, width] : [ROWS];
          const values = numbers(
            shape.reduce((a, b) => a * b, 1),
            i,
          );
          return [field, rig.tensor(shape, indexed ? values.map((_, at) => at % 3) : values)];
        }),
      );
      let wanted: string | null = null;
      for (const options of [
        { lanes: 'none' },
        { lanes: 'all' },
        { lanes: 'all', poison: true },
        { lanes: 'estimate' },
      ]) {
        const made = rig.keep(new TracedLearner(rig.device, describeCase(), options));
        await made.ready;
        const out = rig.zeros(made.scalars.length);
        const replay = rig.captured((stream) => made.update(stream, columns as never, out));
        for (let k = 0; k < 3; k++) replay();
        const found = `${await out.toArray()} ${await made.parameters.toArray()}`;
        wanted ??= found;
        expect(found, JSON.stringify(options)).to.equal(wanted);
      }
    });

  /** Traces two chains of ops that meet, and returns a function that captures a run. */
  const chains = (options: InternalOptions = { lanes: 'all' }) => {
    const x = rig.tensor([4, 3], numbers(12, 1));
    const w = rig.tensor([3, 3], numbers(9, 2));
    const made = rig.keep(
      trace(
        rig.device,
        { x: [4, 3], w: { shape: [3, 3], contiguous: true } },
        ({ x: a, w: b }) => {
          const one = a.matmul(b).sum({ axis: 1 }).tanh();
          const two = a.matmul(b.mul(2)).max({ axis: 1 }).exp();
          return one.mul(two).add(normal([4]).mul(0));
        },
        options,
      ),
    );
    const replays = () => rig.captured((stream) => made.run(stream, { x, w }));
    return { made, x, w, replays };
  };

  it('a section has a second stream only inside of captures', async () => {
    const { made, x, w, replays } = chains();
    expect(String(made.plan)).to.match(/^\d+ side +/m);
    made.run(rig.stream, { x, w });
    const issued = await made.outputs.toArray();
    made.outputs.write(new Float32Array(4));
    replays()();
    expect([...(await made.outputs.toArray())]).to.deep.equal([...issued]);
    expect(String(chains({ lanes: 'none' }).made.plan)).to.not.match(/^\d+ side /m);
  });

  /** Returns how often a stream waits while `fn` runs. `fail` makes one of these waits throw. */
  function waits(fn: () => void, fail = 0): number {
    const prototype = Object.getPrototypeOf(rig.stream);
    const { wait } = prototype;
    let count = 0;
    prototype.wait = function (...args: unknown[]) {
      if (++count === fail) throw new Error('a wait fails');
      return wait.apply(this, args);
    };
    try {
      fn();
    } finally {
      prototype.wait = wait;
    }
    return count;
  }

  it('a plan can be captured again after a capture failed between its launches', async () => {
    const { made, x, w, replays } = chains();
    made.run(rig.stream, { x, w });
    const wanted = [...(await made.outputs.toArray())];
    const run = () => made.run(rig.stream, { x, w });
    const all = waits(replays);
    expect(all).to.be.above(1);
    for (let fail = 1; fail <= all; fail++) {
      rig.stream.beginCapture();
      expect(() => waits(run, fail)).to.throw('a wait fails');
      // The side stream may have work that nothing waits for.
      try {
        rig.stream.endCapture().close();
      } catch (error) {
        expect(String(error)).to.match(/not joined back/);
      }
      made.outputs.write(new Float32Array(4));
      replays()();
      expect([...(await made.outputs.toArray())], `wait ${fail}`).to.deep.equal(wanted);
    }
  });

  it('a run uses one stream if it reads an input that the plan writes', async () => {
    const made = rig.keep(
      new TracedLearner(
        rig.device,
        describeLearner({
          name: 'shares',
          rows: 1,
          batch: { x: [] },
          parameters: { a: parameter({ initial: 1 }) },
          optimizers: { a: adam({ learningRate: linearSchedule({ from: 1, to: 0, steps: 9 }) }) },
          update: (_, { x }, { a }) => ({ minimize: { a: a.mul(x.sum()).tanh() } }),
        }),
        { lanes: 'all' },
      ),
    );
    await made.ready;
    const out = rig.zeros(1);
    const waited = (x: Tensor) =>
      waits(() => rig.captured((stream) => made.update(stream, { x }, out)));
    const { learningRate } = made.optimizer('a') as unknown as { learningRate: Tensor };
    expect([waited(rig.zeros(1)) > 0, waited(learningRate)]).to.deep.equal([true, 0]);
  });

  it('the estimate gives double DQN a second stream, except on Level Zero', () => {
    const sizes = { obs: 4, actions: 2, hidden: [120, 84], rows: 128 };
    const { plan } = rig.keep(tracedDqn(rig.device, sizes, true));
    expect(/^\d+ side /m.test(String(plan))).to.equal(rig.device.family !== 'xpu');
    expect(plan.depth).to.be.below(plan.nodes);
  });
});
