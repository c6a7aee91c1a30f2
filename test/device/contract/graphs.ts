/** Tests graphs: capture once, launch any number of times. */
import { expect } from 'chai';
import type { Device, GraphExec, Stream } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusesWith } from '../../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';

/**
 * Captures what `work` enqueues and instantiates it. Closes the graph and returns the executable
 * graph.
 */
export function captured(stream: Stream, work: () => void): GraphExec {
  stream.beginCapture();
  work();
  using graph = stream.endCapture();
  return graph.instantiate();
}

export function graphContract(device: () => Device): void {
  it('execute nothing during the capture, and every node at each launch', async () => {
    using stream = device().createStream();
    using sum = await tensorOf(device(), [0, 0]);
    using one = await tensorOf(device(), [1, 2]);
    using out = device().allocate({ shape: [2] });
    stream.beginCapture();
    expect(stream.capturing).to.equal(true);
    add(stream, sum, one);
    stream.copy(out, sum);
    stream.fill(one.view({ shape: [1] }), 3);
    using graph = stream.endCapture();
    expect([stream.capturing, graph.nodeCount]).to.deep.equal([false, 3]);
    await stream.synchronize();
    expect(await valuesOf(sum, stream)).to.deep.equal([0, 0]);
    using exec = graph.instantiate();
    stream.replay(exec);
    expect(await valuesOf(out, stream)).to.deep.equal([1, 2]);
    for (let i = 0; i < 99; i++) stream.replay(exec);
    expect(await valuesOf(out, stream)).to.deep.equal([298, 200]);
  });

  it('are launched in stream order between other work', async () => {
    using stream = device().createStream();
    using value = await tensorOf(device(), [0]);
    using one = await tensorOf(device(), [1]);
    using seen = device().allocate({ shape: [4] });
    using exec = captured(stream, () => add(stream, value, one));
    const look = (i: number) => stream.copy(seen.view({ shape: [1], offset: i }), value);
    stream.replay(exec);
    look(0);
    stream.fill(value, 10);
    stream.replay(exec);
    look(1);
    stream.replay(exec);
    stream.replay(exec);
    look(2);
    expect(await valuesOf(seen, stream)).to.deep.equal([1, 11, 13, 0]);
  });

  it('execute one launch of an exec at a time when two streams launch it', async () => {
    using a = device().createStream();
    using b = device().createStream();
    using sum = device().allocate({ shape: [4096] });
    using one = await tensorOf(device(), Array(4096).fill(1));
    using exec = captured(a, () => {
      for (let i = 0; i < 20; i++) add(a, sum, one);
    });
    for (let i = 0; i < 50; i++) {
      a.replay(exec);
      b.replay(exec);
    }
    await Promise.all([a.synchronize(), b.synchronize()]);
    expect(new Set(await valuesOf(sum))).to.deep.equal(new Set([2000]));
  });

  it('can be instantiated more than once', async () => {
    using stream = device().createStream();
    using sum = await tensorOf(device(), [0]);
    using one = await tensorOf(device(), [1]);
    stream.beginCapture();
    add(stream, sum, one);
    using graph = stream.endCapture();
    using first = graph.instantiate();
    using second = graph.instantiate();
    stream.replay(first);
    stream.replay(second);
    expect(await valuesOf(sum, stream)).to.deep.equal([2]);
  });

  it('keep the memory of a tensor that is closed before the launch', async () => {
    using stream = device().createStream();
    using out = device().allocate({ shape: [50_000], dtype: 'int32' });
    const between = device().allocate({ shape: [50_000], dtype: 'int32' });
    using exec = captured(stream, () => {
      stream.fill(between, 6);
      stream.copy(out, between);
    });
    between.close();
    using other = device().allocate({ shape: [50_000], dtype: 'int32' });
    stream.replay(exec);
    expect(new Set(await valuesOf(out, stream))).to.deep.equal(new Set([6]));
    expect(new Set(await valuesOf(other, stream)), 'no other tensor got that memory').to.deep.equal(
      new Set([0]),
    );
  });

  it('complete an enqueued launch after the exec is closed', async () => {
    using stream = device().createStream();
    using latch = new Latch(device());
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    const exec = captured(stream, () => stream.fill(tensor, 8));
    latch.hold(stream);
    stream.replay(exec);
    exec.close();
    latch.open();
    expect(await valuesOf(tensor, stream)).to.deep.equal([8]);
  });

  it('can be empty', async () => {
    using stream = device().createStream();
    stream.beginCapture();
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    expect(graph.nodeCount).to.equal(0);
    stream.replay(exec);
    await stream.synchronize();
  });

  it('block only their own stream if a node waits, even after a fast first launch', async () => {
    using stream = device().createStream();
    using free = device().createStream();
    using latch = new Latch(device());
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    using exec = captured(stream, () => latch.hold(stream));
    latch.open();
    stream.replay(exec);
    await stream.synchronize();
    await latch.shut();
    stream.replay(exec);
    free.fill(tensor, 1);
    // Only query() is called, so no thread helps the device to execute.
    await until('the free stream is done', () => free.query());
    expect(await valuesOf(tensor, free)).to.deep.equal([1]);
    expect(stream.query()).to.equal(false);
    latch.open();
    await stream.synchronize();
  });

  it('record events for outsiders at every replay, and measure with them', async () => {
    using stream = device().createStream();
    using latch = new Latch(device());
    using begin = device().createEvent({ timing: true });
    using end = device().createEvent({ timing: true });
    stream.beginCapture();
    if (!device().traits.graphEvents) {
      refusesWith(801, 'NOT_SUPPORTED', () => stream.record(begin, { external: true }));
      return stream.endCapture().close();
    }
    stream.record(begin, { external: true });
    stream.launch('spin', { wholes: [2000] });
    stream.record(end, { external: true });
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    expect(graph.nodeCount).to.equal(3);
    expect([begin.query(), end.query()], 'the capture does not record the events').to.deep.equal([
      true,
      true,
    ]);
    for (let i = 0; i < 2; i++) {
      await latch.shut();
      latch.hold(stream);
      stream.replay(exec);
      expect([begin.query(), end.query()]).to.deep.equal([false, false]);
      latch.open();
      await end.done();
      expect(begin.query()).to.equal(true);
      if (device().traits.timingEvents) expect(end.elapsedMs(begin)).to.be.at.least(1.9);
      await stream.synchronize();
    }
    refusesWith(1, 'INVALID_VALUE', () => stream.record(begin, { external: true }), 'eventRecord');
  });

  it('release a stream that waits for an external event before the whole graph is done', async () => {
    if (!device().traits.graphEvents) return;
    using stream = device().createStream();
    using behind = device().createStream();
    using latch = new Latch(device());
    using event = device().createEvent();
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    stream.beginCapture();
    stream.record(event, { external: true });
    latch.hold(stream);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    behind.wait(event);
    behind.fill(tensor, 3);
    await until('the waiting stream is done', () => behind.query());
    expect(stream.query()).to.equal(false);
    latch.open();
    expect(await valuesOf(tensor, behind)).to.deep.equal([3]);
    await stream.synchronize();
  });

  it('update() returns true for the same nodes and false for others, and changes later launches only', async () => {
    using stream = device().createStream();
    using latch = new Latch(device());
    using value = await tensorOf(device(), [1]);
    using one = await tensorOf(device(), [1]);
    using ten = await tensorOf(device(), [10]);
    const capture = (work: () => void) => {
      stream.beginCapture();
      work();
      return stream.endCapture();
    };
    using first = capture(() => add(stream, value, one));
    using same = capture(() => add(stream, value, ten));
    using other = capture(() => {
      add(stream, value, ten);
      stream.fill(one, 5);
    });
    using exec = first.instantiate();
    latch.hold(stream);
    stream.replay(exec);
    expect(exec.update(same)).to.equal(true);
    stream.replay(exec);
    expect(exec.update(other)).to.equal(false);
    stream.replay(exec);
    latch.open();
    expect(await valuesOf(value, stream)).to.deep.equal([22]);
    expect(await valuesOf(one, stream)).to.deep.equal([5]);
  });
}
