/**
 * Tests what a capture accepts and rejects, with CUDA's error numbers. After each rejection the
 * stream must be usable again.
 */
import { expect } from 'chai';
import type { Device, DeviceEvent, Stream, Tensor } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, refusesWith } from '../../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../../rig/tensors.ts';
import { captured } from './graphs.ts';

interface Parts extends Disposable {
  origin: Stream;
  side: Stream;
  fork: DeviceEvent;
  join: DeviceEvent;
  a: Tensor;
  b: Tensor;
}

async function parts(device: Device): Promise<Parts> {
  const [origin, side] = [device.createStream(), device.createStream()];
  const [fork, join] = [device.createEvent(), device.createEvent()];
  const [a, b] = [await tensorOf(device, [1, 2]), await tensorOf(device, [10, 20])];
  const all = [origin, side, fork, join, a, b];
  const close = () => {
    for (const part of all) part.close();
  };
  return { origin, side, fork, join, a, b, [Symbol.dispose]: close };
}

/** Checks that the stream can capture and execute again. */
async function usable(device: Device, stream: Stream): Promise<void> {
  using tensor = device.allocate({ shape: [1], dtype: 'int32' });
  expect(stream.capturing).to.equal(false);
  using exec = captured(stream, () => stream.fill(tensor, 1));
  stream.replay(exec);
  expect(await valuesOf(tensor, stream)).to.deep.equal([1]);
}

