/**
 * Tests a transformer's buffers and streams: their reuse, their order with the caller's streams,
 * and captures.
 */
import { expect } from 'chai';
import { dtypes } from '../../src/base/dtype.ts';
import { captureGraph } from '../../src/device/graph/shared.ts';
import {
  HaloDataTransformer,
  HaloExchangeSpec,
  type HaloRange,
  QuantityHaloSpec,
} from '../../src/entries/halo.ts';
import type { Tensor } from '../../src/index.ts';
import { bits, goldenTransformer } from '../golden/halo.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { golden, packedBy, unpackInto } from './cases.ts';
import { closeTested, places, tested } from './places.ts';

describe('halo/transformer', () => {
  after(closeTested);

  for (const place of places) {
    describe(`on ${place}`, () => {
      it('a transformer reuses the buffers of a finalized one of the same layout', async () => {
        const each = golden.find(({ name }) => name.startsWith('vector/tile'))!;
        const first = goldenTransformer(each, place);
        first.getPackBuffer();
        first.getUnpackBuffer();
        const before = openHandles();
        const least = 2 * first.length * dtypes[each.dtype].bytes;
        await first.synchronize();
        const { bytes } = first.stats().buffers;
        first.finalize();
        // On a GPU an allocation makes the device look for freed memory.
        await until('the buffers are back', () => {
          if (place !== 'cpu')
            tested()
              .allocate({ shape: [1 << 20], zeroed: false })
              .close();
          return first.stats().buffers.bytes >= bytes + least;
        });
        const { buffers, streams, descriptors } = first.stats();
        const second = goldenTransformer(each, place);
        second.getPackBuffer();
        second.getUnpackBuffer();
        const after = second.stats();
        expect(after.buffers.misses - buffers.misses, 'buffers made').to.equal(0);
        expect(after.buffers.hits - buffers.hits, 'buffers used again').to.equal(2);
        expect(after.buffers.bytes).to.be.below(buffers.bytes);
        if (place !== 'cpu') {
          expect(openHandles()).to.deep.equal(before);
          expect(after.streams.misses).to.equal(streams.misses);
          expect(after.streams.hits - streams.hits).to.equal(1);
          expect(after.descriptors.misses).to.equal(descriptors.misses);
          expect(after.descriptors.hits - descriptors.hits).to.equal(2);
          expect(after.descriptors.bytes).to.equal(descriptors.bytes);
          expect(descriptors.bytes).to.be.above(0);
        }
        second.finalize();
      });
    });
  }

  describe(`streams of ${TESTED}`, () => {
    const specification = new QuantityHaloSpec({
      nPoints: 1,
      shape: [64, 64],
      origin: [1, 1],
      extent: [62, 62],
      dims: ['j', 'i'],
      dtype: 'float32',
    });
    const slices: HaloRange[] = [
      [0, 64],
      [1, 3],
    ];
    const spec = new HaloExchangeSpec({
      specification,
      packSlices: slices,
      packClockwiseRotation: 1,
      unpackSlices: slices,
    });

    /** Runs work on another stream. Work that could run has then run. */
    const turn = async () => {
      using stream = tested().createStream();
      using word = tested().allocate({ shape: [1] });
      for (let i = 0; i < 3; i++) {
        stream.fill(word, i);
        await stream.synchronize();
      }
    };

    it('asyncPack() runs after the current stream, and readers of its buffer run after the packing', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      using out = device.allocate({ shape: [transformer.length] });
      using first = device.createStream();
      using second = device.createStream();
      await device.currentStream.synchronize();
      using latch = new Latch(device).hold(first);
      first.fill(data, 1);
      device.withStream(first, () => transformer.asyncPack([{ data }]));
      device.withStream(second, () => second.copy(out, transformer.getPackBuffer() as Tensor));
      const packed = transformer.synchronize();
      await until('the latch is reached', () => latch.reached);
      await turn();
      expect(second.query(), 'copied before it was packed').to.equal(false);
      latch.open();
      await second.synchronize();
      expect(new Set(await valuesOf(out))).to.deep.equal(new Set([1]));
      await packed;
    });

    it('asyncUnpack() runs after the current stream has filled the buffer', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      using first = device.createStream();
      await device.currentStream.synchronize();
      using latch = new Latch(device).hold(first);
      device.withStream(first, () => {
        first.fill(transformer.getUnpackBuffer() as Tensor, 5);
        transformer.asyncUnpack([{ data }]);
      });
      await until('the latch is reached', () => latch.reached);
      await turn();
      latch.open();
      await transformer.synchronize();
      const values = await data.toArray();
      expect([values[0], values[1], values[2], values[3]]).to.deep.equal([0, 5, 5, 0]);
    });

    it('asyncPack() and asyncUnpack() can be captured in a graph and launched', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      const quantities = [{ data, shape: [64, 64] }];
      const { exec, nodeCount } = captureGraph(
        device,
        { what: 'capturing a halo', pool: null },
        (stream) => {
          transformer.asyncPack(quantities);
          stream.copy(
            transformer.getUnpackBuffer() as Tensor,
            transformer.getPackBuffer() as Tensor,
          );
          transformer.asyncUnpack(quantities);
        },
      );
      expect(nodeCount).to.equal(3);
      let wanted = Float32Array.from({ length: 64 * 64 }, (_, i) => i);
      data.write(wanted);
      for (let replay = 0; replay < 4; replay++) {
        const packed = packedBy([[spec]], [[wanted]]);
        wanted = wanted.slice();
        unpackInto([[spec]], [[wanted]], packed);
        device.currentStream.replay(exec);
        expect(bits(await data.toArray()), `replay ${replay}`).to.equal(bits(wanted));
      }
      exec.close();
    });

    it('asyncPack() and asyncUnpack() make one launch for up to ten arrays', () => {
      const device = tested();
      using data = device.allocate({ shape: [11, 64, 64] });
      for (const [edges, launches] of [
        [8, 1],
        [10, 1],
        [11, 2],
      ] as const) {
        const specs = new Array<HaloExchangeSpec>(edges).fill(spec);
        using transformer = HaloDataTransformer.get(device, specs);
        const quantities = specs.map((_, i) => ({
          data: data.view({ shape: [64, 64], offset: i * 64 * 64 }),
        }));
        for (const way of ['asyncPack', 'asyncUnpack'] as const) {
          const { exec, nodeCount } = captureGraph(device, { what: 'capturing', pool: null }, () =>
            transformer[way](quantities),
          );
          expect(nodeCount, `${way} of ${edges} edges`).to.equal(launches);
          exec.close();
        }
      }
    });

    it('calls throw inside a capture until a stream waits for the earlier work of the transformer', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      transformer.asyncPack([{ data }]);
      const captured = (fn: () => void) =>
        captureGraph(device, { what: 'capturing', pool: null }, fn).exec.close();
      for (const act of [
        () => transformer.getPackBuffer(),
        () => transformer.asyncUnpack([{ data }]),
      ])
        expect(refusal(() => captured(act)).message).to.match(/has not been joined: call join\(\)/);
      expect(refusal(() => captured(() => transformer.synchronizeSync())).code).to.match(
        /STATE_(CAPTURE|MAIN_THREAD)/,
      );
      transformer.join();
      captured(() => transformer.asyncUnpack([{ data }]));
      transformer.asyncUnpack([{ data }]);
      await transformer.synchronize();
      captured(() => transformer.asyncPack([{ data }]));
    });

    it('disposed transformers with pending work add at most 16 open streams', async () => {
      const device = tested();
      using data = device.allocate({ shape: [64, 64] });
      using held = device.createStream();
      const one = () => {
        const transformer = HaloDataTransformer.get(device, [spec]);
        transformer.asyncPack([{ data }]);
        return transformer;
      };
      const sixty = () => device.withStream(held, () => Array.from({ length: 60 }, one));
      // Leaves the resources of sixty transformers in the pools. While a stream is held, a driver
      // may be unable to allocate.
      for (const transformer of sixty()) transformer[Symbol.dispose]();
      await held.synchronize();
      using latch = new Latch(device).hold(held);
      const before = openHandles().stream as number;
      device.withStream(held, () => {
        for (let i = 0; i < 60; i++) one()[Symbol.dispose]();
      });
      expect((openHandles().stream as number) - before).to.be.at.most(16);
      latch.open();
      await held.synchronize();
    });

    it('HaloDataTransformer.get() throws inside a capture, and the capture continues', async () => {
      const device = tested();
      using data = device.allocate({ shape: [64, 64] });
      const { exec } = captureGraph(device, { what: 'capturing', pool: null }, (stream) => {
        expect(refusal(() => HaloDataTransformer.get(device, [spec])).code).to.equal(
          'ERR_HOTSLOT_STATE_CAPTURE',
        );
        stream.fill(data, 4);
      });
      device.currentStream.replay(exec);
      expect((await data.toArray())[5]).to.equal(4);
      exec.close();
    });

    it('disposed transformers leave no handle open', async () => {
      const device = tested();
      HaloDataTransformer.get(device, [spec]).finalize();
      const before = openHandles();
      for (let i = 0; i < 5; i++) {
        using transformer = HaloDataTransformer.get(device, [spec]);
        using data = device.allocate({ shape: [64, 64] });
        transformer.asyncPack([{ data }]);
      }
      expect(openHandles()).to.deep.equal(before);
    });
  });
});
