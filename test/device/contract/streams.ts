/**
 * Tests streams: order within a stream, independence of several streams, and the current stream of
 * a thread.
 */
import { expect } from 'chai';
import { type Device, openDevice } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, rejection } from '../../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';

export function streamContract(device: () => Device): void {
  it('execute work in the order in which it was enqueued', async () => {
    using stream = device().createStream();
    using a = await tensorOf(device(), [1, 1]);
    using b = device().allocate({ shape: [2] });
    for (let i = 0; i < 50; i++) {
      stream.copy(b, a);
      add(stream, a, b);
      if (i % 10 === 9) stream.fill(a, i);
    }
    expect(await valuesOf(a, stream)).to.deep.equal([49, 49]);
    expect(await valuesOf(b, stream)).to.deep.equal([39 * 512, 39 * 512]);
  });

  it('enqueue without blocking, and query() returns false while earlier work is held', async () => {
    using stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    using tensor = device().allocate({ shape: [1] });
    using event = device().createEvent();
    stream.fill(tensor, 1);
    stream.record(event);
    await until('the stream is held', () => latch.reached);
    expect([stream.query(), event.query()]).to.deep.equal([false, false]);
    latch.open();
    await until('the event is done', () => event.query());
    await until('the stream is done', () => stream.query());
  });

  it('synchronize() and done() reject when their signal is aborted', async () => {
    using stream = device().createStream();
    using event = device().createEvent();
    using latch = new Latch(device()).hold(stream);
    stream.record(event);
    for (const wait of [
      (options: { signal: AbortSignal }) => stream.synchronize(options),
      (options: { signal: AbortSignal }) => event.done(options),
    ]) {
      const controller = new AbortController();
      const waiting = rejection(() => wait({ signal: controller.signal }));
      controller.abort(new Error('enough'));
      expect((await waiting).message).to.equal('enough');
      expect((await rejection(() => wait({ signal: controller.signal }))).message).to.equal(
        'enough',
      );
      expect((await rejection(() => wait({ signal: 1 as never }))).code).to.equal(
        'ERR_HOTSLOT_ARGUMENT',
      );
      expect((await rejection(() => wait({ sgnal: 1 } as never))).message).to.include("'sgnal'");
    }
    expect(event.query()).to.equal(false);
    latch.open();
    await Promise.all([stream.synchronize(), event.done({ signal: new AbortController().signal })]);
    expect(event.query()).to.equal(true);
  });

  it('one stream executes while eight other streams are held', async () => {
    using latch = new Latch(device());
    const held = Array.from({ length: 8 }, () => device().createStream());
    using free = device().createStream();
    using tensor = device().allocate({ shape: [1] });
    for (const stream of held) {
      latch.hold(stream);
      free.fill(tensor, 1);
      // Only query() is called, so no thread helps the device to execute.
      await until('the free stream is done', () => free.query());
    }
    expect(held.map((stream) => stream.query())).to.deep.equal(held.map(() => false));
    latch.open();
    for (const stream of held) await stream.synchronize();
    for (const stream of held) stream.close();
  });

  it('an event releases a waiting stream even if its own stream is held right after it', async () => {
    using first = new Latch(device());
    using second = new Latch(device());
    using ahead = device().createStream();
    using behind = device().createStream();
    using passed = device().createEvent();
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    first.hold(ahead);
    ahead.record(passed);
    second.hold(ahead);
    behind.wait(passed);
    behind.fill(tensor, 5);
    expect(behind.query()).to.equal(false);
    first.open();
    await until('the waiting stream is done', () => behind.query());
    expect(await valuesOf(tensor, behind)).to.deep.equal([5]);
    expect(ahead.query()).to.equal(false);
    second.open();
    await ahead.synchronize();
  });

  it('events order the work of three streams', async () => {
    using a = device().createStream();
    using b = device().createStream();
    using c = device().createStream();
    using ready = device().createEvent();
    using copied = device().createEvent();
    using latch = new Latch(device()).hold(a);
    using source = device().allocate({ shape: [64], dtype: 'int32' });
    using middle = device().allocate({ shape: [64], dtype: 'int32' });
    using target = device().allocate({ shape: [64], dtype: 'int32' });
    a.fill(source, 11);
    a.record(ready);
    b.wait(ready);
    b.copy(middle, source);
    b.record(copied);
    c.wait(copied);
    c.copy(target, middle);
    expect([b.query(), c.query()]).to.deep.equal([false, false]);
    latch.open();
    expect(new Set(await valuesOf(target, c))).to.deep.equal(new Set([11]));
  });

  it('a closed stream finishes the work enqueued before close()', async () => {
    const stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    using done = device().createEvent();
    stream.fill(tensor, 4);
    stream.record(done);
    stream.close();
    latch.open();
    await done.done();
    expect(await valuesOf(tensor)).to.deep.equal([4]);
  });

  it('createStream() accepts priorities from −8 to 8, and throws for others', () => {
    for (const priority of [-8, 0, 8]) {
      using stream = device().createStream({ priority });
      expect(stream.priority).to.equal(priority);
    }
    for (const priority of [-9, 9, 0.5])
      expect(refusal(() => device().createStream({ priority })).message).to.include(
        String(priority),
      );
  });

  it('withStream() sets the current stream for every object of the device, and restores it after errors', async () => {
    const main = device().currentStream;
    using again = openDevice(device().name);
    using stream = device().createStream();
    using inner = again.createStream();
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    const got = device().withStream(stream, () => {
      expect(device().currentStream).to.equal(stream);
      expect(again.currentStream, 'one current stream per thread and device').to.equal(stream);
      again.withStream(inner, () => expect(device().currentStream).to.equal(inner));
      expect(refusal(() => device().withStream(inner, () => JSON.parse('{')))).to.be.instanceOf(
        SyntaxError,
      );
      expect(device().currentStream).to.equal(stream);
      tensor.write(new Int32Array([3]));
      return 'value';
    });
    expect(got).to.equal('value');
    expect(device().currentStream.handle).to.equal(main.handle);
    expect(await valuesOf(tensor, stream)).to.deep.equal([3]);
    main.close();
    expect(main.query(), 'the default stream belongs to the process').to.be.a('boolean');
  });
}
