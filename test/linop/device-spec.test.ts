/** Tests which streams a transfer uses: the given ones, and the defaults. */
import { expect } from 'chai';
import { DeviceSpec } from '../../src/entries/linop.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import { closeDevices, deviceOf, first, places } from './places.ts';

describe('linop/device-spec', () => {
  after(closeDevices);
  it('a DeviceSpec is cpu unless a device is named or given', () => {
    for (const cpu of [new DeviceSpec(), new DeviceSpec(null), new DeviceSpec('cpu')]) {
      expect(cpu).to.include({
        device: 'cpu',
        type: 'cpu',
        name: 'cpu',
        computeStream: null,
        transferStream: null,
      });
      expect(refusal(() => cpu.current).message).to.include('no streams');
    }
    using spec = new DeviceSpec(first);
    expect([spec.name, spec.type]).to.deep.equal([first, first.split(':')[0]]);
    expect(new DeviceSpec(deviceOf(first)).device).to.equal(deviceOf(first));
  });

  it('p2pSetup() sets streams only between two devices, and keeps given streams', () => {
    const other = places.find((place) => place !== 'cpu' && place !== first) as string;
    const [here, there] = [deviceOf(first), deviceOf(other)];
    const spec = new DeviceSpec(here);
    spec.p2pSetup(new DeviceSpec());
    new DeviceSpec().p2pSetup(spec);
    expect([spec.computeStream, spec.transferStream]).to.deep.equal([null, null]);
    spec.p2pSetup(new DeviceSpec(there));
    expect(spec.computeStream?.handle).to.equal(here.currentStream.handle);
    expect(spec.transferStream?.handle).to.equal(DeviceSpec.getTransferStream(here, there).handle);

    using compute = here.createStream();
    using transfer = here.createStream();
    const given = new DeviceSpec(here, compute, transfer);
    given.p2pSetup(new DeviceSpec(there));
    expect([given.computeStream, given.transferStream]).to.deep.equal([compute, transfer]);
    const half = new DeviceSpec(here, null, transfer);
    half.p2pSetup(new DeviceSpec(there));
    expect(half.computeStream?.handle).to.equal(here.currentStream.handle);
    expect(half.transferStream).to.equal(transfer);
  });

  it('new DeviceSpec() throws for a stream of another device, with both names', () => {
    const other = places.find((place) => place !== 'cpu' && place !== first) as string;
    using stream = deviceOf(other).createStream();
    const before = openHandles();
    for (const [name, streams] of [
      [first, [stream]],
      [first, [null, stream]],
      ['cpu', [stream]],
    ] as const) {
      const error = refusal(() => new DeviceSpec(name, ...streams));
      expect(error).to.be.instanceOf(TypeError);
      expect(error.message).to.include(other).and.include(name);
    }
    expect(refusal(() => new DeviceSpec(first, 'fast' as never)).message).to.include("got 'fast'");
    expect(refusal(() => new DeviceSpec({} as never)).message).to.include('got an object');
    expect(
      refusal(() => new DeviceSpec(deviceOf(first)).p2pSetup('cpu' as never)).message,
    ).to.include("p2pSetup takes an opened device, got 'cpu'");
    expect(
      refusal(() => DeviceSpec.getTransferStream('host:0' as never, deviceOf(first))).message,
    ).to.include('host:0');
    const surplus = () =>
      new (DeviceSpec as unknown as new (...all: unknown[]) => unknown)('cpu', null, null, 1);
    expect(refusal(surplus).message).to.include('1 more: 1');
    expect(openHandles()).to.deep.equal(before);
  });
});
