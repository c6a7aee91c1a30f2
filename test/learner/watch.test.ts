/**
 * Tests learner.watch(), which returns the first NaN with its update, network and layer, for eager
 * and captured updates.
 */
import { expect } from 'chai';
import { type ActorCriticBatch, DqnLearner, SacLearner } from '../../src/entries/learner.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { columns, randomBatch, small } from './dqn-reference.ts';

describe('learner.watch()', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.currentStream;
  });

  const sac = () =>
    new SacLearner(device, {
      obsDim: 2,
      actionDim: 1,
      batchSize: 4,
      actorHidden: [5],
      criticHidden: [6, 3],
    });
  const floats = (shape: number[], value: number) =>
    device
      .allocate({ shape })
      .write(new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(value));
  const made = (): ActorCriticBatch & Record<'dones' | 'truncated', Tensor<'float32'>> => ({
    obs: floats([8, 2], 0.5),
    nextObs: floats([8, 2], 0.25),
    actions: floats([8, 1], 0.1),
    rewards: floats([8], 1),
    dones: floats([8], 0),
    truncated: floats([8], 0),
  });
  const closed = (batch: object) => {
    for (const tensor of Object.values(batch)) (tensor as Tensor).close();
  };

  it('first() returns null while all values are finite, then the place of the first NaN', async () => {
    using learner = sac();
    const watch = learner.watch();
    using out = floats([learner.scalars.length], 0);
    const batch = made();
    for (let i = 0; i < 3; i++) learner.update(stream, batch, out);
    expect(await watch.first()).to.equal(null);
    // A NaN weight of the actor. The actor's output reads it first, and the targets of the critics
    // are made of this output.
    const state = await learner.state();
    const data = (state['actor.2.weight']?.data as Float32Array).slice();
    data[3] = Number.NaN;
    learner.loadState({ ...state, 'actor.2.weight': { dtype: 'float32', shape: [2, 5], data } });
    learner.update(stream, batch, out);
    const first = await watch.first();
    // An update has two minibatches, so gradient step 6 is the first one of update 3.
    expect(first).to.include({
      update: 6,
      tick: 3,
      network: 'critics.0',
      layer: '4: linear(3, 1)',
      what: 'gradient at the output',
    });
    expect(first?.text).to.match(
      /^update 6 \(tick 3\): the gradient at the output of critics\.0, layer 4: linear\(3, 1\), has NaN/,
    );
    closed(batch);
  });

  it('checks every `every` gradient steps in a captured update', async () => {
    using learner = sac();
    const watch = learner.watch({ every: 3 });
    await learner.ready;
    using out = floats([learner.scalars.length], 0);
    const batch = made();
    await stream.synchronize();
    stream.beginCapture();
    learner.update(stream, batch, out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    batch.obs.write(new Float32Array(16).fill(Number.POSITIVE_INFINITY));
    for (let i = 0; i < 2; i++) stream.replay(exec);
    // Gradient steps 2 and 3 belong to the second launch. Only step 3 is checked.
    const first = await watch.first();
    expect(first).to.include({
      update: 3,
      tick: 1,
      network: 'critics.0',
      layer: '0: linear(3, 6)',
      what: 'output',
    });
    closed(batch);
  });

  it('names the layers of a DqnLearner, and leaves its parameters equal to the bit', async () => {
    const batch = randomBatch(2, 16, small.obsDim, small.actions);
    using plain = new DqnLearner(device, small);
    using watching = new DqnLearner(device, small);
    const watch = watching.watch();
    const { packed, tensors } = columns(device, stream, batch);
    using out = floats([2], 0);
    for (const learner of [plain, watching]) learner.update(stream, tensors, out);
    expect([...(await watching.parameters.toArray())]).to.deep.equal([
      ...(await plain.parameters.toArray()),
    ]);
    expect(await watch.first()).to.equal(null);
    packed.write(new Float32Array(packed.size).fill(Number.NaN), stream);
    watching.update(stream, tensors, out);
    expect(await watch.first()).to.include({
      update: 1,
      network: 'online',
      layer: '0: linear(3, 11)',
      what: 'output',
    });
    packed.close();
  });

  it('finds nothing in a final state whose next observation is NaN', async () => {
    for (const learner of [
      sac(),
      new DqnLearner(device, { obsDim: 2, actions: 3, hidden: [5], batchSize: 4 }),
    ]) {
      const watch = learner.watch();
      const batch = { ...made(), discounts: floats([8], 0) };
      batch.nextObs.write(new Float32Array(16).fill(Number.NaN));
      if (learner instanceof DqnLearner) batch.actions.write(new Float32Array(8));
      using out = floats([learner.scalars.length], 0);
      learner.update(stream, batch, out);
      expect(await watch.first()).to.equal(null);
      closed(batch);
      learner.close();
    }
  });

  it('throws for invalid options, in a capture and after close()', async () => {
    using learner = new DqnLearner(device, small);
    expect(refusal(() => learner.watch({ every: 0 })).message).to.include('every must be');
    expect(refusal(() => learner.watch({ each: 1 } as never)).message).to.include(
      "watch: unknown option 'each'",
    );
    await stream.synchronize();
    stream.beginCapture();
    const error = refusal(() => learner.watch());
    stream.endCapture().close();
    expect([error.code, error.message]).to.deep.equal([
      'ERR_HOTSLOT_STATE_CAPTURE',
      'watch() allocates device memory, which a capture cannot contain; call watch() before capture()',
    ]);
    const watch = learner.watch();
    learner.close();
    expect(refusal(() => learner.watch()).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    expect(watch.closed).to.equal(true);
  });
});
