/**
 * Tests managed memory, which has one address and pages that migrate. A device that cannot do
 * something must say so in its traits and throw.
 */
import { expect } from 'chai';
import type { Device } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, refusesWith } from '../../rig/refusal.ts';
import { add, valuesOf } from '../../rig/tensors.ts';

export function managedContract(device: () => Device, name: string): void {
  const index = Number(name.split(':')[1]);
  const managed = (test: () => void | Promise<void>) =>
    async function (this: Mocha.Context) {
      const { noManaged } = device().traits;
      if (!noManaged) return test();
      const error = refusal(() => device().allocateManaged({ shape: [4] }));
      expect([error.code, error.message.includes(noManaged)], error.message).to.deep.equal([
        'ERR_HOTSLOT_UNAVAILABLE',
        true,
      ]);
      this.skip(); // the device has no managed memory
    };

  it(
    'is zeroed, and works with writes, copies, fills and kernels',
    managed(async () => {
      using a = device().allocateManaged({ shape: [3000] });
      using b = device().allocate({ shape: [3000] });
      const stream = device().currentStream;
      expect(new Set(await valuesOf(a))).to.deep.equal(new Set([0]));
      stream.fill(b, 2);
      stream.copy(a, b);
      add(stream, a, b);
      expect(new Set(await valuesOf(a))).to.deep.equal(new Set([4]));
      const values = Float32Array.from({ length: 3000 }, (_, i) => i);
      expect(await a.write(values).toArray()).to.deep.equal(values);
    }),
  );

  it(
    'moves to the device in stream order and keeps its values',
    managed(async () => {
      using stream = device().createStream();
      using tensor = device().allocateManaged({ shape: [5000], dtype: 'int32' });
      expect(tensor.storage.managed).to.equal(true);
      using latch = new Latch(device()).hold(stream);
      stream.fill(tensor, 7);
      stream.prefetch(tensor, index);
      stream.fill(tensor.view({ shape: [1] }), 8);
      latch.open();
      const values = await valuesOf(tensor, stream);
      expect([values[0], new Set(values.slice(1))]).to.deep.equal([8, new Set([7])]);
      expect(device().residency(tensor).location).to.equal(device().traits.movesPages ? index : -2);
    }),
  );

  it(
    'prefers its own device after allocation, and advise() changes the preferred location',
    managed(() => {
      using tensor = device().allocateManaged({ shape: [5000] });
      if (!device().traits.movesPages) return;
      expect(device().residency(tensor)).to.deep.equal({
        location: -2,
        preferred: index,
        accessedBy: [index],
      });
      device().advise(tensor, { preferredLocation: -1 });
      expect(device().residency(tensor).preferred).to.equal(-1);
      const half = tensor.view({ shape: [1024], offset: 2048 });
      device().advise(half, { preferredLocation: index, accessedBy: index });
      expect([half, tensor].map((each) => device().residency(each).preferred)).to.deep.equal([
        index,
        -2,
      ]);
    }),
  );

  it(
    'moves to the CPU and back, or prefetch() throws if the driver cannot move pages',
    managed(async () => {
      using tensor = device().allocateManaged({ shape: [5000] });
      const stream = device().currentStream;
      stream.fill(tensor, 3);
      if (!device().traits.movesPages) {
        const error = refusal(() => stream.prefetch(tensor, -1));
        expect(error.code, error.message).to.equal('ERR_HOTSLOT_UNAVAILABLE');
        expect(error.message).to.match(/CPU/);
      } else {
        stream.prefetch(tensor, -1);
        await stream.synchronize();
        expect(device().residency(tensor).location).to.equal(-1);
        stream.prefetch(tensor.view({ shape: [1024] }), index);
        await stream.synchronize();
        expect(device().residency(tensor).location, 'pages on both sides').to.equal(-2);
      }
      expect(new Set(await valuesOf(tensor))).to.deep.equal(new Set([3]));
    }),
  );

  it(
    'stays valid in a captured graph after its pages have moved',
    managed(async () => {
      using tensor = device().allocateManaged({ shape: [64] });
      using one = device().allocate({ shape: [64] });
      using stream = device().createStream();
      stream.fill(one, 1);
      stream.beginCapture();
      add(stream, tensor, one);
      using graph = stream.endCapture();
      using exec = graph.instantiate();
      for (const where of device().traits.movesPages ? [index, -1, index] : [index]) {
        stream.prefetch(tensor, where);
        stream.replay(exec);
      }
      const runs = device().traits.movesPages ? 3 : 1;
      expect(new Set(await valuesOf(tensor, stream))).to.deep.equal(new Set([runs]));
    }),
  );

  it(
    'prefetch() throws inside a capture, and invalidates the capture',
    managed(() => {
      using tensor = device().allocateManaged({ shape: [64] });
      using stream = device().createStream();
      stream.beginCapture();
      refusesWith(
        900,
        'STREAM_CAPTURE_UNSUPPORTED',
        () => stream.prefetch(tensor, index),
        'memPrefetchAsync',
      );
      refusesWith(901, 'STREAM_CAPTURE_INVALIDATED', () => stream.endCapture());
    }),
  );

  it(
    'prefetch() and advise() throw for unknown devices and unmanaged memory, with the values',
    managed(() => {
      using tensor = device().allocateManaged({ shape: [64] });
      using plain = device().allocate({ shape: [64] });
      const stream = device().currentStream;
      for (const where of [-2, 99, 0.5, Number.NaN]) {
        expect(refusal(() => stream.prefetch(tensor, where)).message).to.match(
          new RegExp(`-1 \\(the CPU\\) or .*got ${where}`),
        );
        expect(
          refusal(() => device().advise(tensor, { preferredLocation: where })).message,
        ).to.include(`got ${where}`);
        expect(refusal(() => device().advise(tensor, { accessedBy: where })).code).to.equal(
          'ERR_HOTSLOT_RANGE',
        );
      }
      expect(refusal(() => device().advise(tensor, { accessedBy: -1 })).message).to.include(
        'got -1',
      );
      for (const use of [
        () => stream.prefetch(plain, index),
        () => device().advise(plain, { accessedBy: index }),
        () => device().residency(plain),
      ])
        expect(refusal(use).message).to.include('not in managed memory');
      tensor.close();
      expect(refusal(() => stream.prefetch(tensor, index)).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
    }),
  );

  it(
    'stays allocated after close() until the work that uses it is done',
    managed(async () => {
      using stream = device().createStream();
      using latch = new Latch(device()).hold(stream);
      using out = device().allocate({ shape: [1000], dtype: 'int32' });
      const closed = device().allocateManaged({ shape: [1000], dtype: 'int32' });
      stream.fill(closed, 7);
      stream.prefetch(closed, index);
      stream.copy(out, closed);
      closed.close();
      latch.open();
      expect(new Set(await valuesOf(out, stream))).to.deep.equal(new Set([7]));
    }),
  );
}
