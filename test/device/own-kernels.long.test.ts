/**
 * Tests device.loadKernels() with source and with images, eager and captured, in every thread. Also
 * tests which declarations and images it rejects.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { compileWith, formats } from '../../src/device/own-kernels/compilers.ts';
import { firstNonFinite } from '../../src/entries/learner.ts';
import { type Device, type LoadedKernel, openDevice, type Stream } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { saxpySource } from './saxpy.ts';

describe('device/own-kernels', () => {
  const family = TESTED.split(':')[0] as 'host' | 'cuda' | 'rocm' | 'xpu';
  const saxpy = {
    tensors: ['float32', 'float32'],
    wholes: 1,
    reals: 1,
    writes: 1,
    need: ({ wholes: [n = 0] }: { wholes: readonly number[] }) => [4 * n, 4 * n],
  } as const;
  const tally = { tensors: ['int32', 'uint8'], wholes: 2 } as const;
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.currentStream;
  });
  after(() => device.close());

  const load = () =>
    device.loadKernels({ name: 'mine', source: saxpySource, kernels: { saxpy, tally } });
  const floats = (...values: number[]) =>
    device.allocate({ shape: [values.length] }).write(Float32Array.from(values));

  it('loadKernels() compiles kernels for float32, int32 and uint8 tensors from source', async () => {
    const kernels = await load();
    using y = floats(1, 2, 3);
    using x = floats(10, 20, 30);
    stream.launch(kernels.saxpy, { tensors: [y, x], wholes: [3], reals: [0.5] });
    expect([...(await y.toArray())]).to.deep.equal([6, 12, 18]);
    using counts = device.allocate({ shape: [2], dtype: 'int32' });
    using bytes = device
      .allocate({ shape: [2, 3], dtype: 'uint8' })
      .write(Uint8Array.of(1, 2, 3, 200, 200, 200));
    stream.launch(kernels.tally, { tensors: [counts, bytes], wholes: [2, 3] });
    expect([...(await counts.toArray())]).to.deep.equal([6, 600]);
  });

  itAll('a captured graph keeps a loaded kernel after its device object is closed', async () => {
    const own = openDevice(TESTED);
    const { saxpy: kernel } = await own.loadKernels({
      name: 'held',
      source: saxpySource,
      kernels: { saxpy },
    });
    using y = floats(1, 1);
    using x = floats(1, 2);
    using captured = device.createStream();
    await stream.synchronize();
    captured.beginCapture();
    captured.launch(kernel, { tensors: [y, x], wholes: [2], reals: [1] });
    using graph = captured.endCapture();
    using exec = graph.instantiate();
    own.close();
    for (let i = 0; i < 3; i++) captured.replay(exec);
    expect([...(await y.toArray(captured))]).to.deep.equal([4, 7]);
  });

  itAll('loadKernels() compiles a source once for concurrent and repeated calls', async () => {
    const [a, b] = await Promise.all([load(), load()]);
    const c = await load();
    expect([b.saxpy.handle, c.saxpy.handle, a.tally.handle]).to.deep.equal(
      Array(3).fill(a.saxpy.handle),
    );
    const other = await device.loadKernels({
      name: 'mine',
      source: `${saxpySource}\n`,
      kernels: { saxpy, tally },
    });
    expect(other.saxpy.handle).to.not.equal(a.saxpy.handle);
  });

  it('a loaded kernel that is posted to another thread launches there', async () => {
    const { saxpy: kernel } = await load();
    using y = floats(1, 2);
    using x = floats(1, 1);
    await stream.synchronize();
    const script = `
      const { parentPort, workerData } = require('node:worker_threads');
      import(workerData.index).then(async ({ openDevice, Tensor }) => {
        const device = openDevice(workerData.device);
        const lent = (handle) => new Tensor({ handle, device, bytes: 8, closed: false }, [2], 'float32');
        const stream = device.createStream();
        stream.launch(workerData.kernel, { tensors: workerData.tensors.map(lent), wholes: [2], reals: [3] });
        await stream.synchronize();
        stream.close(), device.close();
        parentPort.postMessage('done');
      });`;
    const worker = new Worker(script, {
      eval: true,
      workerData: {
        index: new URL('../../src/index.js', import.meta.url).href,
        device: TESTED,
        kernel,
        tensors: [y.handle, x.handle],
      },
    });
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    await new Promise((resolve) => worker.once('exit', resolve));
    expect([...(await y.toArray())]).to.deep.equal([4, 5]);
  });

  itAll(
    'a loaded kernel is unloaded when its device closes, and a later launch throws',
    async () => {
      const own = openDevice(TESTED === 'host:0' ? 'host:3' : TESTED);
      if (TESTED !== 'host:0') device.close(); // An open device would keep the kernels.
      const before = openHandles().kernels;
      const { saxpy: kernel } = await own.loadKernels({ source: saxpySource, kernels: { saxpy } });
      expect(openHandles().kernels).to.equal((before ?? 0) + 1);
      own.close();
      if (TESTED !== 'host:0') device = openDevice(TESTED);
      expect(openHandles().kernels).to.equal(TESTED === 'host:0' ? before : 0);
      using y = floats(1);
      using x = floats(1);
      const error = refusal(() =>
        device.currentStream.launch(kernel, { tensors: [y, x], wholes: [1], reals: [1] }),
      );
      expect(error.code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
      stream = device.currentStream;
      expect(
        (await rejection(() => own.loadKernels({ source: saxpySource, kernels: { saxpy } }))).code,
      ).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    },
  );

  it('firstNonFinite() names the loaded kernel that wrote a NaN', async () => {
    const { saxpy: kernel } = await load();
    using y = floats(1, 2);
    using x = floats(1, Number.NaN);
    const found = await firstNonFinite(device, (on) =>
      on.launch(kernel, { tensors: [y, x], wholes: [2], reals: [1] }),
    );
    expect(found).to.include({ operation: 0, kernel: 'saxpy', tensor: 'tensor 0', index: 1 });
  });

  describe('errors', () => {
    let kernels: Record<'saxpy' | 'tally', LoadedKernel>;
    before(async () => {
      kernels = await load();
    });

    it('launch() throws for tensors and numbers that differ from the declaration', () => {
      using y = floats(1, 2);
      using x = floats(1, 2);
      using half = device.allocate({ shape: [2], dtype: 'float16' });
      const launched = (args: object) =>
        refusal(() => stream.launch(kernels.saxpy, args as never)).message;
      const good = { tensors: [y, x], wholes: [2], reals: [1] };
      expect(launched({ ...good, tensors: [y] })).to.equal("kernel 'saxpy' takes 2 tensors, got 1");
      expect(launched({ ...good, wholes: [] })).to.equal(
        "kernel 'saxpy' takes 1 whole numbers, got 0",
      );
      expect(launched({ ...good, reals: [1, 2] })).to.equal("kernel 'saxpy' takes 1 reals, got 2");
      expect(launched({ ...good, tensors: [y, half] })).to.equal(
        "kernel 'saxpy': tensor 1 must be float32, got float16",
      );
      expect(launched({ ...good, wholes: [3] })).to.include(
        'tensor 0 covers 8 bytes, 12 are needed',
      );
      expect(launched({ ...good, wholes: [0.5] })).to.include('wholes[0] must be a whole number');
      expect(launched({ ...good, block: 3 })).to.include("unknown option 'block'");
      expect(refusal(() => stream.launch({} as never, good as never)).message).to.include(
        'device.loadKernels()',
      );
    });

    it('launch() throws on a stream of another device', () => {
      using other = openDevice(TESTED === 'host:1' ? 'host:0' : 'host:1');
      using y = other.allocate({ shape: [1] });
      const args = { tensors: [y, y], wholes: [1], reals: [1] };
      const { message } = refusal(() => other.currentStream.launch(kernels.saxpy, args));
      expect(message).to.include(`was loaded on ${TESTED}`).and.include('load it there too');
    });

    it('loadKernels() rejects invalid declarations', async () => {
      const why = async (declared: unknown, more: object = {}) =>
        (
          await rejection(() =>
            device.loadKernels({ source: saxpySource, kernels: declared as never, ...more }),
          )
        ).message;
      expect(await why({})).to.include('declare at least one kernel, got none');
      expect(await why({ 'a b': saxpy })).to.include('not the name of a C function');
      expect(await why({ saxpy: { ...saxpy, tensors: ['float'] } })).to.include('unknown dtype');
      expect(await why({ saxpy: { ...saxpy, wholes: 13 } })).to.include('at most 12');
      expect(await why({ saxpy: { ...saxpy, writes: 3 } })).to.include('writes');
      expect(await why({ saxpy: { ...saxpy, needs: 1 } })).to.include("unknown option 'needs'");
      expect(await why({ saxpy: { ...saxpy, need: 8 } })).to.include('need is a function');
      expect(await why({ saxpy }, { images: { gpu: [] } })).to.include("unknown option 'gpu'");
      expect(await why({ saxpy }, { source: undefined })).to.include('neither an image');
      expect(await why({ saxpy }, { source: new URL('file:///no/such.gk') })).to.include(
        '/no/such.gk',
      );
      expect(await why({ saxpy }, { source: 7 })).to.include('source must be a text');
    });

    itAll(
      'loadKernels() rejects a source that does not compile, with the compiler message and line',
      async () => {
        const folder = mkdtempSync(join(tmpdir(), 'hotslot-own-'));
        const file = join(folder, 'broken.gk');
        writeFileSync(file, saxpySource.replace('+ y[i];', '+ z[i];'));
        try {
          const source = new URL(`file://${file}`);
          const error = await rejection(() => device.loadKernels({ source, kernels: { saxpy } }));
          expect(error.code).to.equal('ERR_HOTSLOT_COMPILE');
          expect(error.message)
            .to.include('does not compile')
            .and.match(/broken\.gk:3:\d+: error: .*'z'/);
        } finally {
          rmSync(folder, { recursive: true });
        }
      },
    );

    itAll(
      'loadKernels() rejects kernels that the source lacks or declares differently',
      async () => {
        const missing = await rejection(() =>
          device.loadKernels({ source: saxpySource, kernels: { other: saxpy } }),
        );
        expect(missing.message).to.include('other');
        // AMD's code objects have no argument counts to compare with.
        if (family === 'rocm') return;
        const declared = { saxpy: { ...saxpy, wholes: 2 } };
        const differs = await rejection(() =>
          device.loadKernels({ source: saxpySource, kernels: declared }),
        );
        expect(differs.message).to.include(
          "'saxpy' is declared with 2 tensors, 2 whole numbers and 1 real",
        );
      },
    );

    it('loadKernels() rejects images of other families and bytes that are no image', async () => {
      const why = async (image: unknown) =>
        (
          await rejection(() =>
            device.loadKernels({ images: { [family]: image } as never, kernels: { saxpy } }),
          )
        ).message;
      const spirv = Uint8Array.of(3, 2, 0x23, 7, 0, 0, 0, 0);
      const library = new Uint8Array(64);
      library.set([0x7f, 0x45, 0x4c, 0x46]);
      library[18] = 62;
      if (family !== 'xpu') expect(await why(spirv)).to.include('is SPIR-V; ');
      if (family !== 'host') expect(await why(library)).to.include('is a shared library; ');
      if (family !== 'cuda')
        expect(await why(Buffer.from('.version 6.3\n'))).to.include('is PTX; ');
      expect(await why('/no/such/image')).to.include('/no/such/image');
      expect(await why(7)).to.include('an image is its bytes');
      expect(await why(Buffer.from('nothing'))).to.match(
        /is no (shared library|SPIR-V)|do not load/,
      );
    });
  });

  if (ON_HOST) {
    itAll('loadKernels() loads a shared library from its path and from its bytes', async () => {
      const path = await compileWith(formats.host, { text: saxpySource, file: 'saxpy.gk' });
      for (const host of [path, readFileSync(path)]) {
        const kernels = await device.loadKernels({ images: { host }, kernels: { saxpy } });
        using y = floats(1);
        using x = floats(2);
        stream.launch(kernels.saxpy, { tensors: [y, x], wholes: [1], reals: [2] });
        expect([...(await y.toArray())]).to.deep.equal([5]);
      }
      const declared = { saxpy: { ...saxpy, tensors: ['float32', 'int32'] as const } };
      const error = await rejection(() =>
        device.loadKernels({ images: { host: path }, kernels: declared }),
      );
      expect(error.message)
        .to.include('in ')
        .and.include('it takes 2 tensors, 1 whole number and 1 real: float32, float32');
    });
  }
});
