/** Tests events, which mark points in streams, and the time between them. */
import { expect } from 'chai';
import type { Device } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, refusesWith } from '../../rig/refusal.ts';
import { valuesOf } from '../../rig/tensors.ts';
import { until } from '../../rig/until.ts';

export function eventContract(device: () => Device): void {
  it('an event that was never recorded is done', async () => {
    using event = device().createEvent();
    using stream = device().createStream();
    expect(event.query()).to.equal(true);
    await event.done();
    stream.wait(event);
    await stream.synchronize();
  });

  it('an event that is recorded twice is done when its latest record is done', async () => {
    using held = device().createStream();
    using free = device().createStream();
    using event = device().createEvent();
    using latch = new Latch(device());
    free.record(event);
    await event.done();
    latch.hold(held);
    held.record(event);
    expect(event.query()).to.equal(false);
    free.record(event);
    await until('the latest record is done', () => event.query());
    expect(held.query(), 'the stream of the earlier record is still held').to.equal(false);
    latch.open();
    await held.synchronize();
    expect(event.query()).to.equal(true);
  });

  it('a second record of an event does not delay a stream that waits for the first record', async () => {
    using held = device().createStream();
    using first = device().createStream();
    using waiting = device().createStream();
    using event = device().createEvent();
    using latch = new Latch(device()).hold(held);
    using tensor = device().allocate({ shape: [1], dtype: 'int32' });
    first.record(event);
    waiting.wait(event);
    held.record(event);
    waiting.fill(tensor, 2);
    expect(await valuesOf(tensor, waiting)).to.deep.equal([2]);
    expect(event.query()).to.equal(false);
    latch.open();
    await event.done();
  });

  it('done() resolves for 20 concurrent waits, and for a wait that begins afterwards', async () => {
    using stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    const events = Array.from({ length: 20 }, () => device().createEvent());
    for (const event of events) stream.record(event);
    let resolved = 0;
    const waits = events.map((event) => event.done().then(() => resolved++));
    await until('the stream is held', () => latch.reached);
    expect(resolved).to.equal(0);
    latch.open();
    await Promise.all(waits);
    await events[0]!.done();
    for (const event of events) event.close();
  });

  it('elapsedMs() returns times that add up, or throws if the device cannot measure time', async () => {
    using stream = device().createStream();
    using first = device().createEvent({ timing: true });
    using second = device().createEvent({ timing: true });
    using third = device().createEvent({ timing: true });
    stream.record(first);
    stream.launch('spin', { wholes: [3000] });
    stream.record(second);
    stream.record(third);
    await third.done();
    if (!device().traits.timingEvents) {
      expect(refusal(() => second.elapsedMs(first)).message).to.include('cannot measure time');
      return;
    }
    expect(second.elapsedMs(first)).to.be.at.least(2.9);
    expect(third.elapsedMs(second)).to.be.at.least(0);
    expect(second.elapsedMs(first) + third.elapsedMs(second)).to.be.closeTo(
      third.elapsedMs(first),
      0.01,
    );
    expect(first.elapsedMs(first)).to.equal(0);
  });

  it('elapsedMs() throws for events without timing and for events that are not done', async () => {
    using stream = device().createStream();
    using latch = new Latch(device());
    using plain = device().createEvent();
    using timed = device().createEvent({ timing: true });
    using later = device().createEvent({ timing: true });
    stream.record(plain);
    stream.record(timed);
    await timed.done();
    expect(refusal(() => timed.elapsedMs(plain)).message).to.include('timing: true');
    expect(refusal(() => plain.elapsedMs(timed)).code).to.equal('ERR_HOTSLOT_ARGUMENT');
    if (!device().traits.timingEvents) return;
    refusesWith(600, 'NOT_READY', () => later.elapsedMs(timed));
    latch.hold(stream);
    stream.record(later);
    refusesWith(600, 'NOT_READY', () => later.elapsedMs(timed));
    latch.open();
    await later.done();
    expect(later.elapsedMs(timed)).to.be.at.least(0);
  });
}
