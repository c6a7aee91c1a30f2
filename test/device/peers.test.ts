/** Tests two devices of one family: copies between them, in the order that events set. */
import { expect } from 'chai';
import { StaticBufferLoader } from '../../src/entries/graph.ts';
import { type Device, listDevices, openDevice, type Tensor } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';
import { captured } from './contract/graphs.ts';

const family = TESTED.split(':')[0] as string;
// The host family lists only its first device, and has eight.
const second = family === 'host' || listDevices().some(({ name }) => name === `${family}:1`);

describe(`${family}: peer devices`, () => {
  if (!second) {
    it.skip(`there is only one ${family} device`);
    return;
  }
  let here: Device;
  let there: Device;
  before(() => {
    here = openDevice(`${family}:0`);
    there = openDevice(`${family}:1`);
  });

  it('copy to each other in the order that events set', async () => {
    using a = await tensorOf(here, [1, 2, 3]);
    using b = there.allocate({ shape: [3] });
    using back = here.allocate({ shape: [3] });
    using one = await tensorOf(there, [10, 10, 10]);
    using first = here.createStream();
    using second = there.createStream();
    using latch = new Latch(here).hold(first);
    using ready = here.createEvent();
    using done = there.createEvent();
    first.fill(a, 5);
    first.record(ready);
    second.wait(ready);
    second.copy(b, a);
    add(second, b, one);
    second.record(done);
    first.wait(done);
    first.copy(back, b);
    expect([first.query(), second.query()]).to.deep.equal([false, false]);
    latch.open();
    expect(await valuesOf(back, first)).to.deep.equal([15, 15, 15]);
    expect(await valuesOf(b, second)).to.deep.equal([15, 15, 15]);
  });

  it('capture a copy between them, and launch the graph twice', async () => {
    using a = await tensorOf(here, [1, 2]);
    using b = there.allocate({ shape: [2] });
    using stream = here.createStream();
    stream.beginCapture();
    stream.copy(b, a);
    stream.fill(a, 7);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    expect(await valuesOf(b, stream)).to.deep.equal([1, 2]);
    stream.replay(exec);
    expect(await valuesOf(b, stream)).to.deep.equal([7, 7]);
  });

  it('a capture includes a stream of the peer, or wait() throws and the capture continues', async () => {
    using a = await tensorOf(here, [1]);
    using b = await tensorOf(there, [1]);
    using origin = here.createStream();
    using side = there.createStream();
    using fork = here.createEvent();
    using join = there.createEvent();
    origin.beginCapture();
    origin.fill(a, 2);
    origin.record(fork);
    // A capture on xpu is one command list of one device, so it cannot include a stream of the
    // peer.
    const joins = family !== 'xpu';
    if (joins) {
      side.wait(fork);
      side.fill(b, 3);
      side.record(join);
      origin.wait(join);
    } else {
      expect(refusal(() => side.wait(fork)).message).to.include(
        'xpu:1 cannot take part in a capture of xpu:0',
      );
      expect(side.capturing).to.equal(false);
    }
    using graph = origin.endCapture();
    using exec = graph.instantiate();
    origin.replay(exec);
    expect(await valuesOf(a, origin)).to.deep.equal([2]);
    expect(await valuesOf(b, side)).to.deep.equal([joins ? 3 : 1]);
  });

  it('record(), replay() and update() throw for an event or a graph of the peer', async () => {
    using a = await tensorOf(here, [1]);
    using b = await tensorOf(there, [1]);
    using stream = here.createStream();
    using other = there.createStream();
    using event = there.createEvent();
    stream.beginCapture();
    stream.fill(a, 2);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    using others = captured(other, () => other.fill(b, 2));
    const refused = (use: () => unknown) => refusal(use).message;
    expect(refused(() => stream.record(event))).to.match(
      /an event of \w+:1 cannot be recorded on \w+:0: record one of/,
    );
    expect(refused(() => other.replay(exec))).to.match(
      /a graph of \w+:0 cannot be replayed on \w+:1: replay it on/,
    );
    expect(refused(() => others.update(graph))).to.match(
      /a graph of \w+:0 cannot update an exec on \w+:1: instantiate/,
    );
    other.replay(others);
    other.record(event);
    stream.wait(event);
    stream.replay(exec);
    expect([await valuesOf(a, stream), await valuesOf(b, other)]).to.deep.equal([[2], [2]]);
  });

  it('closed memory stays allocated until the peer has copied it', async () => {
    using stream = there.createStream();
    using latch = new Latch(there).hold(stream);
    const a = await tensorOf(here, Array(4096).fill(3));
    using b = there.allocate({ shape: [4096] });
    stream.copy(b, a);
    a.close();
    using other = here.allocate({ shape: [4096] });
    latch.open();
    expect(new Set(await valuesOf(b, stream))).to.deep.equal(new Set([3]));
    expect(new Set(await valuesOf(other))).to.deep.equal(new Set([0]));
  });

  it('StaticBufferLoader.load() copies data of the peer before a later write to that data', async () => {
    using source = await tensorOf(there, [1, 2]);
    using loader = new StaticBufferLoader(here);
    using stream = here.createStream();
    for (const microbatch of [0, 0]) {
      using latch = new Latch(here).hold(stream);
      const buffers = here.withStream(stream, () =>
        loader.load({ x: source }, 'training', microbatch),
      );
      source.write(new Float32Array([30, 40]));
      expect(there.currentStream.query(), 'the later write waits for the copy').to.equal(false);
      latch.open();
      expect(await valuesOf(buffers.x as Tensor, stream)).to.deep.equal([1, 2]);
      source.write(new Float32Array([1, 2]));
    }
  });

  it('use managed memory of the peer in place, prefetch its pages and advise on them', async function () {
    if (here.traits.noManaged || there.traits.noManaged) this.skip(); // no managed memory
    using shared = here.allocateManaged({ shape: [2000] });
    using own = there.allocate({ shape: [2000] });
    using stream = there.createStream();
    stream.fill(shared, 2);
    stream.copy(own, shared);
    add(stream, own, shared);
    add(stream, shared, own);
    expect(new Set(await valuesOf(shared, stream))).to.deep.equal(new Set([6]));
    stream.beginCapture();
    stream.copy(shared, own);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.prefetch(shared, 1);
    stream.replay(exec);
    await stream.synchronize();
    if (there.traits.movesPages) {
      here.advise(shared, { accessedBy: 1 });
      expect(here.residency(shared)).to.deep.equal({
        location: 1,
        preferred: 0,
        accessedBy: [0, 1],
      });
    }
    expect(new Set(await valuesOf(shared))).to.deep.equal(new Set([4]));
  });

  it('calls throw for tensors and events of another device family', function () {
    // In this run the tested device is the CPU device, so there is no other family.
    if (family === 'host') this.skip();
    using elsewhere = openDevice('host:0').allocate({ shape: [1] });
    using event = openDevice('host:0').createEvent();
    using mine = here.allocate({ shape: [1] });
    using stream = here.createStream();
    const uses = [
      () => stream.copy(mine, elsewhere),
      () => stream.fill(elsewhere, 1),
      () => stream.launch('axpby', { tensors: [mine, elsewhere], wholes: [1], reals: [1, 1] }),
      () => stream.record(event),
      () => stream.wait(event),
      () => openDevice('host:0').currentStream.copy(elsewhere, mine),
    ];
    for (const use of uses)
      expect(refusal(use).message).to.match(/of the (host|\w+) family cannot be used with a/);
  });
});
