/**
 * Tests a failing kernel on devices where it fails the whole device. Every stream must then throw,
 * nothing may hang, and everything can still be closed. The process must continue without the
 * device. Each test runs in its own process.
 */
import { expect } from 'chai';
import { nativeHandles } from '../../../src/device/native.ts';
import { type Device, DeviceError, type GraphExec, openDevice } from '../../../src/index.ts';
import { itAlone } from '../../rig/error-scope.ts';
import { refusal, rejection } from '../../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';
import { Thread } from '../thread.ts';
import { captured } from './graphs.ts';

/**
 * Makes a kernel fail and waits in another thread until the device reports the failure. This thread
 * may be capturing and must not query.
 */
async function lose(device: Device, failing?: GraphExec): Promise<void> {
  const stream = device.createStream();
  if (failing) stream.replay(failing);
  else stream.launch('fail', {});
  const error = await rejection(
    new Thread('untilFailed', { device: device.name, stream: stream.handle }).result(),
  );
  expect(error.code).to.equal('ERR_HOTSLOT_DEVICE');
  stream.close();
}

export function lostContract(device: () => Device, name: string): void {
  // Opens the CPU device before handles are counted. It stays open for the life of the process.
  before(() => openDevice('host:0').close());
  const lost = (title: string, test: () => Promise<void>) => itAlone(name, title, test);

  lost(
    'a lost device throws a DeviceError with one status and advice from every call',
    async () => {
      using stream = device().createStream();
      using event = device().createEvent();
      using tensor = await tensorOf(device(), [1]);
      using other = await tensorOf(device(), [1]);
      using exec = captured(stream, () => stream.fill(tensor, 1));
      stream.record(event);
      await stream.synchronize();
      await lose(device());
      const calls: [string, () => unknown][] = [
        ['query', () => stream.query()],
        ['record', () => stream.record(event)],
        ['launch', () => add(stream, tensor, other)],
        ['fill', () => stream.fill(tensor, 1)],
        ['copy', () => stream.copy(tensor, other)],
        ['write', () => tensor.write(Float32Array.of(1), stream)],
        ['replay', () => stream.replay(exec)],
        ['event', () => event.query()],
        ['allocate', () => device().allocate({ shape: [1] })],
        ['registerHost', () => device().registerHost(new Uint8Array(new SharedArrayBuffer(64)))],
      ];
      const statuses = new Set<number>();
      for (const [what, call] of calls) {
        const error = refusal(call) as DeviceError;
        expect(error, `${what}: ${error.message}`).to.be.instanceOf(DeviceError);
        expect([error.code, error.family]).to.deep.equal(['ERR_HOTSLOT_DEVICE', device().family]);
        expect(error.message, what).to.include(error.statusName);
        expect(error.advice, what).to.include('restart the process');
        statuses.add(error.status);
      }
      expect([...statuses], 'distinct statuses of one failure').to.have.length(1);
      expect(await rejection(stream.synchronize())).to.be.instanceOf(DeviceError);
      expect(await rejection(tensor.toArray(stream))).to.be.instanceOf(DeviceError);
      expect(await rejection(event.done())).to.be.instanceOf(DeviceError);
    },
  );

  lost(
    'a lost device rejects every pending wait, on the failed stream and on other streams',
    async () => {
      using bad = device().createStream();
      using held = device().createStream();
      using key = device().createStream();
      using word = await tensorOf(device(), [0], 'int32');
      using gate = await tensorOf(device(), [0], 'int32');
      using reached = device().createEvent();
      using apart = device().createEvent();
      using behind = device().createEvent();
      held.record(reached);
      held.launch('latch', { tensors: [word], wholes: [10_000] });
      held.record(apart);
      await until('the stream is held', () => reached.query());
      const waits = [apart.done(), held.synchronize()].map(rejection);
      // All work is enqueued before any of it fails.
      bad.launch('latch', { tensors: [gate], wholes: [10_000] });
      bad.launch('fail', {});
      bad.record(behind);
      key.fill(gate, 1);
      for (const error of await Promise.all([rejection(behind.done()), ...waits]))
        expect(error).to.be.instanceOf(DeviceError);
    },
  );

  lost(
    'an open capture can end after the device is lost, and launching an earlier graph throws',
    async () => {
      using stream = device().createStream();
      using bad = device().createStream();
      using tensor = await tensorOf(device(), [1, 1]);
      using exec = captured(stream, () => stream.fill(tensor, 1));
      using failing = captured(bad, () => bad.launch('fail', {}));
      stream.beginCapture();
      stream.fill(tensor, 1);
      await lose(device(), failing);
      try {
        stream.endCapture().close();
      } catch (error) {
        expect(error).to.be.instanceOf(DeviceError);
      }
      expect(stream.capturing).to.equal(false);
      expect(refusal(() => stream.replay(exec))).to.be.instanceOf(DeviceError);
    },
  );

  lost('a lost device throws in other threads, and after it is opened again', async () => {
    using stream = device().createStream();
    await lose(device());
    const elsewhere = await rejection(
      new Thread('query', { device: name, stream: stream.handle }).result(),
    );
    expect(elsewhere.code).to.equal('ERR_HOTSLOT_DEVICE');
    using again = openDevice(name);
    expect(refusal(() => again.allocate({ shape: [1] }))).to.be.instanceOf(DeviceError);
  });

  lost('close() is idempotent after the device is lost, and reports no failure', async () => {
    const stream = device().createStream();
    const event = device().createEvent({ timing: true });
    const tensor = await tensorOf(device(), [1]);
    const host = device().registerHost(new Uint8Array(new SharedArrayBuffer(64)));
    stream.beginCapture();
    stream.fill(tensor, 1);
    const graph = stream.endCapture();
    const exec = graph.instantiate();
    stream.replay(exec);
    stream.record(event);
    nativeHandles().releaseFailures();
    await lose(device());
    for (const part of [stream, event, tensor, host, graph, exec]) {
      part.close();
      part.close();
    }
    expect(nativeHandles().releaseFailures()).to.deep.equal([]);
  });

  lost('the CPU device still works after another device is lost', async () => {
    await lose(device());
    using host = openDevice('host:0');
    using tensor = await tensorOf(host, [2, 3]);
    add(host.currentStream, tensor, tensor);
    expect(await valuesOf(tensor)).to.deep.equal([4, 6]);
  });
}
