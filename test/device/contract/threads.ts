/**
 * Tests several threads. Handles belong to the process, captures and current streams to a thread,
 * and pins end with their thread.
 */
import { expect } from 'chai';
import { nativeHandles } from '../../../src/device/native.ts';
import { waitEventSync } from '../../../src/device/open.ts';
import { newPoller } from '../../../src/device/transfer/native.ts';
import type { Device } from '../../../src/index.ts';
import { pinnedHandles } from '../../rig/handles.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, rejection } from '../../rig/refusal.ts';
import { tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';
import { Thread } from '../thread.ts';
import { captured } from './graphs.ts';

export function threadContract(device: () => Device): void {
  const run = (task: ConstructorParameters<typeof Thread>[0], handles: object = {}) =>
    new Thread(task, { device: device().name, ...handles }).result();

  it('handles made in one thread work in another, in every addon', async () => {
    const shared = new Float32Array(new SharedArrayBuffer(8));
    shared.set([3, 4]);
    using stream = device().createStream();
    using event = device().createEvent();
    using host = device().registerHost(shared);
    using memory = device().allocate({ shape: [2] });
    using out = await tensorOf(device(), [1, 1]);
    using exec = captured(stream, () =>
      stream.launch('axpby', { tensors: [out, memory], wholes: [2], reals: [10, 1] }),
    );
    const drained = await run('actors', {
      stream: stream.handle,
      event: event.handle,
      host: host.handle,
      memory: memory.handle,
      exec: exec.handle,
      bytes: 8,
    });
    expect(drained).to.equal(true);
    expect(await valuesOf(out, stream)).to.deep.equal([31, 41]);
  });

  it('handles closed in one thread are stale in another', async () => {
    const stream = device().createStream();
    expect(await run('query', { stream: stream.handle })).to.equal(true);
    stream.close();
    expect((await rejection(run('query', { stream: stream.handle }))).code).to.equal(
      'ERR_HOTSLOT_STALE_HANDLE',
    );
  });

  it('each thread has its own current stream, initially the shared default stream', async () => {
    using stream = device().createStream();
    const main = device().currentStream.handle;
    const other = await device().withStream(stream, () => run('current'));
    expect(other).to.deep.equal([main, true]);
  });

  it('waitEventSync() waits in a worker thread, and throws in the main thread', async () => {
    expect(await run('waitSync')).to.equal(true);
    using event = device().createEvent();
    expect(refusal(() => waitEventSync(device(), event, 1)).code).to.equal(
      'ERR_HOTSLOT_STATE_MAIN_THREAD',
    );
  });

  it('908: endCapture() throws in a thread that did not begin the capture', async () => {
    using stream = device().createStream();
    using tensor = device().allocate({ shape: [1] });
    stream.beginCapture();
    stream.fill(tensor, 1);
    const error = await rejection(run('endCapture', { stream: stream.handle }));
    expect([error.status, error.statusName]).to.deep.equal([908, 'STREAM_CAPTURE_WRONG_THREAD']);
    using graph = stream.endCapture();
    expect(graph.nodeCount).to.equal(1);
  });

  it('other threads can join a capture, and allocate while it is open', async () => {
    using origin = device().createStream();
    using side = device().createStream();
    using fork = device().createEvent();
    using join = device().createEvent();
    using tensor = device().allocate({ shape: [4], dtype: 'int32' });
    origin.beginCapture();
    origin.record(fork);
    const handles = {
      side: side.handle,
      fork: fork.handle,
      event: join.handle,
      memory: tensor.handle,
      bytes: 16,
    };
    expect(await run('joinCapture', handles)).to.equal(true);
    expect(await run('allocate')).to.equal(true);
    origin.wait(join);
    using graph = origin.endCapture();
    using exec = graph.instantiate();
    expect(await valuesOf(tensor)).to.deep.equal([0, 0, 0, 0]);
    origin.replay(exec);
    expect(await valuesOf(tensor, origin)).to.deep.equal([7, 7, 7, 7]);
  });

  it('a capture ends with its thread, and the stream can be used again', async () => {
    using stream = device().createStream();
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    expect(await run('beginCapture', { stream: stream.handle })).to.equal(true);
    await until('the capture is gone', () => !stream.capturing);
    using exec = captured(stream, () => stream.fill(tensor, 2));
    stream.replay(exec);
    expect(await valuesOf(tensor, stream)).to.deep.equal([2]);
  });

  it('the last unpin in another thread frees an event that the main thread closed', async () => {
    const { open } = nativeHandles().handleCount(nativeHandles().kinds.event);
    const event = device().createEvent();
    const words = new Int32Array(new SharedArrayBuffer(4));
    const holder = new Thread('letGo', { device: device().name, event: event.handle, words });
    await holder.next();
    event.close();
    expect(refusal(() => event.query()).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    expect(nativeHandles().handleCount(nativeHandles().kinds.event)).to.deep.equal({
      open: open + 1,
      pinned: 1,
    });
    Atomics.store(words, 0, 1);
    Atomics.notify(words, 0);
    await holder.result();
    expect(nativeHandles().handleCount(nativeHandles().kinds.event)).to.deep.equal({
      open,
      pinned: 0,
    });
  });

  it('close() in a worker thread returns after the last unpin', async () => {
    const event = device().createEvent();
    const [watch, times] = [new Int32Array(1), new Float64Array(1)];
    const poller = newPoller({
      device: device().handle,
      events: [event.handle],
      watch,
      times,
      sleepNs: 0,
      spinNs: 0,
    });
    const closer = new Thread('closesPinned', { device: device().name, event: event.handle });
    await until('the worker thread is closing the event', () => {
      try {
        event.query();
        return false;
      } catch {
        return true;
      }
    });
    poller.close();
    expect(await closer.result(), 'pinned events after close()').to.equal(0);
  });

  it('pins are released when their thread is terminated', async () => {
    using stream = device().createStream();
    using event = device().createEvent();
    using host = device().registerHost(new Float32Array(new SharedArrayBuffer(8)));
    using memory = device().allocate({ shape: [2] });
    using exec = captured(stream, () => stream.fill(memory, 1));
    const holder = new Thread('hold', {
      device: device().name,
      stream: stream.handle,
      event: event.handle,
      host: host.handle,
      memory: memory.handle,
      exec: exec.handle,
      words: new Int32Array(new SharedArrayBuffer(4)),
    });
    expect(await holder.next()).to.equal(3);
    expect(pinnedHandles()).to.equal(6);
    await holder.terminate();
    expect(pinnedHandles()).to.equal(0);
  });

  it('a thread that waits natively can be terminated, and other streams execute without its help', async () => {
    using stream = device().createStream();
    using event = device().createEvent();
    using free = device().createStream();
    using tensor = device().allocate({ shape: [1] });
    using latch = new Latch(device()).hold(stream);
    stream.record(event);
    await until('the stream is held', () => latch.reached);
    const waiter = new Thread('wait', { device: device().name, event: event.handle });
    await waiter.next();
    await waiter.terminate();
    free.fill(tensor, 1);
    await until('other work is done', () => free.query());
    // The event that the thread waited for is still not done.
    expect(event.query()).to.equal(false);
    latch.open();
    await stream.synchronize();
  });
}
