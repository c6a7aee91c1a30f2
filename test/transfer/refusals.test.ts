/**
 * Tests which calls a backend rejects when it is built, at registration and at a submit. The errors
 * name both sides.
 */
import { expect } from 'chai';
import { nativeEvents } from '../../src/device/native.ts';
import type { SubmitH2dOptions } from '../../src/device/transfer/backend.ts';
import { buildReplayTransferBackend } from '../../src/entries/transfer.ts';
import { listDevices, openDevice } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Bench, BYTES, DEPTH, FLOATS, sharedSlots } from './rig.ts';

describe('buildReplayTransferBackend()', () => {
  it('opens host:0 for cpu', () => {
    using backend = buildReplayTransferBackend({ device: 'cpu', ringDepth: 2 });
    expect(backend.device.name).to.equal('host:0');
    expect([backend.ringDepth, backend.h2dSubmitter]).to.deep.equal([2, 'host_stream']);
  });

  it('throws for an unavailable device family, with the name of the device', () => {
    const families = listDevices().filter(({ available }) => !available);
    for (const device of families.flatMap(({ family }) => [family, `${family}:0`])) {
      const error = refusal(() => buildReplayTransferBackend({ device, ringDepth: 2 }).close());
      expect(error.code, device).to.equal('ERR_HOTSLOT_UNAVAILABLE');
      expect(error.message)
        .to.include(device)
        .and.match(/host:0/);
    }
  });

  it('throws for an invalid device, ring depth or transfer mode, and leaves nothing open', () => {
    const before = openHandles();
    const build = (options: object) =>
      refusal(() => buildReplayTransferBackend({ device: 'host:0', ringDepth: 2, ...options }));
    expect(build({ device: 'tpu:0' })).to.include({ code: 'ERR_HOTSLOT_UNKNOWN_DEVICE' });
    expect(build({ device: 3 })).to.be.instanceOf(TypeError);
    for (const ringDepth of [0, -1, 1.5, Number.NaN])
      expect(build({ ringDepth }).message).to.include(`${ringDepth}`);
    expect(build({ ringDepth: '2' })).to.be.instanceOf(TypeError);
    expect(build({ transfer: 'later' }).message).to.match(/immediate, deferred, direct.*later/);
    expect(openHandles()).to.deep.equal(before);
  });

  it('closes what it has opened if the creation of an event fails', () => {
    const before = openHandles();
    const addon = nativeEvents();
    const { createEvent } = addon;
    let made = 0;
    addon.createEvent = (...given) => {
      if (++made === 2) throw new Error('no more events');
      return createEvent(...given);
    };
    try {
      const error = refusal(() => buildReplayTransferBackend({ device: 'host:0', ringDepth: 2 }));
      expect(error.message).to.equal('no more events');
    } finally {
      addon.createEvent = createEvent;
    }
    expect(openHandles()).to.deep.equal(before);
  });
});