export function captureContract(device: () => Device): void {
  it('includes a side stream that is forked and joined by events', async () => {
    using p = await parts(device());
    using c = await tensorOf(device(), [0, 0]);
    p.origin.beginCapture();
    add(p.origin, p.a, p.b);
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    expect(p.side.capturing).to.equal(true);
    p.side.copy(c, p.a);
    p.side.record(p.join);
    p.origin.fill(p.b, 5);
    p.origin.wait(p.join);
    add(p.origin, c, p.b);
    using graph = p.origin.endCapture();
    expect([graph.nodeCount, p.side.capturing]).to.deep.equal([4, false]);
    using exec = graph.instantiate();
    p.side.replay(exec);
    expect(await valuesOf(c, p.side)).to.deep.equal([16, 27]);
    await usable(device(), p.side);
  });

  it('includes a side stream with pending work, and excludes that work from the graph', async () => {
    using p = await parts(device());
    using latch = new Latch(device()).hold(p.side);
    p.origin.beginCapture();
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    p.side.fill(p.a, 3);
    p.side.record(p.join);
    p.origin.wait(p.join);
    using graph = p.origin.endCapture();
    expect(graph.nodeCount).to.equal(1);
    latch.open();
    await p.side.synchronize();
    expect(await valuesOf(p.a)).to.deep.equal([1, 2]);
  });

  it('904: endCapture() throws while a side stream is not joined', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    p.side.fill(p.a, 1);
    refusesWith(904, 'STREAM_CAPTURE_UNJOINED', () => p.origin.endCapture());
    await usable(device(), p.origin);
    await usable(device(), p.side);
  });

  it('904: endCapture() throws if a side stream was closed before it was joined', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    p.side.fill(p.a, 1);
    p.side.close();
    refusesWith(904, 'STREAM_CAPTURE_UNJOINED', () => p.origin.endCapture());
    await usable(device(), p.origin);
  });

  it('905: wait() throws for an event recorded outside, and invalidates the capture', async () => {
    using p = await parts(device());
    p.side.record(p.fork);
    p.origin.beginCapture();
    refusesWith(905, 'STREAM_CAPTURE_ISOLATION', () => p.origin.wait(p.fork));
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.fill(p.a, 1));
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.record(p.join));
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.endCapture());
    await usable(device(), p.origin);
  });

  it('902: wait() throws if it would merge two captures, and invalidates both', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.side.beginCapture();
    p.origin.record(p.fork);
    refusesWith(902, 'STREAM_CAPTURE_MERGE', () => p.side.wait(p.fork));
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.side.endCapture());
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.endCapture());
    await usable(device(), p.origin);
    await usable(device(), p.side);
  });

  it('907: query() and wait() throw for a captured event until it is recorded outside a capture', async () => {
    using p = await parts(device());
    p.side.record(p.fork);
    p.origin.beginCapture();
    p.origin.fill(p.a, 1);
    p.origin.record(p.fork);
    using graph = p.origin.endCapture();
    refusesWith(907, 'CAPTURED_EVENT', () => p.fork.query(), 'eventQuery');
    refusesWith(907, 'CAPTURED_EVENT', () => p.side.wait(p.fork), 'streamWaitEvent');
    graph.close();
    refusesWith(907, 'CAPTURED_EVENT', () => p.fork.query());
    p.side.record(p.fork);
    await p.fork.done();
    expect(p.fork.query()).to.equal(true);
  });

  const unsupported: [string, string, (p: Parts) => unknown][] = [
    ['query the stream', 'streamQuery', (p) => p.origin.query()],
    ['query another stream', 'streamQuery', (p) => p.side.query()],
    ['query an event', 'eventQuery', (p) => p.join.query()],
    ['allocate', 'memAlloc', () => device().allocate({ shape: [1] })],
    [
      'register host memory',
      'memHostRegister',
      () => device().registerHost(new Uint8Array(new SharedArrayBuffer(8))),
    ],
  ];
  for (const [what, named, call] of unsupported) {
    it(`900: a call to ${what} throws while this thread captures, and invalidates the capture`, async () => {
      using p = await parts(device());
      p.origin.beginCapture();
      p.origin.fill(p.a, 1);
      refusesWith(900, 'STREAM_CAPTURE_UNSUPPORTED', () => call(p), named);
      refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.fill(p.a, 1));
      refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.endCapture());
      expect(await valuesOf(p.a)).to.deep.equal([1, 2]);
      await usable(device(), p.origin);
    });
  }

  it('900: replay() throws inside a capture, and invalidates the capture', async () => {
    using p = await parts(device());
    using exec = captured(p.side, () => p.side.fill(p.b, 0));
    p.origin.beginCapture();
    refusesWith(900, 'STREAM_CAPTURE_UNSUPPORTED', () => p.origin.replay(exec), 'graphLaunch');
    refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => p.origin.endCapture());
    await usable(device(), p.origin);
  });

  it('903: endCapture() throws on a stream that did not begin the capture', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    refusesWith(903, 'STREAM_CAPTURE_UNMATCHED', () => p.side.endCapture());
    refusal(() => p.origin.endCapture());
    await usable(device(), p.origin);
    await usable(device(), p.side);
  });

  it('beginCapture() throws inside a capture and endCapture() outside one, and captures still work', async () => {
    using p = await parts(device());
    expect(refusal(() => p.origin.endCapture()).code).to.equal('ERR_HOTSLOT_DEVICE');
    p.origin.beginCapture();
    p.origin.fill(p.a, 1);
    expect(refusal(() => p.origin.beginCapture()).code).to.equal('ERR_HOTSLOT_DEVICE');
    using graph = p.origin.endCapture();
    expect(graph.nodeCount).to.equal(1);
    await usable(device(), p.origin);
  });

  it('releases the joined streams and the thread when its first stream is closed', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.origin.record(p.fork);
    p.side.wait(p.fork);
    p.origin.close();
    await usable(device(), p.side);
  });

  it('lets other streams execute while it is open', async () => {
    using p = await parts(device());
    p.origin.beginCapture();
    p.origin.fill(p.a, 9);
    add(p.side, p.b, p.a);
    using graph = p.origin.endCapture();
    expect(await valuesOf(p.b, p.side)).to.deep.equal([11, 22]);
    expect(graph.nodeCount).to.equal(1);
  });
}
