/**
 * Tests what only the CPU device promises: several separate memories, and an executor that
 * executes all enqueued work without help of the caller.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { type Device, type DeviceInfo, listDevices, openDevice } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { add, tensorOf, valuesOf } from '../rig/tensors.ts';
import { until } from '../rig/until.ts';

describe('CPU devices', () => {
  let device: Device;
  let peer: Device;
  beforeEach(() => {
    device = openDevice('host:0');
    peer = openDevice('host:1');
  });

  it('are named host:0 to host:7, cpu opens host:0, and openDevice() throws for other names', () => {
    expect(openDevice('cpu').name).to.equal('host:0');
    expect(openDevice('host:0').handle).to.equal(device.handle);
    expect(openDevice('host:7')).to.include({ name: 'host:7', family: 'host', index: 7 });
    for (const name of ['host:8', 'host:-1', 'host:01', 'host:', 'host:1x', 'Host:0', '', 'gpu']) {
      const error = refusal(() => openDevice(name));
      expect([error.code, error instanceof RangeError], name).to.deep.equal([
        'ERR_HOTSLOT_UNKNOWN_DEVICE',
        true,
      ]);
      expect(error.message).to.include(`'${name}'`).and.include('host:7');
    }
    expect(refusal(() => openDevice(3 as never))).to.be.instanceOf(TypeError);
  });

  it('are listed by listDevices(), which gives the reason for each unavailable family', () => {
    const all = listDevices();
    expect(all.find((each) => each.name === 'host:0')).to.include({
      family: 'host',
      available: true,
    });
    for (const family of ['cuda', 'rocm', 'xpu']) {
      const info = all.find((each) => each.family === family) as DeviceInfo;
      if (info.available) continue;
      expect(info.reason, family).to.match(/\w+ \w+/);
      const error = refusal(() => openDevice(family));
      expect([error.code, error.message.includes(family)]).to.deep.equal([
        'ERR_HOTSLOT_UNAVAILABLE',
        true,
      ]);
    }
  });

  it('have separate memories and copy between them', async () => {
    using here = await tensorOf(device, [1, 2, 3]);
    using there = peer.allocate({ shape: [3] });
    using stream = peer.createStream();
    using ready = device.createEvent();
    device.currentStream.record(ready);
    stream.wait(ready);
    stream.copy(there, here);
    expect(await valuesOf(there, stream)).to.deep.equal([1, 2, 3]);
    expect(there.device.name).to.equal('host:1');
    const error = refusal(() => device.withStream(stream, () => 1));
    expect(error.message).to.include('host:1').and.include('host:0');
  });

  it('have one current stream each', () => {
    expect(device.currentStream.handle).to.not.equal(peer.currentStream.handle);
    using stream = peer.createStream();
    peer.withStream(stream, () => expect(device.currentStream.handle).to.not.equal(stream.handle));
  });

  it('never execute work in the call that enqueues it', async () => {
    using latch = new Latch(device);
    using stream = device.createStream();
    using tensor = device.allocate({ shape: [1] });
    latch.hold(stream);
    for (let i = 1; i <= 5; i++) stream.fill(tensor, i);
    // If the stream executed in the calling thread, all of its work would be done by now, including
    // the held kernel.
    expect(stream.query()).to.equal(false);
    latch.open();
    await stream.synchronize();
    expect(await valuesOf(tensor, stream)).to.deep.equal([5]);
  });

  it('complete a readback while every thread of the executor pool is held', async () => {
    using latch = new Latch(device);
    using free = device.createStream({ priority: -1 });
    using tensor = device.allocate({ shape: [1], dtype: 'int32' });
    const held = [];
    for (let i = 0; i < 16; i++) {
      const stream = device.createStream();
      using inside = device.createEvent();
      stream.record(inside);
      latch.hold(stream);
      await until('a held stream has started', () => inside.query());
      held.push(stream);
    }
    free.fill(tensor, 5);
    expect(await valuesOf(tensor, free)).to.deep.equal([5]);
    // On a busy machine, a thread may execute the fill just before its kernel holds it. So the test
    // does not expect that the fill waits.
    expect(held.some((stream) => stream.query())).to.equal(false);
    latch.open();
    for (const stream of held) await stream.synchronize();
    for (const stream of held) stream.close();
  });

  it('complete readbacks of one stream while another executes graphs of 2,000 nodes', async () => {
    using stream = device.createStream();
    using other = device.createStream();
    using y = device.allocate({ shape: [1000] });
    using x = await tensorOf(device, Array(1000).fill(1));
    stream.beginCapture();
    for (let i = 0; i < 2000; i++) add(stream, y, x);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    for (let i = 0; i < 10; i++) {
      stream.replay(exec);
      using small = await tensorOf(device, [i]);
      expect(await valuesOf(small, other)).to.deep.equal([i]);
    }
    expect((await valuesOf(y, stream))[999]).to.equal(20_000);
  });

  it('leave no handles of other kinds open after 2,000 streams are created and closed', async () => {
    const before = openHandles();
    for (let i = 0; i < 2000; i++) device.createStream().close();
    using stream = device.createStream();
    await stream.synchronize();
    expect({ ...openHandles(), stream: 0 }).to.deep.equal({ ...before, stream: 0 });
  });

  const losses = {
    'ends with its process': ['exit', 3],
    'ends with its thread': ['thread', 0],
    'ends with a thread whose pipeline runs a long graph': ['pipeline', 0],
    'is closed while a copy is queued': ['closed', 0],
    'is garbage-collected while a copy is queued': ['collected', 0],
  } as const;
  for (const [how, [argument, code]] of Object.entries(losses)) {
    itAll(`access no freed memory when registered host memory ${how}`, () => {
      const script = fileURLToPath(new URL('./lender.js', import.meta.url));
      const { status, signal, stderr } = spawnSync(process.execPath, [script, argument], {
        encoding: 'utf8',
      });
      expect({ status, signal, stderr }).to.deep.equal({ status: code, signal: null, stderr: '' });
    });
  }
});