describe('host slots', () => {
  const build = () => buildReplayTransferBackend({ device: 'host:0', ringDepth: DEPTH });

  it('are registered all or not at all', () => {
    using backend = build();
    const before = openHandles();
    const [a, b] = sharedSlots(2, BYTES) as [Uint8Array, Uint8Array];
    const bad: [unknown[], RegExp][] = [
      [[a, b], /3 slots, got 2/],
      [[a, b, new Uint8Array(BYTES)], /host slot 2.*SharedArrayBuffer/],
      [[a, 7, b], /host slot 1.*number/],
      [[a, b, new Float32Array(new SharedArrayBuffer(8))], /host slot 2.*Uint8Array/],
      [[a, b, new Uint8Array(new SharedArrayBuffer(0))], /host slot 2 is empty/],
    ];
    for (const [slots, why] of bad) {
      expect(refusal(() => backend.registerHostSlots(slots as Uint8Array[])).message).to.match(why);
      expect(openHandles()).to.deep.equal(before);
    }
    backend.registerHostSlots(sharedSlots(DEPTH, BYTES));
    expect(openHandles().memory).to.equal((before.memory as number) + DEPTH);
    const again = refusal(() => backend.registerHostSlots(sharedSlots(DEPTH, BYTES)));
    expect(again.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
  });

  it('are required before a submit, and before direct device slots', () => {
    using backend = build();
    expect(refusal(() => backend.submitSlot(0, 1)).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    using direct = buildReplayTransferBackend({
      device: 'host:0',
      ringDepth: DEPTH,
      transfer: 'direct',
    });
    const early = refusal(() => direct.allocateDeviceSlots({ shape: [1], dtype: 'uint8' }));
    expect(early.message).to.include('register host slots before');
    direct.registerHostSlots(sharedSlots(DEPTH, BYTES));
    const large = refusal(() => direct.allocateDeviceSlots({ shape: [BYTES + 1], dtype: 'uint8' }));
    expect(large.message).to.include(`beyond ${BYTES} bytes`);
  });

  it('allocateDeviceSlots() throws for too many bytes, invalid shapes and dtypes, and a second call', () => {
    using backend = build();
    const before = openHandles();
    const allocate = (shape: number[], dtype = 'float32') =>
      refusal(() => backend.allocateDeviceSlots({ shape, dtype: dtype as 'float32' }));
    const large = allocate([2 ** 40]);
    expect([
      large.code,
      large.message.includes(String(DEPTH * 2 ** 42)),
      /are free/.test(large.message),
    ]).to.deep.equal(['ERR_HOTSLOT_MEMORY', true, true]);
    expect(allocate([-1]).message).to.include('-1');
    expect(allocate([1], 'half').message).to.include('half');
    expect(openHandles()).to.deep.equal(before);
    backend.allocateDeviceSlots({ shape: [1], dtype: 'float32' });
    expect(allocate([1]).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
  });
});

describe('submitH2d()', () => {
  it('throws if source, destination or slot do not fit, with the names of both sides', () => {
    using bench = new Bench();
    using elsewhere = openDevice('host:1').allocate({ shape: [FLOATS] });
    const [dst, src] = [bench.slots[1]!, bench.hosts[1]!];
    const bad: [Partial<SubmitH2dOptions>, RegExp][] = [
      [{ src: new Uint8Array(BYTES) }, /source.*slot 1.*64 bytes.*another memory/],
      [{ src: bench.hosts[0]! }, /source.*slot 1.*another memory/],
      [{ src: dst as never }, /source.*slot 1.*object/],
      [{ dst: elsewhere }, new RegExp(`destination.*slot 1.*${TESTED}.*host:1`)],
      [{ dst: bench.slots[0]! }, /destination.*slot 1/],
      [{ dst: dst.view({ shape: [FLOATS - 1], offset: 1 }) }, /destination.*slot 1/],
      [{ dst: dst.view({ shape: [FLOATS / 2], strides: [2] }) }, /contiguous.*\[2\]/],
      [{ dst: dst.view({ shape: [FLOATS - 1] }) }, /64 bytes.*60/],
      [{ src: src.subarray(0, 8) }, /8 bytes.*64/],
      [{ slot: DEPTH }, /slot.*got 3/],
      [{ slot: -1 }, /slot.*got -1/],
    ];
    for (const [part, why] of bad) {
      expect(
        refusal(() => bench.backend.submitH2d({ slot: 1, dst, src, ...part })).message,
      ).to.match(why);
      expect(bench.backend.readyQuery(1), String(why)).to.equal(false);
    }
    for (const slot of [DEPTH, -1, 0.5])
      for (const call of ['clearReady', 'readyQuery', 'waitCurrentStreamForReady'] as const)
        expect(refusal(() => bench.backend[call](slot)).message).to.include(`${slot}`);
  });

  it('copies part of a slot, from its start', async () => {
    using bench = new Bench();
    const dst = bench.slots[0]!.view({ shape: [2] });
    bench.pack(0, 5);
    bench.backend.submitH2d({ slot: 0, dst, src: bench.hosts[0]!.subarray(0, 8) });
    await bench.backend.synchronizeReady(0);
    expect([...(await bench.slots[0]!.toArray())].slice(0, 3)).to.deep.equal([5, 5, 0]);
  });

  it('records a span with the given labels, and a device span when the copy is done', async () => {
    using bench = new Bench();
    const spans: { name: string; seconds: number; args: object }[] = [];
    const pinned = bench.backend.hostPinned;
    const seconds = bench.backend.submitH2d({
      slot: 2,
      dst: bench.slots[2]!,
      src: bench.hosts[2]!,
      metadata: { tick: 41 },
      traceRecorder: (span) => spans.push(span),
      traceDeviceEvents: true,
      h2dBytes: 17,
      packLayout: 'rows',
      packExecutor: 'thread',
    });
    const args = {
      slot: 2,
      bytes: 17,
      layout: 'rows',
      executor: 'thread',
      submitter: bench.backend.h2dSubmitter,
      tick: 41,
    };
    expect(spans).to.deep.equal([
      {
        name: 'replay_pipeline_batch_h2d',
        seconds,
        args: { ...args, pinned, shared: true },
      },
    ]);
    await bench.backend.synchronizeReady(2);
    expect(bench.backend.readyQuery(2)).to.equal(true);
    const own = { slot: 2, bytes: 17, tick: 41, pinned };
    expect(spans.slice(1).map(({ name, args }) => ({ name, args }))).to.deep.equal([
      { name: 'gpu/replay_pipeline_batch_h2d', args: own },
    ]);
    expect(spans[1]?.seconds).to.be.within(0, 1);
  });
});
