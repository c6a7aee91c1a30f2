/** Tests which threads share transfer streams, and when the streams are closed. */
import { expect } from 'chai';
import { DeviceSpec, ToDevice } from '../../src/entries/linop.ts';
import { DeviceError, openDevice, type Tensor } from '../../src/index.ts';
import { Thread } from '../device/thread.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { behind, first, paired, second } from './places.ts';

describe('linop: transfer streams', () => {
  // No other test in this process opens these two devices.
  const [a, b] = ON_HOST ? ['host:6', 'host:7'] : [first, second];

  it('are one per ordered pair of devices, the same in every thread', async function () {
    if (!paired) this.skip();
    using source = openDevice(a);
    using target = openDevice(b);
    using again = openDevice(a);
    const words = new Int32Array(new SharedArrayBuffer(4));
    const { handle } = DeviceSpec.getTransferStream(source, target);
    expect(DeviceSpec.getTransferStream(again, target).handle).to.equal(handle);
    expect(DeviceSpec.getTransferStream(target, source).handle).to.not.equal(handle);
    const thread = new Thread('transferStream', { device: a as string, other: b as string, words });
    expect(await thread.next()).to.equal(handle);
    await thread.terminate();
  });

  it('close when no thread has the source device open', async function () {
    if (!ON_HOST) this.skip(); // other code has a GPU open
    const [source, target] = [openDevice('host:4'), openDevice('host:5')];
    const words = new Int32Array(new SharedArrayBuffer(4));
    const before = openHandles().stream as number;
    DeviceSpec.getTransferStream(source, target).close();
    expect(openHandles().stream).to.equal(before + 1);
    const thread = new Thread('transferStream', { device: 'host:4', other: 'host:5', words });
    const handle = await thread.next();
    source.close();
    expect(openHandles().stream).to.equal(before + 1);
    const again = openDevice('host:4');
    expect(DeviceSpec.getTransferStream(again, target).handle).to.equal(handle);
    again.close();
    await thread.terminate();
    expect(openHandles().stream).to.equal(before);
    target.close();
  });

  it('are replaced after forward() has thrown their DeviceError, and given streams are not affected', async function () {
    if (!ON_HOST) this.skip(); // a failed kernel loses the whole GPU
    const [source, target] = [openDevice('host:4'), openDevice('host:5')];
    using x = source.allocate({ shape: [4] });
    using late = source.createStream();
    using arrival = target.createStream();
    using latch = new Latch(source).hold(late);
    late.launch('fail', {});
    using start = behind(late);
    const op = new ToDevice(source, new DeviceSpec(target, arrival));
    using y = op.forward(x, { startEvent: start }) as Tensor;
    latch.open();
    expect(await rejection(arrival.synchronize())).to.be.instanceOf(DeviceError);
    using other = new ToDevice(source, target); // uses the stream that failed
    const failed = op.ispec.transferStream?.handle;
    expect(refusal(() => op.forward(x))).to.be.instanceOf(DeviceError);
    expect(op.ispec.transferStream?.handle).to.not.equal(failed);
    expect(refusal(() => other.forward(x)).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    using again = other.forward(x) as Tensor;
    expect(await valuesOf(again)).to.deep.equal([0, 0, 0, 0]);
    expect(y.closed).to.equal(false);

    using own = source.createStream();
    using z = new ToDevice(new DeviceSpec(source, null, own), target).forward(x) as Tensor;
    expect(await valuesOf(z)).to.deep.equal([0, 0, 0, 0]);
    for (const each of [source, target]) each.close();
  });
});
