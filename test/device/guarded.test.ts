/**
 * Tests guarded work of the CPU device: launches, copies and fills that run only if a word is a
 * multiple of a number when the device reaches them.
 */
import { expect } from 'chai';
import { captureGraph } from '../../src/device/graph/shared.ts';
import { guarded } from '../../src/device/guarded.ts';
import { DeviceGenerator } from '../../src/entries/graph.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { refusal, refusesWith } from '../rig/refusal.ts';
import { add, tensorOf, valuesOf } from '../rig/tensors.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

describe('device/guarded', () => {
  let device: Device;
  let stream: Stream;
  let word: Tensor<'int32'>;
  let one: Tensor;
  before(() => {
    device = openDevice('host:0');
  });
  beforeEach(async () => {
    stream = device.createStream();
    word = (await tensorOf(device, [0], 'int32')) as Tensor<'int32'>;
    one = await tensorOf(device, [1]);
  });
  afterEach(() => {
    for (const each of [stream, word, one]) each.close();
  });
  after(() => device.close());

  const countUp = (on: Stream = stream) => on.launch('count_up', { tensors: [word] });
  const zeros = (n: number) => tensorOf(device, new Array<number>(n).fill(0));
  /** Enqueues a launch, a fill and a copy on elements of `to`, which is [sum, filled, copied]. */
  const work = (on: Stream, to: Tensor) => {
    const [sum, filled, copied] = [0, 1, 2].map((offset) => to.view({ shape: [1], offset }));
    add(on, sum as Tensor, one);
    on.fill(filled as Tensor, 7);
    on.copy(copied as Tensor, sum as Tensor);
  };

  it('runs issued work if and only if the word is a multiple of every', async () => {
    for (const [value, every] of [
      [0, 2],
      [1, 2],
      [6, 3],
      [-6, 3],
      [-5, 3],
      [7, 2 ** 31 - 1],
      [2 ** 31 - 1, 2 ** 31 - 1],
      [-(2 ** 31), 2],
      [5, 1],
    ] as const) {
      using to = await zeros(3);
      stream.fill(word, value);
      guarded(stream, { word, every }, () => work(stream, to));
      const wanted = value % every === 0 ? [1, 7, 1] : [0, 0, 0];
      expect(await valuesOf(to, stream), `${value} % ${every}`).to.deep.equal(wanted);
    }
  });

  it('reads the word when the device reaches the work, in each replay and for each piece of work', async () => {
    using some = await zeros(3);
    using all = await zeros(1);
    using stuck = (await tensorOf(device, [0], 'int32')) as Tensor<'int32'>;
    const enqueue = (on: Stream) => {
      countUp(on);
      guarded(on, { word, every: 3 }, () => work(on, some));
      // The first piece of work changes the word, so the second one is skipped.
      guarded(on, { word: stuck, every: 2 }, () => {
        on.launch('count_up', { tensors: [stuck] });
        on.fill(one, 100);
      });
      add(on, all, one);
    };
    stream.beginCapture();
    enqueue(stream);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    const history: number[][] = [];
    for (let i = 0; i < 10; i++) {
      stream.replay(exec);
      history.push(await valuesOf(some, stream));
    }
    const sums = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3];
    expect(history).to.deep.equal(sums.map((sum) => (sum === 0 ? [0, 0, 0] : [sum, 7, sum])));
    expect(await valuesOf(word, stream)).to.deep.equal([10]);
    expect(await valuesOf(stuck, stream)).to.deep.equal([1]);
    for (let i = 0; i < 5; i++) enqueue(stream);
    expect(await valuesOf(some, stream), 'issued after the replays').to.deep.equal([5, 7, 5]);
    expect(await valuesOf(all, stream), 'work that is not guarded').to.deep.equal([15]);
  });

  it('does not advance a generator whose draws are skipped', async () => {
    using eager = new DeviceGenerator(device, { seed: 5 });
    using captured = new DeviceGenerator(device, { seed: 5 });
    using wanted = device.allocate({ shape: [6] });
    using out = device.allocate({ shape: [6] });
    await device.currentStream.synchronize(); // waits until the seeds are written
    const { exec } = captureGraph(device, { what: 'the test', pool: null }, (on) => {
      countUp(on);
      guarded(on, { word, every: 4 }, () => captured.normal(on, out));
    });
    for (let i = 1; i <= 10; i++) {
      stream.replay(exec);
      if (i % 4 === 0) eager.normal(stream, wanted);
      expect(await valuesOf(out, stream), `replay ${i}`).to.deep.equal(
        await valuesOf(wanted, stream),
      );
    }
    expect(await captured.state(stream)).to.deep.equal({ seed: 5n, offset: 4n });
    exec.close();
  });

  it('guards neither the work of other streams nor later work, also when fn throws', async () => {
    using to = await zeros(3);
    using others = await zeros(3);
    using other = device.createStream();
    stream.fill(word, 1);
    await stream.synchronize();
    const broken = new Error('broken');
    const thrown = refusal(() =>
      guarded(stream, { word, every: 2 }, () => {
        work(stream, to);
        work(other, others);
        throw broken;
      }),
    );
    expect(thrown).to.equal(broken);
    expect(await valuesOf(to, stream)).to.deep.equal([0, 0, 0]);
    expect(await valuesOf(others, other)).to.deep.equal([1, 7, 1]);
    work(stream, to);
    expect(await valuesOf(to, stream)).to.deep.equal([1, 7, 1]);
  });

  it('refuses a nested guard, and the outer guard stays', async () => {
    using to = await zeros(3);
    using other = device.createStream();
    stream.fill(word, 1);
    guarded(stream, { word, every: 2 }, () => {
      for (const on of [stream, other]) {
        const error = refusal(() => guarded(on, { word, every: 1 }, () => work(on, to)));
        expect(error.code, error.message).to.equal('ERR_HOTSLOT_STATE_BUSY');
      }
      work(stream, to);
    });
    expect(await valuesOf(to, stream)).to.deep.equal([0, 0, 0]);
  });

  it('refuses events, replays, prefetches and captures of its stream, and allows those of others', async () => {
    using event = device.createEvent();
    using other = device.createStream();
    other.beginCapture();
    using graph = other.endCapture();
    using exec = graph.instantiate();
    using page = device.allocateManaged({ shape: [1] });
    const calls: [named: string, call: (on: Stream) => void][] = [
      ['eventRecord', (on) => on.record(event)],
      ['streamWaitEvent', (on) => on.wait(event)],
      ['graphLaunch', (on) => on.replay(exec)],
      ['memPrefetchAsync', (on) => on.prefetch(page, 0)],
      ['streamBeginCapture', (on) => on.beginCapture()],
      ['streamEndCapture', (on) => on.endCapture().close()],
    ];
    guarded(stream, { word, every: 1 }, () => {
      for (const [named, call] of calls) {
        refusesWith(1, 'INVALID_VALUE', () => call(stream), named);
        call(other);
      }
    });
    await Promise.all([stream.synchronize(), other.synchronize()]);
    stream.beginCapture();
    guarded(stream, { word, every: 1 }, () => {
      for (const external of [false, true])
        refusesWith(1, 'INVALID_VALUE', () => stream.record(event, { external }), 'eventRecord');
      refusesWith(1, 'INVALID_VALUE', () => stream.endCapture(), 'streamEndCapture');
    });
    stream.endCapture().close(); // the refused calls have not broken the capture
  });

  it('keeps a word that is closed after the call, and refuses closed tensors', async () => {
    using to = await zeros(3);
    const owned = (await tensorOf(device, [2, 4], 'int32')) as Tensor<'int32'>;
    const second = owned.view({ shape: [1], offset: 1 });
    stream.beginCapture();
    guarded(stream, { word: second, every: 4 }, () => {
      owned.close();
      work(stream, to);
    });
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    // The memory of a closed word must not be used again.
    using spare = (await tensorOf(device, [1, 1], 'int32')) as Tensor<'int32'>;
    stream.replay(exec);
    expect(await valuesOf(to, stream)).to.deep.equal([1, 7, 1]);
    const closed = refusal(() => guarded(stream, { word: owned, every: 1 }, () => {}));
    expect(closed.code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    spare.close();
    const inside = refusal(() => guarded(stream, { word, every: 1 }, () => stream.fill(spare, 1)));
    expect(inside.code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    guarded(stream, { word, every: 1 }, () => work(stream, to)); // no guard is left open
  });

  it('refuses wrong arguments', () => {
    const codeOf = (on: unknown, guard: unknown, fn: unknown = () => {}) =>
      refusal(() =>
        guarded(on as Stream, guard as { word: typeof word; every: number }, fn as () => void),
      ).code;
    const type = 'ERR_HOTSLOT_ARGUMENT';
    const range = 'ERR_HOTSLOT_RANGE';
    using empty = device.allocate({ shape: [0], dtype: 'int32' });
    using bytes = device.allocate({ shape: [8], dtype: 'uint8' });
    const odd = bytes.view({ shape: [1], offset: 1 });
    expect(odd.dtype).to.equal('uint8');
    expect(codeOf(null, { word, every: 1 })).to.equal(type);
    expect(codeOf(stream, null)).to.equal(type);
    expect(codeOf(stream, { word, every: 1, more: 1 })).to.equal(type);
    for (const wrong of [null, one, empty, odd])
      expect(codeOf(stream, { word: wrong, every: 1 })).to.equal(type);
    expect(codeOf(stream, { word, every: '1' })).to.equal(type);
    for (const every of [0, -1, 1.5, Number.NaN, 2 ** 31])
      expect(codeOf(stream, { word, every })).to.equal(range);
    expect(codeOf(stream, { word, every: 1 }, null)).to.equal(type);
    expect(codeOf(stream, { word, every: 1 }, async () => {})).to.equal(type);
    guarded(stream, { word, every: 1 }, () => {}); // no guard is left open
  });

  it('is unavailable on devices other than CPU devices', function (this: Mocha.Context) {
    if (ON_HOST) this.skip();
    using other = openDevice(TESTED);
    using on = other.createStream();
    using there = other.allocate({ shape: [1], dtype: 'int32' });
    const error = refusal(() => guarded(on, { word: there, every: 1 }, () => {}));
    expect(error.code, error.message).to.equal('ERR_HOTSLOT_UNAVAILABLE');
  });
});
