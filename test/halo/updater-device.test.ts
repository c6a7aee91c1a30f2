/**
 * Tests exchanges of arrays on a device: stream order, captures, failures, and handles that must
 * not stay open.
 */
import { expect } from 'chai';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { errorScope } from '../rig/error-scope.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { Part, plane } from './plane.ts';
import { UpdaterRig } from './updater-rig.ts';

/**
 * Returns the result of `call`, and the objects that devices of this family created by `method`
 * during it.
 */
function making<K extends 'createStream' | 'registerHost', T>(
  device: Device,
  method: K,
  call: () => T,
): [T, ReturnType<Device[K]>[]] {
  const kind = Object.getPrototypeOf(device) as Device;
  const own = kind[method] as (...given: unknown[]) => ReturnType<Device[K]>;
  const made: ReturnType<Device[K]>[] = [];
  const spy = function (this: Device, ...given: unknown[]) {
    const each = own.apply(this, given);
    made.push(each);
    return each;
  };
  Object.assign(kind, { [method]: spy });
  try {
    return [call(), made];
  } finally {
    Object.assign(kind, { [method]: own });
  }
}

describe(`halo/updater on ${TESTED}`, () => {
  const rig = new UpdaterRig(TESTED);

  describe('stream order', () => {
    it('start() returns before the device packs, and progress() sends when the packing is done', async () => {
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const latch = new Latch(device);
      latch.hold(device.currentStream);
      a.start(parts[0]!.fill(1).quantities);
      parts[0]!.spoil();
      expect([a.progress(), a.waitSync({ timeoutMs: 0 })]).to.deep.equal([false, false]);
      expect(refusal(() => a.waitSync()).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
      expect(await a.wait({ timeoutMs: 1 })).to.equal(false);
      latch.open();
      await until('it has sent', () => a.progress());
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      expect([await parts[0]!.wrong(1), await parts[1]!.wrong(1)]).to.deep.equal([null, null]);
      latch[Symbol.dispose]();
      device.close();
    });

    it('arrivals are unpacked after earlier and before later work of the waiting stream', async () => {
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(1, 1);
      const [a] = updaters as [HaloUpdater];
      const side = device.createStream();
      a.start(parts[0]!.fill(1).quantities);
      await until('it has sent', () => a.progress());
      const latch = new Latch(device);
      const copies = parts[0]!.quantities.map(({ data }) =>
        device.allocate({
          shape: [(data as { length?: number; size?: number }).size!],
          dtype: 'float64',
        }),
      );
      // Held work on the stream overwrites the halos when it runs. The arrivals must be unpacked
      // after it, and the copies must follow the unpacking.
      await device.currentStream.synchronize();
      latch.hold(side);
      await device.withStream(side, async () => {
        parts[0]!.spoil();
        expect(a.waitSync(), 'waitSync() returns when the unpacking is enqueued').to.equal(true);
      });
      for (const [q, { data }] of parts[0]!.quantities.entries())
        side.copy(copies[q]!, data as never);
      latch.open();
      await side.synchronize();
      for (const [q, { data }] of parts[0]!.quantities.entries())
        device.currentStream.copy(data as never, copies[q]!);
      expect(await parts[0]!.wrong(1)).to.equal(null);
      for (const each of [...copies, side, latch]) each[Symbol.dispose]();
      device.close();
    });

    it('start() throws inside a capture, and the exchange works afterwards', async () => {
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(1, 1);
      const [a] = updaters as [HaloUpdater];
      const stream = device.createStream();
      parts[0]!.fill(1);
      await device.currentStream.synchronize();
      stream.beginCapture();
      device.withStream(stream, () =>
        expect(refusal(() => a.start(parts[0]!.quantities)).code).to.equal(
          'ERR_HOTSLOT_STATE_CAPTURE',
        ),
      );
      stream.endCapture().close();
      a.start(parts[0]!.quantities);
      expect(await a.wait()).to.equal(true);
      expect(await parts[0]!.wrong(1)).to.equal(null);
      stream.close();
      device.close();
    });

    it('wait() rejects when a capture begins, and both the exchange and the capture continue', async () => {
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      const [stream, other] = [device.createStream(), device.createStream()];
      const tensor = device.allocate({ shape: [1] });
      const latch = new Latch(device);
      using elsewhere = new HaloUpdater(plane(2, 1).shared, 0);
      elsewhere.start(new Part(plane(2, 1), 0).fill(1).quantities);
      for (const [n, captured] of [stream, other].entries()) {
        for (const each of parts) each.fill(n + 1);
        await device.currentStream.synchronize();
        // The capture begins on the stream of the wait, then on an unrelated stream. When it
        // begins, the data that `a` sends is not packed yet.
        await latch.shut();
        latch.hold(stream);
        const waiting = device.withStream(stream, () => {
          a.start(parts[0]!.quantities);
          return rejection(a.wait());
        });
        if (n === 0) b.start(parts[1]!.quantities);
        captured.beginCapture();
        if (n === 1)
          expect(refusal(() => b.start(parts[1]!.quantities)).code).to.equal(
            'ERR_HOTSLOT_STATE_CAPTURE',
          );
        expect((await waiting).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
        expect([a.progress(), await elsewhere.wait({ timeoutMs: 1 })]).to.deep.equal([
          false,
          false,
        ]);
        captured.fill(tensor, 1);
        const graph = captured.endCapture();
        expect(graph.nodeCount).to.equal(1);
        graph.close();
        latch.open();
        if (n === 1) b.start(parts[1]!.quantities);
        expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
        expect([await parts[0]!.wrong(n + 1), await parts[1]!.wrong(n + 1)]).to.deep.equal([
          null,
          null,
        ]);
      }
      latch[Symbol.dispose]();
      for (const each of [tensor, stream, other, device]) each.close();
    });

    it('Exchange-1: a half is released only after it is read, even if the reading stream is held', async () => {
      const device = openDevice(TESTED);
      const { plane, parts, updaters } = rig.together(2, 1);
      // Rank 0 has not unpacked its first exchange when its second exchange begins.
      const next = [rig.part(plane, 0), parts[1]!];
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      const side = device.createStream();
      const latch = new Latch(device);
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
      await until('both have sent', () => a.progress() && b.progress());
      latch.hold(side);
      expect(device.withStream(side, () => a.waitSync())).to.equal(true);
      expect(b.waitSync()).to.equal(true);
      for (const [rank, each] of updaters.entries()) each.start(next[rank]!.fill(2).quantities);
      expect(await b.wait({ timeoutMs: 50 })).to.equal(false);
      expect(a.progress()).to.equal(false);
      latch.open();
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      expect([await next[0]!.wrong(2), await next[1]!.wrong(2)]).to.deep.equal([null, null]);
      for (const each of [side, latch]) each[Symbol.dispose]();
      device.close();
    });

    it('close() sends a part that is packed, and a failed rank sends nothing', async () => {
      const device = openDevice(TESTED);
      for (const how of ['close', 'fail'] as const) {
        const [{ parts, updaters }, streams] = making(device, 'createStream', () =>
          rig.together(2, 1),
        );
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        for (const each of parts) each.fill(1);
        b.start(parts[1]!.quantities);
        const latch = new Latch(device);
        latch.hold(device.currentStream);
        a.start(parts[0]!.quantities);
        if (how === 'fail') a.fail(new Error('no'));
        latch.open();
        await streams[0]!.synchronize();
        if (how === 'close') {
          a.close();
          expect(await b.wait()).to.equal(true);
          expect(await parts[1]!.wrong(1)).to.equal(null);
        } else
          expect((await rejection(b.wait())).message).to.equal('rank 0 failed in exchange 1: no');
        latch[Symbol.dispose]();
      }
      device.close();
    });

    it('a receive buffer stays registered after close() until its sender has closed too', () => {
      const device = openDevice(TESTED);
      const all = plane(2, 1);
      const open = (rank: number) => {
        const [made, memories] = making(
          device,
          'registerHost',
          () => new HaloUpdater(all.shared, rank, { device }),
        );
        const left = { count: memories.length };
        for (const memory of memories) {
          const { close } = memory;
          memory.close = () => {
            left.count--;
            close.call(memory);
          };
        }
        return [made, left] as const;
      };
      const from = (rank: number, sender: number) =>
        all.shared.neighbors[rank]!.filter((there) => there.rank === sender).length;
      const [a, leftByA] = open(0);
      a.close();
      expect(leftByA.count, 'registered buffers before rank 1 opens').to.equal(from(0, 1));
      const [b, leftByB] = open(1);
      expect(leftByA.count, 'registered buffers while rank 1 is open').to.equal(from(0, 1));
      b.close();
      expect(
        [leftByA.count, leftByB.count],
        'registered buffers after both have closed',
      ).to.deep.equal([0, 0]);
      device.close();
    });

    it('start() throws if the device cannot pack, and the exchange fails for all ranks', async function () {
      if (errorScope(TESTED) !== 'stream') this.skip();
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const waiting = rejection(b.wait());
      parts[0]!.fill(1);
      const stream = device.createStream();
      stream.launch('fail');
      await rejection(stream.synchronize());
      const error = device.withStream(stream, () => refusal(() => a.start(parts[0]!.quantities)));
      expect([error.code, a.exchange]).to.deep.equal(['ERR_HOTSLOT_DEVICE', 0]);
      const { code, message, cause } = await waiting;
      expect([code, message]).to.deep.equal([
        'ERR_HOTSLOT_DEVICE',
        `rank 0 failed before its first exchange: ${error.message}`,
      ]);
      expect((cause as Error).message).to.equal(error.message);
      expect(refusal(() => a.start(parts[0]!.quantities)).message).to.equal(message);
      stream.close();
      device.close();
    });

    it('a device failure throws in its own rank, and fail() passes its code to the neighbors', async function () {
      if (errorScope(TESTED) !== 'stream') this.skip(); // On a GPU the whole device would fail.
      const device = openDevice(TESTED);
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const waiting = rejection(b.wait());
      const stream = device.createStream();
      parts[0]!.fill(1);
      await device.currentStream.synchronize();
      stream.launch('fail');
      let error: unknown;
      try {
        device.withStream(stream, () => a.start(parts[0]!.quantities));
        await a.wait();
      } catch (thrown) {
        error = thrown;
        a.fail(thrown);
      }
      expect((error as { code: string }).code).to.equal('ERR_HOTSLOT_DEVICE');
      expect((await waiting).code).to.equal('ERR_HOTSLOT_DEVICE');
      expect((await waiting).message).to.match(
        /^rank 0 failed (in exchange \d|before its first exchange): /,
      );
      stream.close();
      device.close();
    });

    it('ranks that close during an exchange leave no event open, and reuse memory and streams', async () => {
      const device = openDevice(TESTED);
      const round = () => {
        const { parts, updaters } = rig.together(2, 1);
        for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
        for (const each of [...updaters, ...parts]) each.close();
      };
      // The first round leaves memory and streams in the device's pools, which later rounds reuse.
      round();
      await device.currentStream.synchronize();
      const before = openHandles();
      const rounds = 20;
      for (let i = 0; i < rounds; i++) {
        round();
        await device.currentStream.synchronize();
      }
      const after = openHandles();
      expect(after.event).to.equal(before.event);
      // A round may have to create a stream or buffer, because those of the round before may still
      // be busy.
      for (const kind of ['memory', 'stream'])
        expect(after[kind]).to.be.below(before[kind]! + rounds);
      device.close();
    });
  });
});
