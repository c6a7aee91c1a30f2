/**
 * Tests the optional columns of a DQN batch: discounts, weights and priorities, and actions of any
 * dtype.
 */
import { expect } from 'chai';
import { type ArrayOf, type DType, dtypes } from '../../src/base/dtype.ts';
import { type DqnBatch, DqnLearner, type DqnOptions } from '../../src/entries/learner.ts';
import {
  type Device,
  openDevice,
  ReplayBuffer,
  ReplayPipeline,
  type Stream,
  type Tensor,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { type Batch, columns, randomBatch, referenceStep, small } from './dqn-reference.ts';
import { expectClose, ReferenceAdam } from './reference.ts';

const rows = 48;

describe('DqnLearner: per-row discounts, weights and priorities', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.createStream();
  });
  after(() => stream.close());

  const bits = async (tensor: Tensor) =>
    Buffer.from((await tensor.toArray(stream)).buffer).toString('hex');

  /** Writes the lists as columns of a wider table. Returns the table and the columns. */
  function wide(...lists: number[][]): { table: Tensor<'float32'>; parts: Tensor<'float32'>[] } {
    const [n, width] = [lists[0]?.length ?? 0, lists.length + 2];
    const values = new Float32Array(n * width).fill(-9);
    for (const [j, list] of lists.entries())
      for (const [i, value] of list.entries()) values[i * width + j + 1] = value;
    const table = device.allocate({ shape: [n, width] }).write(values, stream);
    return {
      table,
      parts: lists.map((_, j) => table.view({ shape: [n], offset: j + 1, strides: [width] })),
    };
  }

  /** The options without gamma, for batches with a discounts column. */
  const { gamma, ...ungiven } = small;

  /**
   * Creates a learner, its batch on the device, and an output. state() returns the bits of
   * parameters, target and output.
   */
  async function setUp(options: DqnOptions, batch: Batch) {
    const learner = new DqnLearner(device, options);
    const { packed, tensors } = columns(device, stream, batch);
    const out = device.allocate({ shape: [2] });
    await learner.ready;
    const state = async () => [
      await bits(learner.parameters),
      await bits(learner.target),
      await bits(out),
    ];
    const close = () => [learner, packed, out].forEach((each) => void each.close());
    return { learner, tensors, out, state, [Symbol.dispose]: close };
  }

  /**
   * Returns the states after two updates. Each `change` makes the batch of a new learner from the
   * same columns.
   */
  async function statesOf(
    options: DqnOptions,
    batch: Batch,
    ...change: ((of: Made['tensors']) => DqnBatch)[]
  ) {
    const states: string[][] = [];
    for (const make of change) {
      using made = await setUp(options, batch);
      for (let i = 0; i < 2; i++) made.learner.update(stream, make(made.tensors), made.out);
      states.push(await made.state());
    }
    return states;
  }
  type Made = Awaited<ReturnType<typeof setUp>>;

  const weightOf = (i: number) => Math.fround(((i * 5) % 7) / 4);
  const discountOf = (i: number) => Math.fround(0.9 ** (1 + (i % 3)) * Number(i % 5 > 0));

  for (const [name, variant] of [
    ['Huber', {}],
    ['the squared error', { huberDelta: 0 }],
    ['plain DQN with clipped gradients', { double: false, maxGradNorm: 0.05, huberDelta: 0.2 }],
  ] as const) {
    it(`update() with discounts, weights and priorities agrees with the reference: ${name}`, async () => {
      const options: DqnOptions = { ...ungiven, tau: 0.3, batchSize: rows, ...variant };
      const batch = randomBatch(9, rows, options.obsDim, options.actions);
      batch.discounts = batch.rewards.map((_, i) => discountOf(i));
      batch.weights = batch.rewards.map((_, i) => weightOf(i));
      using made = await setUp(options, batch);
      const { table, parts } = wide(batch.discounts, batch.weights, batch.rewards);
      const [discounts, weights, priorities] = parts as [
        Tensor<'float32'>,
        Tensor<'float32'>,
        Tensor<'float32'>,
      ];
      const { obs, nextObs, actions, rewards } = made.tensors;
      const online = [...made.learner.network.initialize(small.seed)];
      const target = [...online];
      const adam = new ReferenceAdam(online.length);
      for (let i = 0; i < 3; i++) {
        made.learner.update(
          stream,
          { obs, nextObs, actions, rewards, discounts, weights, priorities },
          made.out,
        );
        const step = referenceStep(made.learner.network, options, online, target, adam, batch);
        expectClose(
          await made.out.toArray(stream),
          [step.loss, step.meanQ],
          1e-5,
          `scalars of update ${i}`,
        );
        expectClose(
          await priorities.toArray(stream),
          step.errors,
          1e-5,
          `priorities of update ${i}`,
        );
      }
      expectClose(await made.learner.parameters.toArray(stream), online, 1e-5, 'parameters');
      expectClose(await made.learner.target.toArray(stream), target, 1e-5, 'target');
      // The other columns of the table must be unchanged.
      const all = await table.toArray(stream);
      for (let i = 0; i < rows; i++) expect([all[5 * i], all[5 * i + 4]]).to.deep.equal([-9, -9]);
      table.close();
    });
  }

  for (const variant of [{}, { huberDelta: 0 }, { maxGradNorm: 0.05 }]) {
    it(`update() gives the same bits with weights of 1 or a priorities output: ${JSON.stringify(variant)}`, async () => {
      const { table, parts } = wide(new Array(rows).fill(1), new Array(rows).fill(0));
      const [weights, priorities] = parts as [Tensor<'float32'>, Tensor<'float32'>];
      const [plain, ...others] = await statesOf(
        { ...small, ...variant },
        randomBatch(5, rows, small.obsDim, small.actions),
        (batch) => batch,
        (batch) => ({ ...batch, weights }),
        (batch) => ({ ...batch, priorities }),
        (batch) => ({ ...batch, weights, priorities }),
        (batch) => ({ ...batch, weights: undefined, priorities: undefined }),
      );
      for (const other of others) expect(other).to.deep.equal(plain);
      expect((await priorities.toArray(stream)).every((value) => value > 0)).to.equal(true);
      table.close();
    });
  }

  it('discounts of gamma · (1 − terminated) equal dones and truncated to the bit, and override them', async () => {
    const batch = randomBatch(7, rows, small.obsDim, small.actions);
    const ended = batch.dones.map((done, i) => done === 1 && batch.truncated[i] === 0);
    const counted = Math.fround(gamma);
    const { table, parts } = wide(
      ended.map((each) => (each ? 0 : counted)),
      ended.map((each) => (each ? 0 : counted ** 2)),
    );
    const [discounts, others] = parts as [Tensor<'float32'>, Tensor<'float32'>];
    const [plain] = await statesOf(small, batch, (each) => each);
    const [without, both, squared] = await statesOf(
      ungiven,
      batch,
      ({ obs, nextObs, actions, rewards }) => ({ obs, nextObs, actions, rewards, discounts }),
      (each) => ({ ...each, discounts }),
      (each) => ({ ...each, discounts: others }),
    );
    expect(without).to.deep.equal(plain);
    expect(both).to.deep.equal(plain);
    expect(squared).to.not.deep.equal(plain);
    table.close();
  });

  it('terminated, as float32 or uint8, equals dones and truncated to the bit, and overrides them', async () => {
    const batch = randomBatch(7, rows, small.obsDim, small.actions);
    const ended = batch.dones.map((done, i) => Number(done === 1 && batch.truncated[i] === 0));
    using floats = device.allocate({ shape: [rows] }).write(Float32Array.from(ended));
    using bytes = device.allocate({ shape: [rows], dtype: 'uint8' }).write(Uint8Array.from(ended));
    using none = device.allocate({ shape: [rows], dtype: 'uint8' });
    await device.currentStream.synchronize();
    for (const head of [{}, { head: { kind: 'categorical', min: -2, max: 2 } as const }]) {
      const [plain, of, ofBytes, both, never] = await statesOf(
        { ...small, ...head },
        batch,
        (each) => each,
        ({ obs, nextObs, actions, rewards }) => ({
          obs,
          nextObs,
          actions,
          rewards,
          terminated: floats,
        }),
        ({ obs, nextObs, actions, rewards }) => ({
          obs,
          nextObs,
          actions,
          rewards,
          terminated: bytes,
        }),
        (each) => ({ ...each, terminated: bytes }),
        (each) => ({ ...each, terminated: none }),
      );
      for (const same of [of, ofBytes, both]) expect(same).to.deep.equal(plain);
      expect(never).to.not.deep.equal(plain);
    }
  });

  it('actions of any integer dtype or bool equal float actions to the bit', async () => {
    const batch = randomBatch(6, rows, small.obsDim, small.actions);
    const kinds = (Object.keys(dtypes) as DType[]).filter((each) => !/bool|float/.test(each));
    const stored = kinds.map((dtype) => {
      const values = new dtypes[dtype].array(rows * 3) as ArrayOf<DType>;
      for (const [i, a] of batch.actions.entries())
        (values as Float32Array)[3 * i + 1] = (
          typeof values[0] === 'bigint' ? BigInt(a) : a
        ) as number;
      return device.allocate({ shape: [rows, 3], dtype }).write(values, stream);
    });
    const [floats, ...others] = await statesOf(
      small,
      batch,
      (each) => each,
      ...stored.map((table, i) => (each: Made['tensors']): DqnBatch => {
        const shape = i % 2 ? [rows] : [rows, 1];
        return {
          ...each,
          actions: table.view({ shape, offset: 1, strides: [3, 1].slice(0, shape.length) }),
        };
      }),
    );
    expect(others.length).to.equal(8);
    for (const [i, other] of others.entries()) expect(other, kinds[i]).to.deep.equal(floats);
    const two = { ...batch, actions: batch.actions.map((a) => a % 2) };
    using truth = device
      .allocate({ shape: [rows], dtype: 'bool' })
      .write(Uint8Array.from(two.actions), stream);
    const [index, choice] = await statesOf(
      small,
      two,
      (each) => each,
      (each) => ({ ...each, actions: truth }),
    );
    expect(choice).to.deep.equal(index);
    for (const table of stored) table.close();
  });

  it('one update of three minibatches with per-row columns equals three updates to the bit', async () => {
    const batch = randomBatch(5, rows, small.obsDim, small.actions);
    using actions = device.allocate({ shape: [rows], dtype: 'int64' });
    actions.write(BigInt64Array.from(batch.actions, BigInt), stream);
    const range = batch.actions.map((_, i) => i);
    const { table, parts } = wide(range.map(discountOf), range.map(weightOf), range, range);
    const [discounts, weights, ours, theirs] = parts as [
      Tensor<'float32'>,
      Tensor<'float32'>,
      Tensor<'float32'>,
      Tensor<'float32'>,
    ];
    using whole = await setUp(ungiven, batch);
    using part = await setUp(ungiven, batch);
    whole.learner.update(
      stream,
      { ...whole.tensors, actions, discounts, weights, priorities: ours },
      whole.out,
    );
    for (let start = 0; start < rows; start += 16) {
      const cut = <D extends DType>(tensor: Tensor<D>) =>
        tensor.view({
          shape: [16, ...tensor.shape.slice(1)],
          offset: start * (tensor.strides[0] as number),
          strides: tensor.strides,
        });
      const { obs, nextObs, rewards } = part.tensors;
      part.learner.update(
        stream,
        {
          obs: cut(obs),
          nextObs: cut(nextObs),
          rewards: cut(rewards),
          actions: cut(actions),
          discounts: cut(discounts),
          weights: cut(weights),
          priorities: cut(theirs),
        },
        part.out,
      );
    }
    expect(await bits(whole.learner.parameters)).to.equal(await bits(part.learner.parameters));
    expect(await bits(ours)).to.equal(await bits(theirs));
    table.close();
  });

  it('each launch of a captured update reads current weights and discounts, and writes priorities', async () => {
    const batch = randomBatch(3, rows, small.obsDim, small.actions);
    const range = batch.actions.map((_, i) => i);
    using eager = await setUp(ungiven, batch);
    using captured = await setUp(ungiven, batch);
    const tables = [0, 1].map(() => wide(range.map(discountOf), range.map(weightOf), range));
    using actions = device.allocate({ shape: [rows], dtype: 'uint8' });
    actions.write(Uint8Array.from(batch.actions), stream);
    const [first, second] = [eager, captured].map(({ tensors }, i): DqnBatch => {
      const [discounts, weights, priorities] = tables[i]?.parts as [
        Tensor<'float32'>,
        Tensor<'float32'>,
        Tensor<'float32'>,
      ];
      return { ...tensors, actions, discounts, weights, priorities };
    }) as [DqnBatch, DqnBatch];
    stream.beginCapture();
    captured.learner.update(stream, second, captured.out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    for (let i = 0; i < 3; i++) {
      for (const { table } of tables) {
        stream.launch('axpby', { tensors: [table, table], wholes: [table.size], reals: [0.9, 0] });
      }
      eager.learner.update(stream, first, eager.out);
      stream.replay(exec);
      expect(await captured.state()).to.deep.equal(await eager.state());
      expect(await bits(second.priorities as Tensor)).to.equal(
        await bits(first.priorities as Tensor),
      );
    }
    for (const { table } of tables) table.close();
  });

  it('an action out of range makes only its own priority non-finite, and the parameters stay finite', async () => {
    const batch = randomBatch(8, 16, small.obsDim, small.actions);
    using made = await setUp(small, batch);
    using actions = device.allocate({ shape: [16], dtype: 'uint32' });
    actions.write(Uint32Array.from(batch.actions).fill(2 ** 32 - 1, 3, 4), stream);
    using priorities = device.allocate({ shape: [16] });
    made.learner.update(stream, { ...made.tensors, actions, priorities }, made.out);
    const told = await priorities.toArray(stream);
    expect([...told].map(Number.isFinite)).to.deep.equal([...told].map((_, i) => i !== 3));
    expect(Number((await made.out.toArray(stream))[0])).to.be.NaN;
    expect([...(await made.learner.parameters.toArray(stream))].every(Number.isFinite)).to.equal(
      true,
    );
  });

  it('update() accepts the batch of a pipeline together with a priorities tensor', async () => {
    const buffer = ReplayBuffer.create({
      capacity: 100,
      fields: {
        obs: { shape: [3] },
        nextObs: { shape: [3] },
        actions: { shape: [], dtype: 'int32' },
        rewards: { shape: [] },
        discounts: { shape: [] },
        truncated: { shape: [], dtype: 'bool' },
      },
    });
    const numbers = randomBatch(2, 100, 3, 4);
    buffer.add({
      obs: Float32Array.from(numbers.obs.flat()),
      nextObs: Float32Array.from(numbers.nextObs.flat()),
      actions: Int32Array.from(numbers.actions),
      rewards: Float32Array.from(numbers.rewards),
      discounts: Float32Array.from(numbers.rewards, (_, i) => discountOf(i)),
      truncated: Uint8Array.from(numbers.truncated),
    });
    const own = openDevice(TESTED);
    using learner = new DqnLearner(own, ungiven);
    await learner.ready;
    using priorities = own.allocate({ shape: [32] });
    await using pipeline = await ReplayPipeline.open({
      buffer,
      device: TESTED,
      sampleCount: 32,
      placement: 'inline',
    });
    const captured = pipeline.capture(
      (batch, { stream, out }) => learner.update(stream, { ...batch, priorities }, out),
      { scalars: learner.scalars },
    );
    const { scalars } = await captured.run({ ticks: 5 });
    expect(Number.isFinite(scalars.loss)).to.equal(true);
    expect((await priorities.toArray()).every((value) => value > 0)).to.equal(true);
  });

  it('update() throws with the field name and the values for invalid tensors', async () => {
    using made = await setUp(small, randomBatch(5, 16, small.obsDim, small.actions));
    const { tensors } = made;
    const text = (change: object) => {
      const error = refusal(() => made.learner.update(stream, { ...tensors, ...change }, made.out));
      return `${error.name}: ${error.message}`;
    };
    using short = device.allocate({ shape: [15] });
    using pair = device.allocate({ shape: [16, 2] });
    using bytes = device.allocate({ shape: [16], dtype: 'uint8' });
    using pixels = device.allocate({ shape: [16, 3], dtype: 'uint8' });
    for (const key of ['discounts', 'weights', 'priorities']) {
      expect(text({ [key]: short })).to.equal(`RangeError: ${key} must be 16 or 16×1, got 15`);
      expect(text({ [key]: pair })).to.equal(`RangeError: ${key} must be 16 or 16×1, got 16×2`);
      expect(text({ [key]: bytes })).to.match(
        new RegExp(`^TypeError: ${key} must be a float32 tensor, got uint8; convert`),
      );
      expect(text({ [key]: [1] })).to.match(new RegExp(`^TypeError: .*${key}.*an array of 1`));
    }
    expect(text({ actions: bytes.view({ shape: [8] }) })).to.equal(
      'RangeError: actions must be 16 or 16×1, got 8',
    );
    expect(text({ actions: pixels })).to.equal('RangeError: actions must be 16 or 16×1, got 16×3');
    expect(text({ obs: pixels })).to.include(
      'obs must be a float32 tensor, got uint8; convert() of hotslot/learner',
    );
    expect(text({ nextObs: pixels })).to.include(
      'nextObs must be a float32 tensor, got uint8; convert()',
    );
    expect(text({ truncated: bytes })).to.include('truncated must be a float32 tensor, got uint8');
    expect(text({ dones: undefined })).to.match(
      /needs a tensor 'dones' \(or 'terminated', or 'discounts'\); this one has obs, nextObs/,
    );
    expect(text({ actions: Int32Array.of(1) })).to.match(
      /needs a tensor 'actions'; .* Int32Array of 1/,
    );
    bytes.close();
    expect(text({ actions: bytes })).to.include('closed');
  });
});
