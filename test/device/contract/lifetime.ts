/**
 * Tests that closed memory is freed only when no work can use it any more, wherever that work is.
 * No thread may have to wait for another because of it.
 */
import { expect } from 'chai';
import { nativeMemory } from '../../../src/device/native.ts';
import type { Device, Tensor } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal } from '../../rig/refusal.ts';
import { tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';
import { Thread } from '../thread.ts';
import { captured } from './graphs.ts';

export function lifetimeContract(device: () => Device): void {
  /**
   * Closes `victim` and allocates other tensors that could reuse its memory. Checks that none of
   * them receives what the held work writes.
   */
  async function harmless(victim: Tensor, latch: Latch): Promise<void> {
    victim.close();
    const others = Array.from({ length: 4 }, () =>
      device().allocate({ shape: [1024], dtype: 'int32' }),
    );
    latch.open();
    await until('the held work is done', () => latch.reached);
    await device().currentStream.synchronize();
    for (const other of others) {
      expect(new Set(await valuesOf(other))).to.deep.equal(new Set([0]));
      other.close();
    }
  }
  const victim = () => device().allocate({ shape: [1024], dtype: 'int32' });

  it('memory stays until the work of a closed stream is done, even if its graph stays open', async () => {
    using latch = new Latch(device());
    using other = device().allocate({ shape: [4] });
    const memory = victim();
    const stream = device().createStream();
    stream.beginCapture();
    stream.fill(other, 1);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    latch.hold(stream);
    stream.fill(memory, 2);
    stream.close();
    await harmless(memory, latch);
    device().currentStream.replay(exec);
    expect(await valuesOf(other)).to.deep.equal([1, 1, 1, 1]);
  });

  it('memory stays until the earlier work of a stream that joins a capture is done', async () => {
    using latch = new Latch(device());
    using other = device().allocate({ shape: [4] });
    using origin = device().createStream();
    using side = device().createStream();
    using fork = device().createEvent();
    using join = device().createEvent();
    const memory = victim();
    latch.hold(side);
    side.fill(memory, 2);
    origin.beginCapture();
    origin.record(fork);
    side.wait(fork);
    side.fill(other, 1);
    memory.close();
    side.record(join);
    origin.wait(join);
    using graph = origin.endCapture();
    expect(graph.nodeCount).to.equal(1);
    const fresh = victim();
    latch.open();
    await side.synchronize();
    expect(new Set(await valuesOf(fresh))).to.deep.equal(new Set([0]));
    fresh.close();
  });

  it('memory of a closed graph is allocated again although its capture streams stay idle', async () => {
    using origin = device().createStream();
    using side = device().createStream();
    using fork = device().createEvent();
    using join = device().createEvent();
    const fresh = () => device().allocate({ shape: [4096], dtype: 'uint8', zeroed: false });
    const addressOf = (tensor: Tensor) => nativeMemory().address(tensor.storage.handle);
    for (const stream of [origin, side]) {
      const memory = fresh();
      const at = addressOf(memory);
      origin.beginCapture();
      origin.record(fork);
      side.wait(fork);
      stream.fill(memory, 1);
      side.record(join);
      origin.wait(join);
      origin.endCapture().close();
      memory.close();
      const others: Tensor[] = [];
      const isBack = () => {
        device().memoryInfo();
        others.push(fresh());
        return addressOf(others.at(-1) as Tensor) === at;
      };
      await until('it can be used again', isBack);
      for (const other of others) other.close();
    }
  });

  it('memory can be closed in one thread while another thread closes the stream that uses it', async () => {
    const words = new Int32Array(new SharedArrayBuffer(16));
    const closer = new Thread('closes', { device: device().name, words });
    await closer.next();
    using latch = new Latch(device());
    using passed = device().createEvent();
    for (let round = 1; round <= 60; round++) {
      await latch.shut();
      const memory = victim();
      const stream = device().createStream();
      latch.hold(stream);
      stream.fill(memory, 2);
      stream.record(passed);
      // A handle does not fit into one 32-bit word.
      Atomics.store(words, 1, stream.handle % 2 ** 20);
      Atomics.store(words, 3, Math.floor(stream.handle / 2 ** 20));
      Atomics.store(words, 0, round);
      Atomics.notify(words, 0);
      memory.close();
      latch.open();
      await until('the stream is closed', () => Atomics.load(words, 2) === round);
      // The latch may be shut again only after the stream that it held has passed it.
      await passed.done();
      stream.close();
    }
    await closer.terminate();
  });

  it('a graph can be updated while another thread launches it', async () => {
    using stream = device().createStream();
    using sum = await tensorOf(device(), [0]);
    const capture = (value: number) => {
      stream.beginCapture();
      stream.fill(sum, value);
      return stream.endCapture();
    };
    using one = capture(1);
    using two = capture(2);
    using exec = one.instantiate();
    using elsewhere = device().createStream();
    const words = new Int32Array(new SharedArrayBuffer(4));
    const replayer = new Thread('replays', {
      device: device().name,
      stream: elsewhere.handle,
      exec: exec.handle,
      words,
    });
    await replayer.next();
    for (let i = 0; i < 200; i++) exec.update(i % 2 ? one : two);
    const seen = Atomics.load(words, 0);
    await until('replays go on', () => Atomics.load(words, 0) > seen);
    await replayer.terminate();
    await elsewhere.synchronize();
    expect((await valuesOf(sum))[0]).to.be.oneOf([1, 2]);
  });

  it('elapsedMs() and query() return while another thread captures', async () => {
    if (!device().traits.timingEvents) return;
    using stream = device().createStream();
    using other = device().createStream();
    using first = device().createEvent({ timing: true });
    using second = device().createEvent({ timing: true });
    stream.record(first);
    stream.record(second);
    await second.done();
    const words = new Int32Array(new SharedArrayBuffer(4));
    const thread = new Thread('captures', { device: device().name, stream: other.handle, words });
    expect(await thread.next()).to.equal('capturing');
    expect(second.elapsedMs(first)).to.be.at.least(0);
    expect(second.query()).to.equal(true);
    Atomics.store(words, 0, 1);
    Atomics.notify(words, 0);
    expect(await thread.next()).to.equal(true);
  });

  it('unpinned host memory can be copied, and launch() throws if the device cannot reach it', async () => {
    const values = new Float32Array(new SharedArrayBuffer(4096 * 4)).fill(3);
    using host = device().registerHost(values, { pin: false });
    expect(host.kind).to.equal('pageable');
    using there = device().allocate({ shape: [4096] });
    const view = host.tensor({ shape: [4096], dtype: 'float32' });
    device().currentStream.copy(there, view);
    expect(new Set(await valuesOf(there))).to.deep.equal(new Set([3]));
    const launch = () =>
      device().currentStream.launch('axpby', {
        tensors: [there, view],
        wholes: [4096],
        reals: [1, 1],
      });
    if (device().family === 'host') launch();
    else expect(refusal(launch).message).to.match(/cannot reach host memory/);
    await device().currentStream.synchronize();
    expect(nativeMemory().hostKind(host.handle)).to.equal(0);
    using exec = captured(device().currentStream, () => device().currentStream.copy(view, there));
    device().currentStream.fill(there, 5);
    device().currentStream.replay(exec);
    await device().currentStream.synchronize();
    expect(new Set(values)).to.deep.equal(new Set([5]));
  });
}
