/**
 * Tests that a learner warns once of a loaded action that is outside the learner's action space.
 */
import { expect } from 'chai';
import type { NamedTensors, TensorData } from '../../src/entries/formats.ts';
import { DqnLearner, type Learner, SacLearner, Td3Learner } from '../../src/entries/learner.ts';
import { openDevice, ReplayBuffer, ReplayPipeline, TrajectoryBuffer } from '../../src/index.ts';
import { warningsOf } from '../rig/warnings.ts';

const ROWS = 8;
const column = (values: number[]): TensorData => ({
  dtype: 'float32',
  shape: [values.length, 1],
  data: Float32Array.from(values),
});
const flags = (at: number): TensorData => ({
  dtype: 'bool',
  shape: [ROWS],
  data: Uint8Array.from({ length: ROWS }, (_, i) => Number(i === at)),
});
/** Returns the data of one terminated episode. `odd` is the action of row 5. */
const data = (usual: number, odd: number): NamedTensors => ({
  observations: column(Array.from({ length: ROWS }, (_, i) => i / 8)),
  next_observations: column(Array.from({ length: ROWS }, (_, i) => (i + 1) / 8)),
  actions: column(Array.from({ length: ROWS }, (_, i) => (i === 5 ? odd : usual))),
  rewards: { dtype: 'float32', shape: [ROWS], data: new Float32Array(ROWS) },
  terminals: flags(ROWS - 1),
  timeouts: flags(-1),
});

const rows = () => ReplayBuffer.offPolicy({ capacity: 64, obsDim: 1, actionDim: 1 });
function steps() {
  const fields = { obs: { shape: [1], observation: true }, actions: { shape: [1] } } as const;
  const buffer = TrajectoryBuffer.create({ capacity: 64, lanes: 1, fields });
  return { buffer, view: buffer.transitions() };
}
const sources = {
  rows: () => ({ buffer: rows() }),
  'rows that the device keeps': () => ({ buffer: rows(), rows: 'device' as const }),
  steps,
  'steps that the device keeps': () => ({ ...steps(), rows: 'device' as const }),
};

const sizes = { obsDim: 1, batchSize: 4 };
const actorCritic = { ...sizes, actionDim: 1, actorHidden: [4], criticHidden: [4] };
const learners: Record<
  string,
  {
    usual: number;
    odd: number;
    words: RegExp;
    make: (device: ReturnType<typeof openDevice>) => Learner;
  }
> = {
  'DqnLearner, an index': {
    usual: 1,
    odd: 3,
    words: /^DqnLearner: actions of row 5\b.* is 3: an action is an index from 0 to 2\. load\(\)/,
    make: (device) => new DqnLearner(device, { ...sizes, hidden: [4], actions: 3 }),
  },
  'DqnLearner, a fraction': {
    usual: 1,
    odd: 0.5,
    words:
      /^DqnLearner: actions of row 5\b.* is 0\.5: an action is an index from 0 to 2\. load\(\)/,
    make: (device) => new DqnLearner(device, { ...sizes, hidden: [4], actions: 3 }),
  },
  'Td3Learner, its own box': {
    usual: -2,
    odd: -2.5,
    words: /^Td3Learner: actions of row 5\b.* holds -2\.5 as number 0: the box is -2 to 2\. Scale/,
    make: (device) => new Td3Learner(device, { ...actorCritic, actionLow: -2, actionHigh: 2 }),
  },
  'SacLearner, the usual box': {
    usual: 1,
    odd: 1.5,
    words: /^SacLearner: actions of row 5\b.* holds 1\.5 as number 0: the box is -1 to 1\. Scale/,
    make: (device) => new SacLearner(device, actorCritic),
  },
};

/** Returns the warnings while two learners each capture updates over these rows. */
async function heard(
  source: keyof typeof sources,
  make: (typeof learners)[string]['make'],
  load: () => Parameters<ReplayBuffer['load']>,
) {
  return warningsOf('LearnerWarning', async () => {
    const given = sources[source]();
    expect(await given.buffer.load(...load())).to.equal(ROWS);
    using device = openDevice('cpu');
    using learner = make(device);
    await learner.ready;
    await using pipeline = await ReplayPipeline.open({
      ...given,
      device: 'cpu',
      placement: 'inline',
      sampleCount: 8,
    } as never);
    for (let captures = 0; captures < 2; captures++)
      pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
        scalars: learner.scalars,
      });
    await pipeline.run({ ticks: 3 });
  });
}

describe('learners and loaded actions', () => {
  for (const [name, { usual, odd, words, make }] of Object.entries(learners))
    it(`${name}: emits one LearnerWarning with the row of an action outside the action space`, async () => {
      const [first, ...others] = await heard('rows', make, () => [data(usual, odd)]);
      expect(first).to.match(words);
      expect(others).to.deep.equal([]);
      expect(await heard('rows', make, () => [data(usual, usual)])).to.deep.equal([]);
    });

  for (const source of Object.keys(sources) as (keyof typeof sources)[])
    it(`emits one LearnerWarning in a pipeline of ${source}`, async () => {
      const { make, words } = learners['SacLearner, the usual box']!;
      const told = await heard(source, make, () => [data(0.5, 1.5)]);
      expect(told).to.have.length(1);
      expect(told[0]).to.match(words);
      expect(await heard(source, make, () => [data(0.5, -1)])).to.deep.equal([]);
      // load() knows the action space and has checked the actions, so the learner does not warn.
      const wider = { actionSpace: { low: -2, high: 2 } };
      expect(await heard(source, make, () => [data(0.5, 1.5), wider])).to.deep.equal([]);
    });
});
