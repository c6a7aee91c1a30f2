/**
 * Tests the failure of a stream. Every later call on the stream must throw it, and other streams
 * must be unaffected.
 */
import { expect } from 'chai';
import { type Device, DeviceError, type Stream } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, rejection } from '../../rig/refusal.ts';
import { tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';
import { captured } from './graphs.ts';

/** Returns a stream that has failed. All of its work is over, and every call throws. */
async function failed(device: Device): Promise<Stream> {
  const stream = device.createStream();
  stream.launch('fail', {});
  await until('the stream has failed', () => {
    try {
      stream.query();
      return false;
    } catch {
      return true;
    }
  });
  return stream;
}

export function errorContract(device: () => Device): void {
  it('a failed stream throws a DeviceError with family, call, status and advice from every call', async () => {
    using stream = await failed(device());
    using event = device().createEvent();
    using other = device().createEvent();
    using tensor = device().allocate({ shape: [1] });
    using good = device().createStream();
    using exec = captured(good, () => good.fill(tensor, 1));
    const calls: [string, () => unknown][] = [
      ['record', () => stream.record(event)],
      ['query', () => stream.query()],
      ['wait', () => stream.wait(other)],
      ['launch', () => stream.launch('spin', { wholes: [1] })],
      ['fill', () => stream.fill(tensor, 1)],
      ['replay', () => stream.replay(exec)],
      ['beginCapture', () => stream.beginCapture()],
    ];
    for (const [name, call] of calls) {
      const error = refusal(call) as DeviceError;
      expect(error, name).to.be.instanceOf(DeviceError);
      expect([error.name, error.code, error.family]).to.deep.equal([
        'DeviceError',
        'ERR_HOTSLOT_DEVICE',
        device().family,
      ]);
      expect(error.status, name).to.be.a('number').that.is.greaterThan(0);
      for (const text of [error.call, error.statusName, error.advice])
        expect(text, name).to.be.a('string').that.is.not.empty;
      expect(error.message, name).to.include(error.statusName);
    }
    expect(await rejection(stream.synchronize())).to.be.instanceOf(DeviceError);
    expect(await rejection(tensor.toArray(stream))).to.be.instanceOf(DeviceError);
  });

  it('a failed kernel skips work enqueued after it, and later events reject with a DeviceError', async () => {
    using stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    using tensor = await tensorOf(device(), [1, 2]);
    using before = device().createEvent();
    using after = device().createEvent();
    await device().currentStream.synchronize();
    stream.record(before);
    stream.launch('fail', {});
    stream.fill(tensor, 9);
    stream.record(after);
    const waited = rejection(after.done());
    latch.open();
    await before.done();
    expect(before.query(), 'the event before the failed kernel is done').to.equal(true);
    expect(await waited).to.be.instanceOf(DeviceError);
    expect(refusal(() => after.query())).to.be.instanceOf(DeviceError);
    expect(await valuesOf(tensor)).to.deep.equal([1, 2]);
  });

  it('a failed kernel fails a stream that waits for an event after it, and no other stream', async () => {
    using bad = device().createStream();
    using depends = device().createStream();
    using apart = device().createStream();
    using latch = new Latch(device()).hold(bad);
    using event = device().createEvent();
    using done = device().createEvent();
    using tensor = await tensorOf(device(), [1]);
    using alone = await tensorOf(device(), [1]);
    bad.launch('fail', {});
    bad.record(event);
    depends.wait(event);
    depends.fill(tensor, 9);
    depends.record(done);
    apart.fill(alone, 5);
    latch.open();
    expect(await rejection(done.done())).to.be.instanceOf(DeviceError);
    expect(await valuesOf(tensor)).to.deep.equal([1]);
    expect(await valuesOf(alone, apart)).to.deep.equal([5]);
    expect(device().memoryInfo().free).to.be.greaterThan(0);
  });

  it('an event recorded again on a healthy stream completes without an error', async () => {
    using bad = device().createStream();
    using good = device().createStream();
    using latch = new Latch(device()).hold(bad);
    using event = device().createEvent();
    bad.launch('fail', {});
    bad.record(event);
    good.record(event);
    await event.done();
    latch.open();
    await until('the other stream has failed', () => {
      try {
        return bad.query() && false;
      } catch {
        return true;
      }
    });
    expect(event.query(), 'only the latest record counts').to.equal(true);
    good.wait(event);
    await good.synchronize();
  });

  it('a failed kernel in a graph fails the stream, and the graph can be launched on another', async () => {
    using bad = device().createStream();
    using good = device().createStream();
    using switched = await tensorOf(device(), [1, 1]);
    using exec = captured(good, () => {
      good.launch('axpby', { tensors: [switched, switched], wholes: [2], reals: [1, 1] });
      good.launch('fail', {});
      good.fill(switched, 9);
    });
    bad.replay(exec);
    expect(await rejection(bad.synchronize())).to.be.instanceOf(DeviceError);
    expect(await valuesOf(switched)).to.deep.equal([2, 2]);
    good.replay(exec);
    expect(await rejection(good.synchronize())).to.be.instanceOf(DeviceError);
    expect(await valuesOf(switched)).to.deep.equal([4, 4]);
  });

  it('close() is idempotent for a failed stream and for an event', async () => {
    const stream = await failed(device());
    const event = device().createEvent();
    expect(refusal(() => stream.record(event))).to.be.instanceOf(DeviceError);
    for (const part of [stream, event, stream, event]) part.close();
  });
}
