/**
 * Tests a DQN update against the same update in float64, and captured against eager updates. Also
 * tests minibatches, target networks and invalid options.
 */
import { expect } from 'chai';
import type { Device, Stream, Tensor } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { DqnLearner, type DqnOptions } from '../../src/entries/learner.ts';
import { Latch } from '../rig/latch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { type Batch, columns, randomBatch, referenceStep, small } from './dqn-reference.ts';
import { expectClose, ReferenceAdam } from './reference.ts';

describe('DqnLearner', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.createStream();
  });
  after(() => stream.close());

  /** Creates a learner, its batch as packed rows on the device, and a tensor for the scalars. */
  async function setUp(options: DqnOptions, batch: Batch) {
    const learner = new DqnLearner(device, options);
    const { packed, tensors } = columns(device, stream, batch);
    const out = device.allocate({ shape: [2] });
    await learner.ready;
    const close = () => [learner, packed, out].forEach((each) => void each.close());
    return { learner, tensors, out, close, [Symbol.dispose]: close };
  }
  const bits = async (tensor: Tensor) => new Uint8Array((await tensor.toArray(stream)).buffer);

  const variants: [string, Partial<DqnOptions>][] = [
    ['double DQN with Huber', {}],
    ['plain DQN', { double: false }],
    ['the mean squared error', { huberDelta: 0 }],
    ['a small Huber threshold', { huberDelta: 0.1 }],
    ['tanh', { activation: 'tanh' }],
    ['clipped gradients', { maxGradNorm: 0.05 }],
  ];
  for (const [name, variant] of variants) {
    it(`three updates agree with the reference: ${name}`, async () => {
      const options = { ...small, tau: 0.3, ...variant };
      const batch = randomBatch(9, options.batchSize, options.obsDim, options.actions);
      using made = await setUp(options, batch);
      const { learner, tensors, out } = made;
      const online = [...learner.network.initialize(options.seed)];
      const target = [...online];
      const adam = new ReferenceAdam(online.length);
      for (let i = 0; i < 3; i++) {
        learner.update(stream, tensors, out);
        const { loss, meanQ } = referenceStep(
          learner.network,
          options,
          online,
          target,
          adam,
          batch,
        );
        expectClose(await out.toArray(stream), [loss, meanQ], 1e-5, `scalars of update ${i}`);
      }
      expectClose(await learner.parameters.toArray(stream), online, 1e-5, 'parameters');
      expectClose(await learner.target.toArray(stream), target, 1e-5, 'target');
    });
  }

  it('launching a captured update equals eager updates to the bit', async () => {
    const options = {
      ...small,
      obsDim: 4,
      actions: 2,
      hidden: [120, 84],
      batchSize: 64,
      maxGradNorm: 1,
    };
    const batch = randomBatch(3, 128, 4, 2);
    using eager = await setUp(options, batch);
    using captured = await setUp(options, batch);
    stream.beginCapture();
    captured.learner.update(stream, captured.tensors, captured.out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    expect(graph.nodeCount).to.be.at.least(2 * 15);
    for (let i = 0; i < 4; i++) {
      eager.learner.update(stream, eager.tensors, eager.out);
      stream.replay(exec);
      expect(await bits(captured.out)).to.deep.equal(await bits(eager.out));
    }
    expect(await bits(captured.learner.parameters)).to.deep.equal(
      await bits(eager.learner.parameters),
    );
    expect(await bits(captured.learner.target)).to.deep.equal(await bits(eager.learner.target));
  });

  it('one update of three minibatches equals three updates, and returns the means of their scalars', async () => {
    const batch = randomBatch(5, 48, small.obsDim, small.actions);
    using whole = await setUp(small, batch);
    using parts = await setUp(small, batch);
    whole.learner.update(stream, whole.tensors, whole.out);
    const means = [0, 0];
    for (let start = 0; start < 48; start += 16) {
      const slice = Object.fromEntries(
        Object.entries(parts.tensors).map(([name, t]) => {
          const shape = [16, t.shape[1] as number];
          return [
            name,
            t.view({ shape, offset: start * (t.strides[0] as number), strides: t.strides }),
          ];
        }),
      ) as unknown as typeof parts.tensors;
      parts.learner.update(stream, slice, parts.out);
      const [loss, meanQ] = await parts.out.toArray(stream);
      means[0] = (means[0] as number) + Number(loss) / 3;
      means[1] = (means[1] as number) + Number(meanQ) / 3;
    }
    expect(await bits(whole.learner.parameters)).to.deep.equal(
      await bits(parts.learner.parameters),
    );
    expectClose(await whole.out.toArray(stream), means, 1e-6, 'scalars');
  });

  it('the target network follows every second gradient step when targetEvery is 2', async () => {
    using made = await setUp(
      { ...small, targetEvery: 2 },
      randomBatch(5, 16, small.obsDim, small.actions),
    );
    const { learner, tensors, out } = made;
    const first = await bits(learner.target);
    learner.update(stream, tensors, out);
    expect(await bits(learner.target)).to.deep.equal(first);
    learner.update(stream, tensors, out);
    const second = await bits(learner.parameters);
    expect(await bits(learner.target)).to.deep.equal(second);
    learner.update(stream, tensors, out);
    expect(await bits(learner.target)).to.deep.equal(second);
    expect(await bits(learner.parameters)).to.not.deep.equal(second);
  });

  it('learns the reward of each action when gamma is 0', async () => {
    const batch = randomBatch(8, 64, 3, 4);
    batch.rewards = batch.actions.map((a) => a / 4 - 0.5);
    using made = await setUp({ ...small, gamma: 0, batchSize: 64, epsilon: 1e-8, tau: 1 }, batch);
    const { learner, tensors, out } = made;
    for (let i = 0; i < 400; i++) learner.update(stream, tensors, out);
    const [loss] = await out.toArray(stream);
    expect(Number(loss)).to.be.below(1e-3);
  });

  it('an action out of range makes the loss NaN and leaves the parameters finite', async () => {
    const batch = randomBatch(8, 16, 3, 4);
    batch.actions[3] = 4;
    using made = await setUp(small, batch);
    made.learner.update(stream, made.tensors, made.out);
    expect(Number((await made.out.toArray(stream))[0])).to.be.NaN;
    expect(
      [...(await made.learner.parameters.toArray(stream))].every((v) => Number.isFinite(v)),
    ).to.equal(true);
  });

  it('update() waits until the initial weights are written, and throws in a capture before then', async () => {
    using writer = device.createStream();
    using latch = new Latch(device).hold(writer);
    const batch = randomBatch(5, 16, small.obsDim, small.actions);
    using learner = device.withStream(writer, () => new DqnLearner(device, small));
    const { packed, tensors } = columns(device, stream, batch);
    using out = device.allocate({ shape: [2] });
    using other = device.createStream();
    other.beginCapture();
    expect(() => learner.update(other, tensors, out)).to.throw('await learner.ready');
    other.endCapture().close();
    let waits = 0;
    const watched = new Proxy(stream, {
      get(target, key) {
        if (key === 'wait') waits++;
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    learner.update(watched, tensors, out);
    const done = stream.query();
    latch.open();
    await learner.ready;
    expect({ waits, done }).to.deep.equal({ waits: 1, done: false });
    using made = await setUp(small, batch);
    made.learner.update(stream, made.tensors, made.out);
    expect(await bits(learner.parameters)).to.deep.equal(await bits(made.learner.parameters));
    packed.close();
  });

  it('throws with the values for invalid options and batches, and throws after close()', async () => {
    using made = await setUp(small, randomBatch(5, 16, small.obsDim, small.actions));
    const { learner, tensors, out } = made;
    const make = (options: object) => () => new DqnLearner(device, { ...small, ...options });
    const update = (change: object) => () => learner.update(stream, { ...tensors, ...change }, out);
    const row = (n: number, width: number) =>
      tensors.obs.view({ shape: [n, width], strides: tensors.obs.strides });
    expect(make({ tau: 0.1, targetEvery: 3 })).to.throw(RangeError, 'tau (0.1) or targetEvery (3)');
    expect(make({ gamma: 1.5 })).to.throw(RangeError, 'gamma must be within [0, 1], got 1.5');
    expect(make({ nStep: 3 })).to.throw(
      TypeError,
      /unknown option 'nStep'.*Give the batch `discounts`, gamma\^k/,
    );
    expect(make({ hidden: [0] })).to.throw(RangeError, 'hidden[0]');
    expect(make({ batchSize: 2.5 })).to.throw(RangeError, '2.5');
    expect(update({ obs: row(15, 3) })).to.throw(
      RangeError,
      'a multiple of batchSize 16 rows, got 15',
    );
    expect(update({ nextObs: row(16, 2) })).to.throw(RangeError, 'nextObs must be 16×3, got 16×2');
    expect(update({ rewards: row(16, 3) })).to.throw(
      RangeError,
      'rewards must be 16 or 16×1, got 16×3',
    );
    expect(() => learner.update(stream, tensors, out.view({ shape: [1] }))).to.throw(
      RangeError,
      'loss, meanQ',
    );
    made.close();
    expect(update({})).to.throw('this learner is closed');
    expect(() => learner.update(stream, {} as never, out)).to.throw('this learner is closed');
  });
});
