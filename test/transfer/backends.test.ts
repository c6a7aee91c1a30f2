/**
 * Tests transfer backends in each mode of the device: their properties, and when a slot is ready.
 */
import { expect } from 'chai';
import type { HostMemoryKind } from '../../src/device/transfer/backend.ts';
import { buildReplayTransferBackend } from '../../src/device/transfer/build.ts';
import { openDevice, type Tensor } from '../../src/index.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itLong } from '../rig/setting.ts';
import { valuesOf } from '../rig/tensors.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { Bench, BYTES, DEPTH, FLOATS, floatsOf, sharedSlots, transfers } from './rig.ts';

const ones = (value: number) => Array(FLOATS).fill(value);
const all = Array.from({ length: DEPTH }, (_, slot) => slot);

const memoryKinds: Partial<Record<string, HostMemoryKind>> = {
  registered: 'registered_pinned_shared',
  imported: 'imported_shared',
};
const { traits, family } = openDevice(TESTED);
const facts = {
  immediate: {
    h2dSubmitter: traits.submitter,
    hostMemoryKind: 'pageable_shared',
    supportsAsyncSubmit: true,
  },
  deferred: {
    h2dSubmitter: 'host_deferred',
    hostMemoryKind: 'pageable_shared',
    supportsAsyncSubmit: false,
  },
  direct: {
    h2dSubmitter: 'host_direct',
    hostMemoryKind: 'host_direct',
    supportsAsyncSubmit: false,
  },
} as const;

