/** Tests the reuse of memory, and what captures of one device share. */
import { expect } from 'chai';
import {
  captureGraph,
  getGraphPool,
  getSharedCaptureStream,
  getSharedGraphPool,
  onCaptureStream,
} from '../../../src/device/graph/shared.ts';
import { nativeMemory } from '../../../src/device/native.ts';
import { type Device, openDevice, type Tensor } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal } from '../../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../../rig/tensors.ts';

export function poolContract(device: () => Device, name: string): void {
  it('allocate() reuses freed memory without clearing it when zeroed is false', async () => {
    const shape = [12_345];
    const before = device().allocate({ shape, dtype: 'int32', zeroed: false });
    device().currentStream.fill(before, 7);
    await device().currentStream.synchronize();
    before.close();
    device().memoryInfo(); // makes the device look for freed memory
    using again = device().allocate({ shape, dtype: 'int32', zeroed: false });
    expect(new Set(await valuesOf(again))).to.deep.equal(new Set([7]));
    using fresh = device().allocate({ shape, dtype: 'int32' });
    expect(new Set(await valuesOf(fresh))).to.deep.equal(new Set([0]));
  });

  it('allocate() does not reuse memory that enqueued work still uses', async () => {
    using stream = device().createStream();
    using out = device().allocate({ shape: [4096], dtype: 'int32' });
    const closed = device().allocate({ shape: [4096], dtype: 'int32', zeroed: false });
    // Leaves memory for `other` in the pool. While a stream is held, a driver may be unable to
    // allocate.
    device()
      .allocate({ shape: [4096], dtype: 'int32', zeroed: false })
      .close();
    using latch = new Latch(device()).hold(stream);
    stream.fill(closed, 7);
    stream.copy(out, closed);
    closed.close();
    using other = device().allocate({ shape: [4096], dtype: 'int32', zeroed: false });
    device().currentStream.fill(other, 9);
    latch.open();
    expect(new Set(await valuesOf(out, stream))).to.deep.equal(new Set([7]));
    expect(new Set(await valuesOf(other))).to.deep.equal(new Set([9]));
  });

  it('every object of a device returns the same shared capture stream and graph pool', () => {
    const [stream, pool] = [
      getSharedCaptureStream(device()).handle,
      getSharedGraphPool(device()).handle,
    ];
    using second = openDevice(name);
    expect([
      getSharedCaptureStream(second).handle,
      getSharedGraphPool(second).handle,
    ]).to.deep.equal([stream, pool]);
    expect(getGraphPool(second, true).handle).to.equal(pool);
    using own = getGraphPool(second, false);
    expect(own.handle).to.not.equal(pool);
    expect(
      [getSharedCaptureStream(second), getSharedGraphPool(second)],
      'the same objects',
    ).to.deep.equal([getSharedCaptureStream(second), getSharedGraphPool(second)]);
    getSharedGraphPool(device()).close();
    expect(getSharedGraphPool(device()).handle).to.equal(pool);
  });

  it('captures of one graph pool have their temporaries at the same address', async () => {
    using out = device().allocate({ shape: [64] });
    using three = await tensorOf(device(), Array(64).fill(3));
    using pool = getGraphPool(device(), false);
    const places: string[] = [];
    const made: Tensor[] = [];
    const update = () => {
      const stream = device().currentStream;
      const [a, b] = [pool.allocate({ shape: [64] }), pool.allocate({ shape: [1000] })];
      made.push(a, b);
      places.push(
        [a, b].map((each) => nativeMemory().address(each.handle) + each.byteOffset).join(),
      );
      stream.copy(a, three);
      stream.fill(b, 1);
      add(stream, out, a);
      return a;
    };
    const warm = onCaptureStream(device(), pool, update);
    await getSharedCaptureStream(device()).synchronize();
    const first = captureGraph(device(), { what: 'the test', pool }, update);
    const { exec, nodeCount, result } = captureGraph(device(), { what: 'the test', pool }, update);
    first.exec.close();
    expect([nodeCount, places[1], result]).to.deep.equal([3, places[2], made[4]]);
    expect(places[0], 'address in the eager run').to.not.equal(places[1]);
    expect(pool.bytes).to.be.at.least(4256);
    using stream = device().createStream();
    stream.replay(exec);
    stream.replay(exec);
    expect(new Set(await valuesOf(out, stream)), 'warmed up once, replayed twice').to.deep.equal(
      new Set([9]),
    );
    expect(new Set(await valuesOf(warm, stream))).to.deep.equal(new Set([3]));
    exec.close();
  });

  it('graphs of one pool execute one at a time on any streams, and other graphs do not wait', async () => {
    using pool = getGraphPool(device(), false);
    using latch = new Latch(device());
    using outs = {
      first: device().allocate({ shape: [4096] }),
      second: device().allocate({ shape: [4096] }),
      [Symbol.dispose]() {
        this.first.close();
        this.second.close();
      },
    };
    using free = device().allocate({ shape: [1] });
    const graph = (value: number, out: Tensor, held: boolean) =>
      captureGraph(device(), { what: 'the test', pool }, (stream) => {
        using temporary = pool.allocate({ shape: [4096] });
        stream.fill(temporary, value);
        if (held) latch.hold(stream);
        stream.copy(out, temporary);
      }).exec;
    using first = graph(1, outs.first, true);
    using second = graph(2, outs.second, false);
    using alone = captureGraph(device(), { what: 'the test', pool: null }, (stream) =>
      stream.fill(free, 5),
    ).exec;
    using a = device().createStream();
    using b = device().createStream();
    using c = device().createStream();
    a.replay(first);
    b.replay(second);
    c.replay(alone);
    expect(await valuesOf(free, c)).to.deep.equal([5]);
    expect(b.query(), 'the second graph waits for the first').to.equal(false);
    latch.open();
    expect(new Set(await valuesOf(outs.second, b))).to.deep.equal(new Set([2]));
    expect(new Set(await valuesOf(outs.first, a))).to.deep.equal(new Set([1]));
  });

  it('an exec does not wait for its pool after update() with a graph of no pool', async () => {
    using pool = getGraphPool(device(), false);
    using latch = new Latch(device());
    using out = device().allocate({ shape: [64] });
    using apart = device().allocate({ shape: [64] });
    const captured = (value: number, held: boolean) =>
      captureGraph(device(), { what: 'the test', pool }, (on) => {
        using temporary = pool.allocate({ shape: [64] });
        on.fill(temporary, value);
        if (held) latch.hold(on);
        on.copy(out, temporary);
      }).exec;
    using holder = captured(1, true);
    using stream = device().createStream();
    using side = device().createStream();
    side.beginCapture();
    side.fill(apart, 9);
    using graph = side.endCapture();
    using exec = captured(2, false);
    exec.update(graph); // The exec does not belong to the pool now.
    stream.replay(holder);
    side.replay(exec);
    expect(new Set(await valuesOf(apart, side)), 'the updated exec does not wait').to.deep.equal(
      new Set([9]),
    );
    latch.open();
    expect(new Set(await valuesOf(out, stream))).to.deep.equal(new Set([1]));
  });

  it('a closed pool keeps its memory while one of its graphs is open', async () => {
    using out = device().allocate({ shape: [64] });
    const pool = getGraphPool(device(), false);
    const { exec } = captureGraph(device(), { what: 'the test', pool }, (stream) => {
      using temporary = pool.allocate({ shape: [64] });
      stream.fill(temporary, 4);
      stream.copy(out, temporary);
    });
    pool.close();
    using other = device().allocate({ shape: [262_144], zeroed: false });
    device().currentStream.fill(other, 1);
    device().currentStream.replay(exec);
    expect(new Set(await valuesOf(out))).to.deep.equal(new Set([4]));
    expect(new Set(await valuesOf(other))).to.deep.equal(new Set([1]));
    exec.close();
  });

  it('pool.allocate() throws outside a function that runs with the pool, and such functions cannot nest', () => {
    using pool = getGraphPool(device(), false);
    expect(refusal(() => pool.allocate({ shape: [1] })).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
    onCaptureStream(device(), null, () => {
      expect(refusal(() => pool.allocate({ shape: [1] })).code).to.equal(
        'ERR_HOTSLOT_STATE_CAPTURE',
      );
      const error = refusal(() => onCaptureStream(device(), pool, () => {}));
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_BUSY',
        `the shared capture stream of ${name} is in use by this thread already: one captured or warmed-up function cannot run inside another`,
      ]);
    });
  });

  it('captureGraph() throws ERR_HOTSLOT_STATE_CAPTURE if its function fails, and the next one works', async () => {
    using out = device().allocate({ shape: [4] });
    for (const broken of [
      () => {
        throw new Error('mine');
      },
      () => device().allocate({ shape: [1] }),
      () => Promise.reject(new Error('later')),
    ]) {
      const error = refusal(() =>
        captureGraph(device(), { what: 'the test', pool: null }, broken as () => void),
      );
      expect([error.code, error.message.startsWith('the test failed: ')]).to.deep.equal([
        'ERR_HOTSLOT_STATE_CAPTURE',
        true,
      ]);
      expect(error.cause, 'the first error').to.be.instanceOf(Error);
    }
    using exec = captureGraph(device(), { what: 'the test', pool: null }, (stream) =>
      stream.fill(out, 6),
    ).exec;
    device().currentStream.replay(exec);
    expect(await valuesOf(out)).to.deep.equal([6, 6, 6, 6]);
  });
}
