/**
 * Tests what a transfer waits for, and what waits for it. The tests hold streams to show the order.
 */
import { expect } from 'chai';
import { nativeDevices } from '../../src/device/native.ts';
import { Chain, DeviceSpec, ToDevice } from '../../src/entries/linop.ts';
import type { Device, Stream, Tensor } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { until } from '../rig/until.ts';
import {
  behind,
  closeDevices,
  deviceOf,
  first,
  operand,
  paired,
  Scale,
  second,
  soil,
  valuesIn,
} from './places.ts';

const LENGTH = 20_000;
const ones = new Float32Array(LENGTH).fill(1);

describe('linop: the order of transfers', () => {
  if (!paired) {
    it.skip('there is only one device of the family');
    return;
  }
  after(closeDevices);
  let here: Device;
  let there: Device;
  let op: ToDevice;
  let x: Tensor;
  beforeEach(async () => {
    [here, there] = [deviceOf(first), deviceOf(second)];
    op = new ToDevice(here, there, ['N']);
    x = operand(first, ones, [LENGTH]) as Tensor;
    await here.currentStream.synchronize();
    await soil(there, LENGTH);
  });
  afterEach(() => x.close());

  /** Runs work on a new stream of each device. Earlier work that may run has run after that. */
  const turn = async () => {
    for (const device of [here, there]) {
      using stream = device.createStream();
      using word = device.allocate({ shape: [1] });
      for (let i = 0; i < 3; i++) {
        stream.fill(word, i);
        await stream.synchronize();
      }
    }
  };
  const only = async (tensor: Tensor, stream?: Stream) => [
    ...new Set(await valuesOf(tensor, stream)),
  ];

  it('the copy waits for the input, the target waits for the copy, and the CPU does not block', async () => {
    const transfer = op.ispec.transferStream as Stream;
    using latch = new Latch(here).hold(here.currentStream);
    here.currentStream.fill(x, 5);
    using y = op.forward(x) as Tensor;
    using copied = behind(transfer);
    using sum = there.allocate({ shape: [LENGTH] });
    there.currentStream.copy(sum, y);
    using summed = behind(there.currentStream);
    await turn();
    expect([copied.query(), summed.query()]).to.deep.equal([false, false]);
    latch.open();
    expect(await only(sum)).to.deep.equal([5]);
    expect(await only(y)).to.deep.equal([5]);
  });

  it('the target waits for a held copy, and the source stream continues', async () => {
    const transfer = op.ispec.transferStream as Stream;
    using latch = new Latch(here).hold(transfer);
    using y = op.forward(x) as Tensor;
    using read = behind(there.currentStream);
    using own = behind(here.currentStream);
    await until('the source has gone on', () => own.query());
    await turn();
    expect(read.query()).to.equal(false);
    latch.open();
    expect(await only(y)).to.deep.equal([1]);
  });

  it('the copy waits for the start event, not for later work of the source', async () => {
    using start = behind(here.currentStream);
    using latch = new Latch(here).hold(here.currentStream);
    using y = op.forward(x, { startEvent: start }) as Tensor;
    using copied = behind(there.currentStream);
    await until('the copy is there', () => copied.query());
    expect(await only(y)).to.deep.equal([1]);
    using held = behind(here.currentStream);
    expect(held.query()).to.equal(false);
    latch.open();
    await held.done();
  });

  it('the copy waits for a start event that is not done', async () => {
    using side = here.createStream();
    using latch = new Latch(here).hold(side);
    side.fill(x, 6);
    using start = behind(side);
    using y = op.forward(x, { startEvent: start }) as Tensor;
    using copied = behind(there.currentStream);
    await turn();
    expect(copied.query()).to.equal(false);
    latch.open();
    expect(await only(y)).to.deep.equal([6]);
  });

  it('a chain passes the start event to its first operator, and later transfers wait for their source', async () => {
    const chain = new Chain(
      op,
      new Scale(second, 2, ['N']),
      op.adjoint(),
      new Scale(first, 10, ['N']),
    );
    await soil(here, LENGTH);
    using start = behind(here.currentStream);
    // The first transfer begins at the start event, so it does not wait for the source's latch. The
    // target's latch holds the computation.
    using sources = new Latch(here).hold(here.currentStream);
    using targets = new Latch(there).hold(there.currentStream);
    using y = chain.forward(x, { startEvent: start }) as Tensor;
    expect(y.device.name).to.equal(first);
    using arrived = behind(op.ispec.transferStream as Stream);
    using returned = behind(op.ospec.transferStream as Stream);
    await until('the first copy is there', () => arrived.query());
    await turn();
    expect(returned.query()).to.equal(false);
    targets.open();
    await until('the way back is done', () => returned.query());
    using computed = behind(here.currentStream);
    await turn();
    expect(computed.query()).to.equal(false);
    sources.open();
    expect(await only(y)).to.deep.equal([20]);
  });

  for (const [what, by, make] of [
    ['no transfer', 2, () => new Scale(first, 2)],
    ['a transfer that moves nothing', 1, () => new ToDevice(here, here)],
  ] as const) {
    it(`the current stream waits for the start event if a chain’s first operator is ${what}`, async () => {
      using side = here.createStream();
      using latch = new Latch(here).hold(side);
      side.fill(x, 4);
      using start = behind(side);
      using y = new Chain(make(), op).forward(x, { startEvent: start }) as Tensor;
      using copied = behind(there.currentStream);
      await turn();
      expect(copied.query()).to.equal(false);
      latch.open();
      expect(await only(y)).to.deep.equal([4 * by]);
      const entering = new Chain(new ToDevice('cpu', here), op);
      expect(refusal(() => entering.forward(ones, { startEvent: start })).message).to.include(
        'input is on cpu',
      );
    });
  }

  it('the order is the same through pinned memory when devices cannot reach each other', async () => {
    const core = nativeDevices();
    const { reaches } = core;
    core.reaches = () => false;
    try {
      using latch = new Latch(here).hold(here.currentStream);
      here.currentStream.fill(x, 5);
      using y = op.forward(x) as Tensor;
      using got = behind(there.currentStream);
      await turn();
      expect(got.query()).to.equal(false);
      latch.open();
      expect(await only(y)).to.deep.equal([5]);
    } finally {
      core.reaches = reaches;
    }
  });

  it('an input that is closed while the copy is held is still copied', async () => {
    using latch = new Latch(here).hold(op.ispec.transferStream as Stream);
    const input = operand(first, ones, [LENGTH]) as Tensor;
    using y = op.forward(input) as Tensor;
    input.close();
    using other = here.allocate({ shape: [LENGTH], zeroed: false });
    here.currentStream.fill(other, 9);
    await turn();
    latch.open();
    expect(await only(y)).to.deep.equal([1]);
  });

  it('a pending copy does not overwrite memory of its closed output that was allocated again', async () => {
    using latch = new Latch(here).hold(op.ispec.transferStream as Stream);
    (op.forward(x) as Tensor).close();
    using next = there.allocate({ shape: [LENGTH], zeroed: false });
    using side = there.createStream();
    side.fill(next, 3);
    await side.synchronize();
    latch.open();
    await (op.ispec.transferStream as Stream).synchronize();
    expect(await only(next, side)).to.deep.equal([3]);
  });

  it('withStream() selects the stream that the copy waits for and the stream that waits for it', async () => {
    using mine = here.createStream();
    using yours = there.createStream();
    using latch = new Latch(here).hold(mine);
    mine.fill(x, 8);
    using y = here.withStream(mine, () => there.withStream(yours, () => op.forward(x))) as Tensor;
    using got = behind(yours);
    await turn();
    expect(got.query()).to.equal(false);
    expect(there.currentStream.query()).to.equal(true);
    latch.open();
    expect(await only(y, yours)).to.deep.equal([8]);
  });

  it('a transfer uses the streams of its DeviceSpecs instead of the current streams', async () => {
    using compute = here.createStream();
    using transfer = here.createStream();
    using arrival = there.createStream();
    const given = new ToDevice(
      new DeviceSpec(here, compute, transfer),
      new DeviceSpec(there, arrival),
      ['N'],
    );
    using latch = new Latch(here).hold(compute);
    compute.fill(x, 2);
    using y = given.forward(x) as Tensor;
    using copied = behind(transfer);
    using got = behind(arrival);
    await turn();
    expect([copied.query(), got.query(), there.currentStream.query()]).to.deep.equal([
      false,
      false,
      true,
    ]);
    latch.open();
    expect(await only(y, arrival)).to.deep.equal([2]);
  });

  it('forward() from cpu copies the values when called, and a readback ignores later writes', async () => {
    const entering = new ToDevice('cpu', there, ['N']);
    using latch = new Latch(there).hold(there.currentStream);
    const values = ones.slice();
    using y = entering.forward(values) as Tensor;
    values.fill(-1);
    const home = entering.adjoint().forward(y);
    expect(home).to.be.instanceOf(Promise);
    there.currentStream.fill(y, 9);
    latch.open();
    expect(await valuesIn(await home)).to.deep.equal(ones);
  });
});