for (const transfer of transfers) {
  describe(`transfer backend of ${TESTED}, ${transfer}`, () => {
    it('reports its properties before registration, after it and after close()', () => {
      const backend = buildReplayTransferBackend({ device: TESTED, ringDepth: DEPTH, transfer });
      const check = (when: string) => {
        const registered = when === 'registered' ? kind : 'pageable';
        const hostMemoryKind = memoryKinds[registered] ?? facts[transfer].hostMemoryKind;
        expect(backend, when).to.include({
          ...facts[transfer],
          hostMemoryKind,
          deviceFamily: family,
          ringDepth: DEPTH,
        });
        const pinned = registered !== 'pageable';
        expect(backend, when).to.include({
          hostPinned: pinned,
          directPinnedShared: pinned,
          lastWaitCopyTimeS: 0,
        });
        expect(backend.supportsTimingEvents, when).to.equal(
          transfer === 'immediate' && traits.timingEvents,
        );
        expect(backend.device.name).to.equal(TESTED);
        expect(backend.warnings).to.deep.equal([]);
      };
      // Asks the driver which kind of memory it makes of a plain registration.
      const [view] = sharedSlots(1, BYTES);
      using alone = openDevice(TESTED).registerHost(view as Uint8Array);
      const { kind } = alone;
      alone.close();
      check('before');
      backend.registerHostSlots(sharedSlots(DEPTH, BYTES));
      backend.allocateDeviceSlots({ shape: [FLOATS], dtype: 'float32' });
      check('registered');
      expect(new Set(backend.readyEvents).size).to.equal(DEPTH);
      backend.close();
      check('closed');
    });

    it('is not ready before a submit and after clearReady(), and waits return at once', async () => {
      using bench = new Bench(transfer);
      const { backend } = bench;
      const notReady = async (when: string) => {
        for (const slot of all) {
          expect(backend.readyQuery(slot), when).to.equal(false);
          await backend.synchronizeReady(slot);
          backend.waitCurrentStreamForReady(slot);
          backend.waitCurrentStreamForReady(slot, bench.stream);
        }
        await bench.stream.synchronize();
        expect(backend.lastWaitCopyTimeS, when).to.equal(0);
      };
      await notReady('before');
      for (const slot of all) bench.pack(slot, 1).submit(slot);
      for (const slot of all) backend.clearReady(slot);
      await notReady('cleared');
    });

    it('copies every slot to the device, four times', async () => {
      using bench = new Bench(transfer);
      const { backend, stream } = bench;
      for (let tick = 0; tick < 4 * DEPTH; tick++) {
        const slot = tick % DEPTH;
        backend.clearReady(slot);
        const seconds = bench.pack(slot, tick).submit(slot);
        expect(seconds).to.be.at.least(0).and.lessThan(1);
        await backend.synchronizeReady(slot);
        expect(backend.readyQuery(slot)).to.equal(true);
        backend.waitCurrentStreamForReady(slot, stream);
        expect(await valuesOf(bench.slots[slot]!, stream)).to.deep.equal(ones(tick));
      }
    });

    it('close() is idempotent, and later calls throw ERR_HOTSLOT_STATE_CLOSED', async () => {
      const bench = new Bench(transfer);
      const { backend } = bench;
      bench.submit(0);
      bench[Symbol.dispose]();
      backend.close();
      const uses = [
        () => backend.registerHostSlots(sharedSlots(DEPTH, BYTES)),
        () => backend.allocateDeviceSlots({ shape: [1], dtype: 'uint8' }),
        () => bench.submit(0),
        () => backend.submitSlot(0, BYTES),
        () => backend.clearReady(0),
        () => backend.readyQuery(0),
        () => backend.waitCurrentStreamForReady(0),
        () => backend.share(),
      ];
      for (const use of uses)
        expect(refusal(use).code, String(use)).to.equal('ERR_HOTSLOT_STATE_CLOSED');
      expect((await rejection(backend.synchronizeReady(0))).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
    });
  });
}

describe(`transfer backend of ${TESTED}`, () => {
  it('immediate: is ready when the copy is done, not when it is enqueued', async () => {
    using bench = new Bench();
    const { backend, stream } = bench;
    bench.holdCopies();
    bench.pack(1, 7).submit(1);
    let ready = false;
    const waited = backend.synchronizeReady(1).then(() => (ready = true));
    const consumer = bench.device.createStream();
    backend.waitCurrentStreamForReady(1, consumer);
    const read = valuesOf(bench.slots[1]!, consumer);
    await until('the copy stream is held', () => !stream.query());
    expect([backend.readyQuery(1), backend.readyQuery(0), ready]).to.deep.equal([
      false,
      false,
      false,
    ]);
    bench.pack(1, 8);
    bench.letCopiesGo();
    await waited;
    expect(backend.readyQuery(1)).to.equal(true);
    expect(await read, 'the consumer read after the copy').to.deep.equal(ones(8));
    consumer.close();
  });

  it('deferred: is ready after the submit, and only the first wait copies, on the consumer’s stream', async function () {
    if (!ON_HOST) this.skip();
    using bench = new Bench('deferred');
    const { backend, stream } = bench;
    bench.pack(0, 4).submit(0);
    expect(backend.readyQuery(0)).to.equal(true);
    await backend.synchronizeReady(0);
    await bench.device.currentStream.synchronize();
    expect(await valuesOf(bench.slots[0]!), 'the submit has not copied').to.deep.equal(ones(0));
    bench.pack(0, 5);
    backend.waitCurrentStreamForReady(0, stream);
    const first = backend.lastWaitCopyTimeS;
    expect(first).to.be.greaterThan(0);
    expect(await valuesOf(bench.slots[0]!, stream)).to.deep.equal(ones(5));
    bench.pack(0, 6);
    backend.waitCurrentStreamForReady(0, stream);
    expect(
      await valuesOf(bench.slots[0]!, stream),
      'a second wait does not copy again',
    ).to.deep.equal(ones(5));
    expect(backend.lastWaitCopyTimeS).to.equal(first);
    backend.clearReady(0);
    bench.submit(0);
    bench.device.withStream(stream, () => backend.waitCurrentStreamForReady(0));
    expect(await valuesOf(bench.slots[0]!, stream)).to.deep.equal(ones(6));
  });

  it('deferred: a second stream that waits runs after the copy on the first stream', async function () {
    if (!ON_HOST) this.skip();
    using bench = new Bench('deferred');
    const { backend, stream } = bench;
    using second = bench.device.createStream();
    bench.holdStream();
    bench.pack(2, 3).submit(2);
    backend.waitCurrentStreamForReady(2, stream);
    backend.waitCurrentStreamForReady(2, second);
    const read = valuesOf(bench.slots[2]!, second);
    expect(second.query()).to.equal(false);
    bench.letCopiesGo();
    expect(await read).to.deep.equal(ones(3));
  });

  it('deferred: clearReady() drops a copy that no stream has waited for', async function () {
    if (!ON_HOST) this.skip();
    using bench = new Bench('deferred');
    bench.pack(0, 9).submit(0);
    bench.backend.clearReady(0);
    expect(bench.backend.readyQuery(0)).to.equal(false);
    bench.backend.waitCurrentStreamForReady(0, bench.stream);
    expect(await valuesOf(bench.slots[0]!, bench.stream)).to.deep.equal(ones(0));
    expect(bench.backend.lastWaitCopyTimeS).to.equal(0);
  });

  it('direct: a device slot shares its memory with the host slot', async function () {
    if (!ON_HOST) this.skip();
    using bench = new Bench('direct');
    bench.pack(1, 2);
    expect(await valuesOf(bench.slots[1]!)).to.deep.equal(ones(2));
    await bench.device.currentStream.synchronize();
    bench.device.currentStream.fill(bench.slots[1]!, 3);
    await bench.device.currentStream.synchronize();
    expect([...floatsOf(bench.hosts[1]!)]).to.deep.equal(ones(3));
  });

  for (const transfer of transfers.filter((each) => each !== 'direct')) {
    it(`${transfer}: close() waits for copies in flight`, async () => {
      const floats = 4 << 20;
      const bench = new Bench(transfer, floats);
      const out = bench.device.allocate({ shape: [floats] });
      for (const slot of all) {
        bench.pack(slot, slot + 1).submit(slot);
        bench.backend.waitCurrentStreamForReady(slot, bench.stream);
      }
      bench.stream.copy(out, bench.slots[DEPTH - 1]!);
      bench.backend.close();
      for (const slot of all) bench.pack(slot, 0);
      const values = await out.toArray(bench.stream);
      expect(
        values.every((value) => value === DEPTH),
        'close() waited for the copies',
      ).to.equal(true);
      out.close();
      bench[Symbol.dispose]();
    });
  }
});

// Regression test: a signed 32-bit word once contained a copy's bytes and its state, so a copy of 2
// GiB counted as done.
if (ON_HOST)
  describe('transfer backend of 2 GiB slots', () => {
    itLong('copies a deferred slot of more than 2 GiB completely, and once', async () => {
      const bytes = 2 ** 31 + 4096;
      const backend = buildReplayTransferBackend({
        device: TESTED,
        ringDepth: 1,
        transfer: 'deferred',
      });
      const host = new Uint8Array(new SharedArrayBuffer(bytes));
      backend.registerHostSlots([host]);
      const [slot] = backend.allocateDeviceSlots({ shape: [bytes], dtype: 'uint8' }) as [
        Tensor<'uint8'>,
      ];
      const places = [0, 2 ** 31 - 1, 2 ** 31, bytes - 1];
      const stream = backend.device.currentStream;
      const there = async () => {
        const read = places.map((offset) => slot.view({ shape: [1], offset }).toArray(stream));
        return (await Promise.all(read)).map(([value]) => value);
      };
      for (const [i, place] of places.entries()) host[place] = i + 1;
      backend.submitH2d({ slot: 0, src: host, dst: slot });
      expect(backend.readyQuery(0)).to.equal(true);
      backend.waitCurrentStreamForReady(0, stream);
      expect(await there()).to.deep.equal([1, 2, 3, 4]);
      host.fill(9, bytes - 1);
      backend.waitCurrentStreamForReady(0, stream);
      expect(await there(), 'a later wait does not copy again').to.deep.equal([1, 2, 3, 4]);
      backend.close();
    });
  });
