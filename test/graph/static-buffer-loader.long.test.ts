/**
 * Tests static buffers. Every load returns the same tensors, copied on the loader's stream, and the
 * streams wait for each other.
 */
import { expect } from 'chai';
import { newSubmitter, TransferMode } from '../../src/device/transfer/native.ts';
import { StaticBufferLoader } from '../../src/entries/graph.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { tensorOf, valuesOf } from '../rig/tensors.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

describe('graph/static-buffer-loader', () => {
  let device: Device;
  let loader: StaticBufferLoader;
  let before: Record<string, number>;
  beforeEach(() => {
    device = openDevice(TESTED);
    before = openHandles();
    loader = new StaticBufferLoader(device);
  });
  afterEach(() => {
    loader.close();
    loader.close();
    expect(openHandles()).to.deep.equal(before);
    device.close();
  });

  it('load() returns the same buffers for a microbatch of a stage, with the newest data', async () => {
    const first = loader.load(
      { obs: new Float32Array([1, 2]), deep: [{ a: new Int32Array([3]) }] },
      'training',
      0,
    );
    const other = loader.load(
      { obs: new Float32Array([5, 6]), deep: [{ a: new Int32Array([7]) }] },
      'training',
      1,
    );
    const check = loader.load({ obs: new Float32Array([8]) }, 'validation', 0);
    const again = loader.load(
      { obs: new Float32Array([9, 9]), deep: [{ a: new Int32Array([9]) }] },
      'training',
      0,
    );
    const tensors = ({ obs, deep }: Record<string, unknown>) => [
      obs,
      (deep as { a: Tensor }[] | undefined)?.[0]?.a,
    ];
    for (const each of [again, loader.staticBuffers.training[0]!])
      expect(tensors(each).map((tensor, i) => tensor === tensors(first)[i])).to.deep.equal([
        true,
        true,
      ]);
    expect(loader.staticBuffers.training[1]?.obs).to.equal(other.obs);
    expect(loader.staticBuffers.validation[0]?.obs).to.equal(check.obs);
    expect(await valuesOf(first.obs as Tensor)).to.deep.equal([9, 9]);
    expect(await valuesOf((first.deep as { a: Tensor }[])[0]?.a as Tensor)).to.deep.equal([9]);
    expect(await valuesOf(other.obs as Tensor)).to.deep.equal([5, 6]);
    expect(await valuesOf(check.obs as Tensor)).to.deep.equal([8]);
  });

  it('load() accepts keys added later, and an array of one object in place of the object', async () => {
    const first = loader.load([{ obs: new Float32Array([1]) }], 'training', 0);
    const obs = first.obs;
    const again = loader.load(
      { obs: new Float32Array([2]), reward: new Float32Array([3]) },
      'training',
      0,
    );
    expect(again.obs).to.equal(obs);
    expect(await valuesOf(again.reward as Tensor)).to.deep.equal([3]);
    expect(await valuesOf(again.obs as Tensor)).to.deep.equal([2]);
  });

  it('load() uses the same buffers after the caller has changed the returned structure', async () => {
    const load = (x: number) =>
      loader.load(
        { obs: new Float32Array([x]), deep: [{ a: new Float32Array([x]) }] },
        'training',
        0,
      );
    const first = load(1);
    const { obs, deep } = first as { obs: Tensor; deep: { a?: Tensor }[] };
    const a = deep[0]!.a as Tensor;
    for (const spoilt of [first, loader.staticBuffers.training[0]!, load(2)]) {
      delete spoilt.obs;
      delete (spoilt.deep as { a?: Tensor }[])[0]!.a;
      spoilt.extra = new Float32Array([7]);
    }
    const last = load(3);
    expect(Object.keys(last)).to.deep.equal(['obs', 'deep']);
    expect(last.obs).to.equal(obs);
    expect([await valuesOf(obs), await valuesOf(a)]).to.deep.equal([[3], [3]]);
  });

  it('load() accepts added keys with the names of inherited properties', async () => {
    loader.load({ obs: new Float32Array([1]) }, 'training', 0);
    const later = {
      obs: new Float32Array([1]),
      toString: new Float32Array([2]),
      constructor: new Float32Array([3]),
    };
    const buffers = loader.load(later, 'training', 0);
    expect(await valuesOf(buffers.toString as unknown as Tensor)).to.deep.equal([2]);
    expect(await valuesOf(buffers.constructor as unknown as Tensor)).to.deep.equal([3]);
  });

  it('a load that throws leaves the buffers of added keys unchanged', async () => {
    using closed = await tensorOf(device, [1]);
    closed.close();
    const obs = new Float32Array([1]);
    loader.load({ obs }, 'training', 0);
    const { later } = loader.load({ obs, later: obs }, 'training', 0);
    expect(refusal(() => loader.load({ obs, other: closed }, 'training', 0)).code).to.equal(
      'ERR_HOTSLOT_STATE_CLOSED',
    );
    expect([
      loader.staticBuffers.training[0]?.later === later,
      (later as Tensor).closed,
    ]).to.deep.equal([true, false]);
  });

  it('the copy waits for readers of the buffer, later work waits for the copy, and load() never blocks', async () => {
    const buffers = loader.load({ obs: new Float32Array([1]) }, 'training', 0);
    await device.currentStream.synchronize();
    using out = device.allocate({ shape: [1] });
    using later = device.allocate({ shape: [1] });
    using stream = device.createStream();
    using latch = new Latch(device).hold(stream);
    device.withStream(stream, () => {
      stream.copy(out, buffers.obs as Tensor);
      loader.load({ obs: new Float32Array([2]) }, 'training', 0);
      stream.copy(later, buffers.obs as Tensor);
    });
    expect(stream.query(), 'the held stream has run nothing').to.equal(false);
    latch.open();
    expect([await valuesOf(later, stream), await valuesOf(out, stream)]).to.deep.equal([[2], [1]]);
  });

  it('a load completes while later work of the current stream is held', async () => {
    using word = await tensorOf(device, [4]);
    using stream = device.createStream();
    using latch = new Latch(device);
    const buffers = device.withStream(stream, () => loader.load({ obs: word }, 'training', 0));
    using loaded = device.createEvent();
    stream.record(loaded);
    latch.hold(stream);
    // A stream that waits only for the loader does not wait for the latch.
    using other = device.createStream();
    other.wait(loaded);
    expect(await valuesOf(buffers.obs as Tensor, other)).to.deep.equal([4]);
    latch.open();
    expect(await valuesOf(buffers.obs as Tensor, stream)).to.deep.equal([4]);
  });

  it('load() throws for missing nested keys and elements, and copies nothing', async () => {
    const f = (value: number) => new Float32Array([value]);
    const first = loader.load({ a: { b: f(1), c: f(1) }, l: [f(1), f(1)] }, 'training', 0);
    for (const [inputs, words] of [
      [{ a: { b: f(2) }, l: [f(2), f(2)] }, "has no 'a.c'"],
      [{ a: { b: f(2), c: f(2) }, l: [f(2)] }, "has no 'l[1]'"],
      [{ a: { b: f(2), c: f(2) }, l: [f(2), f(2), f(2)] }, 'l has 3 elements, the target 2'],
    ] as const)
      expect(refusal(() => loader.load(inputs as never, 'training', 0)).message).to.include(words);
    expect(await valuesOf((first.a as { b: Tensor }).b)).to.deep.equal([1]);
  });

  it('load() works on another stream after the current stream has failed', async function () {
    if (!ON_HOST) this.skip(); // on a GPU, a failed stream loses the device
    loader.load({ obs: new Float32Array([1]) }, 'training', 0);
    using bad = device.createStream();
    bad.launch('fail');
    try {
      device.withStream(bad, () => loader.load({ obs: new Float32Array([2]) }, 'training', 0));
    } catch {
      // the stream had already failed
    }
    using good = device.createStream();
    const buffers = device.withStream(good, () =>
      loader.load({ obs: new Float32Array([3]) }, 'training', 0),
    );
    expect(await valuesOf(buffers.obs as Tensor, good)).to.deep.equal([3]);
  });

  itAll(
    'close() closes a buffer that an actor pins, and its memory is freed when the actor closes',
    () => {
      const before = openHandles();
      const { obs } = loader.load(
        { obs: new Float32Array(2), next: new Float32Array(2) },
        'training',
        0,
      ) as {
        obs: Tensor;
      };
      using stream = device.createStream();
      using event = device.createEvent();
      const host = device.registerHost(new Uint8Array(new SharedArrayBuffer(8)));
      const submitter = newSubmitter({
        stream: stream.handle,
        copied: [event.handle],
        hosts: [host.handle],
        hostOffsets: [0],
        slots: [obs.handle],
        mode: TransferMode.immediate,
      });
      loader.close();
      expect([loader.closed, obs.closed]).to.deep.equal([true, true]);
      expect(refusal(() => loader.load({}, 'training', 0)).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
      const pinned = openHandles().memory as number;
      submitter.close();
      expect(
        pinned - (openHandles().memory as number),
        'memory handles that the actor frees',
      ).to.equal(1);
      host.close();
      expect(openHandles().memory).to.equal(before.memory);
    },
  );

  it('load() throws for skipped microbatches, other stages, missing keys and other shapes', () => {
    const obs = new Float32Array(2);
    loader.load({ obs, reward: obs }, 'training', 0);
    for (const [call, words] of [
      [() => loader.load({ obs }, 'training', 2), 'microbatch 2 of training skips: 1 were loaded'],
      [
        () => loader.load({ obs }, 'validation', 1),
        'microbatch 1 of validation skips: 0 were loaded',
      ],
      [() => loader.load({ obs }, 'training', -1), 'got -1'],
      [
        () => loader.load({ obs }, 'testing' as never, 0),
        "'training' or 'validation', got 'testing'",
      ],
      [() => loader.load({ obs }, 'training', 0), "training microbatch 0 has no 'reward'"],
      [
        () => loader.load({ obs: new Float32Array(3), reward: obs }, 'training', 0),
        'training microbatch 0: obs is float32 3',
      ],
      [() => loader.load([obs] as never, 'training', 1), 'object of named tensors'],
      [() => loader.load([{ obs }, { obs }] as never, 'training', 1), 'an array of 2'],
      [() => loader.load(null as never, 'training', 1), 'got null'],
    ] as const)
      expect(refusal(call as () => unknown).message).to.include(words);
    expect(loader.staticBuffers.training).to.have.length(1);
    loader.close();
    expect(refusal(() => loader.load({ obs }, 'training', 0)).code).to.equal(
      'ERR_HOTSLOT_STATE_CLOSED',
    );
  });
});
