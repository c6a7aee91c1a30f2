/**
 * Tests memory that a driver pins in place: that it is pinned, that it is released, and that no
 * byte is registered twice.
 */
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { nativeEvents, nativeHandles } from '../../src/device/native.ts';
import { newSubmitter, TransferMode } from '../../src/device/transfer/native.ts';
import { type Device, openDevice, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { allocateShared } from '../../src/shm/memory.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, refusesWith } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';

const PAGE = 4096;
const ALREADY = [712, 'HOST_MEMORY_ALREADY_REGISTERED'] as const;

/** Allocates whole pages. */
function pages(count: number): Uint8Array {
  const { memory, offset } = allocateShared('pages', count * PAGE, PAGE);
  return new Uint8Array(memory, offset, count * PAGE);
}

describe(`pinned memory of ${TESTED}`, () => {
  let device: Device;
  before(function () {
    device = openDevice(TESTED);
    // CPU devices do not pin memory, and Level Zero imports memory instead.
    if (device.family !== 'cuda' && device.family !== 'rocm') this.skip();
  });

  it('backs registered memory and the slots of a pipeline', async () => {
    using memory = device.registerHost(pages(1));
    expect(memory.kind).to.equal('registered');
    using unpinned = device.registerHost(pages(1), { pin: false });
    expect(unpinned.kind).to.equal('pageable');
    const buffer = ReplayBuffer.create({ capacity: 8, fields: { x: { shape: [3] } } });
    buffer.add({ x: new Float32Array(24) });
    await using pipeline = await ReplayPipeline.open({ buffer, device: TESTED, sampleCount: 5 });
    expect(pipeline.transferManifest).to.include({
      hostMemoryKind: 'registered_pinned_shared',
      hostPinned: true,
      directPinnedShared: true,
    });
  });

  it('can be pinned again after each of a thousand closes, without growth of memory or handles', () => {
    const memory = pages(256);
    const cycle = () => device.registerHost(memory).close();
    for (let i = 0; i < 50; i++) cycle();
    nativeHandles().releaseFailures();
    const [handles, { free }] = [openHandles(), device.memoryInfo()];
    /**
     * Returns the growth of the process in bytes. The driver rejects memory that is already pinned,
     * so each cycle shows that the one before has released the memory.
     */
    const growth = () => {
      const { rss } = process.memoryUsage();
      for (let i = 0; i < 1000; i++) cycle();
      return process.memoryUsage().rss - rss;
    };
    // A cycle that kept its megabyte, or a page for bookkeeping, would show in every measurement.
    // Memory that V8 uses to compile shows only once.
    const all = [growth()];
    while (all.length < 4 && Math.min(...all) > 16 * 2 ** 20) all.push(growth());
    expect(Math.min(...all), `host memory: ${all}`).to.be.at.most(16 * 2 ** 20);
    expect(nativeHandles().releaseFailures()).to.deep.equal([]);
    expect(openHandles()).to.deep.equal(handles);
    expect(free - device.memoryInfo().free, 'device memory').to.be.at.most(2 ** 20);
  });

  it('stays usable when an overlapping registerHost() throws, and allows adjacent registrations', async () => {
    const memory = pages(8);
    const part = (from: number, to: number) => memory.subarray(from * PAGE, to * PAGE);
    const first = device.registerHost(part(2, 4));
    refusesWith(...ALREADY, () => device.registerHost(part(2, 4)));
    refusesWith(...ALREADY, () => device.registerHost(part(3, 5)));
    refusesWith(...ALREADY, () => device.registerHost(part(0, 8)));
    expect(refusal(() => device.registerHost(part(2, 3))).message).to.match(/HostRegister/);
    using beside = device.registerHost(part(4, 6));
    part(2, 4).fill(5);
    using target = device.allocate({ shape: [2 * PAGE], dtype: 'uint8' });
    device.currentStream.copy(target, first.tensor({ shape: [2 * PAGE], dtype: 'uint8' }));
    expect(new Set(await valuesOf(target))).to.deep.equal(new Set([5]));
    first.close();
    using again = device.registerHost(part(0, 4));
    expect([again.kind, beside.kind]).to.deep.equal(['registered', 'registered']);
  });

  it('can be pinned again right after close() while a kernel runs', async () => {
    using stream = device.createStream();
    const memory = pages(1);
    stream.launch('spin', { wholes: [100_000] });
    for (let i = 0; i < 3; i++) device.registerHost(memory).close();
    await stream.synchronize();
  });

  it('can be registered again while a replay of a closed graph still copies from the memory', async () => {
    using stream = device.createStream();
    using latch = new Latch(device);
    const memory = pages(1);
    const host = device.registerHost(memory);
    using target = device.allocate({ shape: [PAGE], dtype: 'uint8' });
    stream.beginCapture();
    stream.copy(target, host.tensor({ shape: [PAGE], dtype: 'uint8' }));
    const graph = stream.endCapture();
    const exec = graph.instantiate();
    latch.hold(stream);
    stream.replay(exec);
    for (const part of [exec, graph, host]) part.close();
    using again = device.registerHost(memory);
    expect([again.kind, stream.query()]).to.deep.equal(['registered', false]);
    memory.fill(7);
    latch.open();
    expect(new Set(await valuesOf(target, stream))).to.deep.equal(new Set([7]));
  });

  it('can be registered again as a whole but not in part while a submitter still uses the memory', async () => {
    using stream = device.createStream();
    using copied = device.createEvent();
    using slot = device.allocate({ shape: [PAGE], dtype: 'uint8' });
    const memory = pages(2).fill(3);
    const host = device.registerHost(memory);
    const submitter = newSubmitter({
      stream: stream.handle,
      copied: [copied.handle],
      hosts: [host.handle],
      hostOffsets: [0],
      slots: [slot.handle],
      mode: TransferMode.immediate,
    });
    host.close();
    const again = device.registerHost(memory);
    expect(again.kind).to.equal('registered');
    // The main thread does not wait for the actor, so the driver rejects other bytes of the same
    // pages.
    again.close();
    refusesWith(...ALREADY, () => device.registerHost(memory.subarray(PAGE)));
    submitter.submit(0, PAGE);
    expect(new Set(await valuesOf(slot, stream))).to.deep.equal(new Set([3]));
    submitter.close();
    using other = device.registerHost(memory.subarray(PAGE));
    expect(other.kind).to.equal('registered');
  });

  it('is unpinned when registerHost() throws because no handle is left', () => {
    const memory = pages(1);
    const { handle } = openDevice('host:0');
    const made: number[] = [];
    expect(
      refusal(() => {
        for (;;) made.push(nativeEvents().createEvent(handle, false));
      }).code,
    ).to.equal('ERR_HOTSLOT_MEMORY');
    try {
      expect(refusal(() => device.registerHost(memory)).code).to.equal('ERR_HOTSLOT_MEMORY');
    } finally {
      for (const event of made) nativeHandles().close(event);
    }
    device.registerHost(memory).close();
  });

  it('passes later writes to the device after the process has started a child process', async () => {
    using stream = device.createStream();
    const memory = pages(2).fill(1);
    using host = device.registerHost(memory);
    using target = device.allocate({ shape: [2 * PAGE], dtype: 'uint8' });
    for (const value of [2, 3]) {
      // If the child shared the pages, this process's next write would separate them from the
      // device.
      spawnSync('true');
      memory.fill(value);
      stream.copy(target, host.tensor({ shape: [2 * PAGE], dtype: 'uint8' }));
      expect(new Set(await target.toArray(stream))).to.deep.equal(new Set([value]));
    }
  });

  it('lets copy() return while its stream is held', async () => {
    using stream = device.createStream();
    using latch = new Latch(device);
    using memory = device.registerHost(pages(1024));
    using target = device.allocate({ shape: [1024 * PAGE], dtype: 'uint8' });
    latch.hold(stream);
    for (let i = 0; i < 8; i++)
      stream.copy(target, memory.tensor({ shape: [1024 * PAGE], dtype: 'uint8' }));
    // copy() has returned although the stream is held.
    expect(stream.query()).to.equal(false);
    latch.open();
    await stream.synchronize();
  });
});
