/**
 * Tests handles: stale ones are rejected, a second close is harmless, and pins keep objects open.
 */
import { expect } from 'chai';
import { nativeHandles, nativeStreams } from '../../../src/device/native.ts';
import {
  newPoller,
  newReplayer,
  newSubmitter,
  TransferMode,
  Watch,
} from '../../../src/device/transfer/native.ts';
import type { Device, DeviceEvent } from '../../../src/index.ts';
import { pinnedHandles } from '../../rig/handles.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal } from '../../rig/refusal.ts';
import { captured } from './graphs.ts';

export function handleContract(device: () => Device): void {
  const pollerOf = ({ handle }: DeviceEvent) => ({
    device: device().handle,
    events: [handle],
    watch: new Int32Array(1),
    times: new Float64Array(1),
    sleepNs: 1000,
    spinNs: 0,
  });

  it('every call throws for a closed handle, even after another handle reuses its entry', () => {
    const stream = device().createStream();
    const event = device().createEvent({ timing: true });
    const tensor = device().allocate({ shape: [1] });
    stream.beginCapture();
    const graph = stream.endCapture();
    const exec = graph.instantiate();
    using live = device().createStream();
    using other = device().allocate({ shape: [1] });
    using later = device().createEvent({ timing: true });
    for (const part of [stream, event, tensor, graph, exec]) {
      part.close();
      part.close();
    }
    using successor = device().createStream();
    expect(successor.handle).to.not.equal(stream.handle);
    const uses = [
      () => stream.query(),
      () => stream.record(later),
      () => stream.beginCapture(),
      () => stream.endCapture(),
      () => stream.capturing,
      () => live.record(event),
      () => live.wait(event),
      () => live.fill(tensor, 1),
      () => live.copy(other, tensor),
      () => live.launch('axpby', { tensors: [other, tensor], wholes: [1], reals: [1, 1] }),
      () => live.replay(exec),
      () => event.query(),
      () => later.elapsedMs(event),
      () => graph.instantiate(),
      () => graph.nodeCount,
    ];
    for (const use of uses)
      expect(refusal(use).code, String(use)).to.equal('ERR_HOTSLOT_STALE_HANDLE');
  });

  it('streamQuery() throws for a handle of another kind and for a number that is not a handle', () => {
    using event = device().createEvent();
    using tensor = device().allocate({ shape: [1] });
    for (const handle of [
      event.handle,
      tensor.handle,
      0,
      -1,
      1.5,
      Number.NaN,
      Infinity,
      2 ** 60,
      2 ** 20 + 2 ** 19,
    ])
      expect(refusal(() => nativeStreams().streamQuery(handle)).code).to.equal(
        'ERR_HOTSLOT_STALE_HANDLE',
      );
  });

  it('an event pinned by an actor is stale after close(), and the actor can still poll it', () => {
    const { open } = nativeHandles().handleCount(nativeHandles().kinds.event);
    const event = device().createEvent();
    const watch = new Int32Array([Watch.pending]);
    const poller = newPoller({ ...pollerOf(event), watch });
    event.close();
    expect(refusal(() => event.query()).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    expect(refusal(() => newPoller(pollerOf(event))).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    expect(nativeHandles().handleCount(nativeHandles().kinds.event)).to.deep.equal({
      open: open + 1,
      pinned: 1,
    });
    expect([poller.check(0), watch[0]]).to.deep.equal([1, Watch.done]);
    poller.close();
    expect(nativeHandles().handleCount(nativeHandles().kinds.event)).to.deep.equal({
      open,
      pinned: 0,
    });
  });

  it('a poller checks the events of each ring in order, up to the first that is not done', async () => {
    using stream = device().createStream();
    using latch = new Latch(device());
    // Only event 1 is recorded below. An event that was never recorded is done.
    const events = Array.from({ length: 5 }, () => device().createEvent());
    const watch = new Int32Array(5).fill(Watch.pending);
    const [times, oldest] = [new Float64Array(5), new Int32Array([1, 0])];
    const options = {
      device: device().handle,
      events: events.map(({ handle }) => handle),
      watch,
      times,
    };
    const rings = { ...options, counts: [3, 2], oldest, sleepNs: 1000, spinNs: 0 };
    expect(refusal(() => newPoller({ ...rings, counts: [3, 3] })).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    expect(refusal(() => newPoller({ ...rings, oldest: new Int32Array(1) })).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    const poller = newPoller(rings);
    latch.hold(stream);
    stream.record(events[1]!);
    // Ring 1 has events 0 to 2, and its oldest is event 1, which is not done. Events 2 and 0 follow
    // it and stay pending. Ring 2 is independent, so its events are reported as done.
    expect([poller.check(0), ...watch]).to.deep.equal([2, 1, 1, 1, 2, 2]);
    oldest[0] = 2;
    expect([poller.check(0), ...watch]).to.deep.equal([2, 2, 1, 2, 2, 2]);
    latch.open();
    await stream.synchronize();
    expect([poller.check(0), ...watch]).to.deep.equal([1, 2, 2, 2, 2, 2]);
    poller.close();
    for (const event of events) event.close();
  });

  it('close() with a time-out throws ERR_HOTSLOT_STATE_BUSY for a pinned event, which stays open', () => {
    const event = device().createEvent();
    const poller = newPoller(pollerOf(event));
    const error = refusal(() => nativeHandles().close(event.handle, 1));
    expect([error.code, error.message]).to.deep.equal([
      'ERR_HOTSLOT_STATE_BUSY',
      'still in use by another thread: stop what uses it, then close it again',
    ]);
    expect(event.query()).to.equal(true);
    poller.close();
    expect(nativeHandles().close(event.handle, 1)).to.equal(true);
    expect(refusal(() => event.query()).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
  });

  it('actor constructors throw for stale handles and invalid arguments, and pin nothing', () => {
    using stream = device().createStream();
    using event = device().createEvent();
    using memory = device().registerHost(new Uint8Array(new SharedArrayBuffer(8)));
    using slot = device().allocate({ shape: [2] });
    using exec = captured(stream, () => stream.fill(slot, 1));
    const gone = device().createEvent();
    gone.close();
    const stale = gone.handle;
    const submit = {
      stream: stream.handle,
      copied: [event.handle],
      hosts: [memory.handle],
      hostOffsets: [0],
    };
    const times = new Float64Array(2);
    const watch = new Int32Array(2);
    const poll = {
      device: device().handle,
      events: [event.handle],
      watch,
      times,
      sleepNs: 0,
      spinNs: 0,
    };
    const replay = { stream: stream.handle, spent: [event.handle], graphs: [exec.handle], times };
    const mode = TransferMode.immediate;
    const makes = [
      () => newSubmitter({ ...submit, slots: [stale], mode }),
      () => newSubmitter({ ...submit, slots: [slot.handle], stream: stale, mode }),
      () => newSubmitter({ ...submit, slots: [slot.handle], copied: [stale], mode }),
      () => newSubmitter({ ...submit, slots: [slot.handle], hosts: [stale], mode }),
      () => newPoller({ ...poll, device: stale }),
      () => newPoller({ ...poll, events: [event.handle, stale] }),
      () => newReplayer({ ...replay, stream: stale }),
      () => newReplayer({ ...replay, graphs: [stale] }),
      () => newReplayer({ ...replay, spent: [stale] }),
      () =>
        newReplayer({
          ...replay,
          weights: slot.handle,
          weightsOffset: 0,
          weightsBytes: 8,
          mailbox: stale,
        }),
    ];
    for (const make of makes)
      expect(refusal(make).code, String(make)).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    expect(pinnedHandles()).to.equal(0);
    expect(refusal(() => newSubmitter({ ...submit, slots: [], mode })).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    expect(refusal(() => newPoller({ ...poll, watch: new Int32Array(0) })).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    expect(refusal(() => newReplayer({ ...replay, graphs: [] })).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    expect(pinnedHandles()).to.equal(0);
  });

  it('a closed actor throws from every call, and its close() is idempotent', () => {
    using stream = device().createStream();
    using event = device().createEvent();
    using memory = device().registerHost(new Uint8Array(new SharedArrayBuffer(8)));
    using slot = device().allocate({ shape: [2] });
    using exec = captured(stream, () => stream.fill(slot, 1));
    const submitter = newSubmitter({
      stream: stream.handle,
      copied: [event.handle],
      hosts: [memory.handle],
      hostOffsets: [0],
      slots: [slot.handle],
      mode: TransferMode.immediate,
    });
    const times = new Float64Array(2);
    const replayer = newReplayer({
      stream: stream.handle,
      spent: [event.handle],
      graphs: [exec.handle],
      times,
    });
    const watch = new Int32Array(1);
    const poller = newPoller({
      device: device().handle,
      events: [event.handle],
      watch,
      times,
      sleepNs: 0,
      spinNs: 0,
    });
    expect(refusal(() => submitter.submit(1, 8)).message).to.include('slot 1 is not one of 1');
    expect(refusal(() => submitter.submit(0, 9)).code).to.equal('ERR_HOTSLOT_RANGE');
    expect(refusal(() => poller.wait(0, 1)).message).to.include('bell');
    for (const actor of [submitter, replayer, poller, submitter, replayer, poller]) actor.close();
    const uses = [
      () => submitter.submit(0, 8),
      () => submitter.waitReady(stream.handle, 0, 8),
      () => replayer.launch(0, -1),
      () => replayer.mark(0, -1),
      () => replayer.drained(),
      () => poller.check(0),
      () => poller.wait(0, 1),
    ];
    for (const use of uses)
      expect(refusal(use).code, String(use)).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });

  it('a closed device throws from every call, and its streams and events still work', async () => {
    const stream = device().createStream();
    using latchless = device().createEvent();
    device().close();
    device().close();
    expect(device().closed).to.equal(true);
    const uses = [
      () => device().createStream(),
      () => device().createEvent(),
      () => device().allocate({ shape: [1] }),
      () => device().registerHost(new Uint8Array(new SharedArrayBuffer(1))),
      () => device().memoryInfo(),
      () => device().currentStream,
      () => device().withStream(stream, () => 1),
    ];
    for (const use of uses)
      expect(refusal(use).code, String(use)).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    stream.record(latchless);
    await latchless.done();
    await stream.synchronize();
    stream.close();
  });
}
