/**
 * Tests prefetch and advice for one tensor: their effect, what they ignore, and the values in each
 * error.
 */
import { expect } from 'chai';
import { describeValue } from '../../src/base/checks.ts';
import { nativeMemory } from '../../src/device/native.ts';
import {
  adviseManagedTensorAccessedBy,
  adviseManagedTensorPreferredLocation,
  prefetchManagedTensor,
} from '../../src/entries/memory.ts';
import { CpuTensor, DeviceError, openDevice } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { noted, pooled } from './managed.ts';

const calls = {
  prefetchManagedTensor,
  adviseManagedTensorPreferredLocation,
  adviseManagedTensorAccessedBy,
};

describe('memory/managed-tensor', () => {
  const pool = pooled();

  it('prefetchManagedTensor() moves pages in stream order, and keeps their values', async () => {
    const { device } = pool();
    using stream = device.createStream();
    using tensor = pool().allocate({ shape: [3000] });
    stream.fill(tensor, 3);
    for (const where of device.traits.movesPages
      ? [device.index, -1, device.index]
      : [device.index]) {
      prefetchManagedTensor(tensor, { device: where, stream });
      await stream.synchronize();
      if (device.traits.movesPages) expect(device.residency(tensor).location).to.equal(where);
    }
    expect(new Set(await valuesOf(tensor))).to.deep.equal(new Set([3]));
  });

  it('the advise functions set the preferred location and the devices with access', () => {
    const { device } = pool();
    const { index } = device;
    using tensor = pool().allocate({ shape: [3000] });
    adviseManagedTensorPreferredLocation(tensor, { device: index });
    adviseManagedTensorAccessedBy(tensor, { device: index });
    if (!device.traits.movesPages) return;
    adviseManagedTensorPreferredLocation(tensor, { device: -1 });
    if (ON_HOST) adviseManagedTensorAccessedBy(tensor, { device: 5 });
    expect(device.residency(tensor)).to.deep.equal({
      location: -2,
      preferred: -1,
      accessedBy: ON_HOST ? [0, 5] : [index],
    });
  });

  it('every function ignores null, undefined and empty tensors before it checks the device', () => {
    using plain = pool().device.allocate({ shape: [0, 4] });
    const closed = pool().allocate({ shape: [0] });
    closed.close();
    const nothing = [
      null,
      undefined,
      plain,
      closed,
      new CpuTensor(new Float32Array(0)),
      new Float32Array(0),
    ];
    for (const call of Object.values(calls))
      for (const each of nothing)
        for (const device of [0, 99, 'no']) call(each, { device: device as number });
    prefetchManagedTensor(null, undefined as never);
  });

  for (const [name, call] of Object.entries(calls)) {
    it(`${name} throws for a device that does not exist, with the value and the device count`, () => {
      using tensor = pool().allocate({ shape: [4] });
      const { family } = pool().device;
      const last = refusal(() => openDevice(`${family}:99`)).message;
      const count = Number(/there (?:is|are) (\d+) device/.exec(last)?.[1]);
      for (const device of [-2, count, 99, 0.5, Number.NaN]) {
        const error = refusal(() => call(tensor, { device }));
        expect([error.name, error.code]).to.deep.equal(['RangeError', 'ERR_HOTSLOT_RANGE']);
        expect(error.message)
          .to.include(`one of the ${count} ${family} devices`)
          .and.include(`got ${device}`);
      }
      for (const device of [undefined, '0', null, 1n, [1, 2, 3], {}]) {
        const error = refusal(() => call(tensor, { device: device as never }));
        expect([error.name, error.message.includes(`(${describeValue(device)})`)]).to.deep.equal([
          'TypeError',
          true,
        ]);
      }
      expect(refusal(() => call(tensor, { device: 0, devices: 1 } as never)).message).to.match(
        /unknown option 'devices'/,
      );
      expect(refusal(() => call(tensor, undefined as never)).message).to.match(
        /takes an options object/,
      );
    });

    it(`${name} throws for a tensor outside managed memory, with its shape and dtype`, () => {
      using plain = pool().device.allocate({ shape: [2, 3], dtype: 'int32' });
      const message = (t: unknown) => {
        const error = refusal(() => call(t as never, { device: 0 }));
        expect([error.name, error.code], error.message).to.deep.equal([
          'TypeError',
          'ERR_HOTSLOT_ARGUMENT',
        ]);
        return error.message;
      };
      expect(message(plain)).to.match(/2×3 int32 on .*createUnifiedMempool/);
      expect(message(new CpuTensor(new Float64Array(6), [3, 2]))).to.include(
        'a cpu tensor of 3×2 float64',
      );
      expect(message(new Uint8Array(7))).to.include('Uint8Array of 7');
      expect(message('tensor')).to.match(/got 'tensor'$/);
      expect(message([1, 2, 3])).to.match(/got an array of 3$/);
      expect(message({ shape: [1, 2], dtype: {} })).to.match(/got an object$/);
    });

    it(`${name} throws for a closed tensor`, () => {
      const tensor = pool().allocate({ shape: [4] });
      tensor.close();
      expect(refusal(() => call(tensor, { device: 0 })).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    });
  }

  it('adviseManagedTensorAccessedBy() throws for −1, the CPU', () => {
    using tensor = pool().allocate({ shape: [4] });
    const error = refusal(() => adviseManagedTensorAccessedBy(tensor, { device: -1 }));
    expect([error.code, error.message.includes('CPU')]).to.deep.equal(['ERR_HOTSLOT_RANGE', false]);
    expect(error.message).to.include('got -1');
  });

  it('prefetchManagedTensor() throws a short error for an invalid stream', () => {
    using tensor = pool().allocate({ shape: [4] });
    const message = (stream: unknown) =>
      refusal(() => prefetchManagedTensor(tensor, { device: -1, stream: stream as never })).message;
    expect(message({})).to.equal('stream must be a stream, got an object');
    expect(message([1, 2])).to.equal('stream must be a stream, got an array of 2');
  });

  it('prefetchManagedTensor() uses the current stream when stream is omitted or null', () => {
    const { device } = pool();
    using tensor = pool().allocate({ shape: [4] });
    const { stream, asked } = noted(device.createStream());
    device.withStream(stream, () => prefetchManagedTensor(tensor, { device: device.index }));
    device.withStream(stream, () =>
      prefetchManagedTensor(tensor, { device: device.index, stream: null }),
    );
    const once = [0, 16, device.index];
    expect(asked).to.deep.equal([once, once]);
  });

  (ON_HOST ? it : it.skip)(
    'prefetchManagedTensor() throws for a stream of another device, with both names',
    () => {
      using other = openDevice('host:1');
      using tensor = pool().allocate({ shape: [4] });
      const error = refusal(() =>
        prefetchManagedTensor(tensor, { device: 0, stream: other.currentStream }),
      );
      expect([error.name, error.message]).to.deep.equal([
        'TypeError',
        'a stream of host:1 cannot prefetch a tensor of host:0',
      ]);
      expect(
        refusal(() => prefetchManagedTensor(tensor, { device: 0, stream: 5 as never })).name,
      ).to.equal('TypeError');
    },
  );

  it('a DeviceError names shape, dtype, address and bytes, and has the driver error as its cause', () => {
    const { device } = pool();
    using tensor = pool().allocate({ shape: [4, 8] });
    const part = tensor.view({ shape: [2, 8], offset: 16 });
    const address = (nativeMemory().address(tensor.handle) + 64).toString(16);
    for (const [what, call] of [
      [
        'the prefetch to device',
        (stream: object) => prefetchManagedTensor(part, { device: device.index, ...stream }),
      ],
      [
        'advice to prefer device',
        () => adviseManagedTensorPreferredLocation(part, { device: device.index }),
      ],
      ['advice that device', () => adviseManagedTensorAccessedBy(part, { device: device.index })],
    ] as const) {
      using stream = device.createStream();
      stream.beginCapture();
      const error = refusal(() => call({ stream }));
      refusal(() => stream.endCapture());
      expect(error, error.message).to.be.instanceOf(DeviceError);
      expect([error.status, error.statusName]).to.deep.equal([900, 'STREAM_CAPTURE_UNSUPPORTED']);
      for (const word of [what, '2×8', 'float32', '64 bytes', `0x${address}`])
        expect(error.message).to.include(word);
      expect(error.cause).to.be.instanceOf(DeviceError);
    }
  });
});
