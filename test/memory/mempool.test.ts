/**
 * Tests pools of managed memory: what they count and close, and that pages of the CPU device really
 * exist.
 */
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { describeValue } from '../../src/base/checks.ts';
import { createUnifiedMempool, prefetchManagedTensor } from '../../src/entries/memory.ts';
import { openDevice } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { pooled } from './managed.ts';

const MIB = 2 ** 20;
const residentMiB = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024;

describe('memory/mempool', () => {
  const pool = pooled();

  it('allocate() returns zeroed tensors that prefer the device of the pool', async () => {
    const { device } = pool();
    using tensor = pool().allocate({ shape: [3, 5], dtype: 'int32' });
    expect([tensor.shape, tensor.dtype, tensor.storage.managed]).to.deep.equal([
      [3, 5],
      'int32',
      true,
    ]);
    expect(new Set(await valuesOf(tensor))).to.deep.equal(new Set([0]));
    using floats = pool().allocate({ shape: [4] });
    expect(floats.dtype).to.equal('float32');
    if (!device.traits.movesPages) return;
    const { preferred, accessedBy } = device.residency(tensor);
    expect([preferred, accessedBy]).to.deep.equal([device.index, [device.index]]);
  });

  it('stats() counts open tensors, bytes, peak bytes and allocations', () => {
    using own = createUnifiedMempool(pool().device);
    expect(own.stats()).to.deep.equal({ tensors: 0, bytes: 0, peakBytes: 0, allocations: 0 });
    const a = own.allocate({ shape: [100] });
    const b = own.allocate({ shape: [50], dtype: 'float64' });
    expect(own.stats()).to.deep.equal({ tensors: 2, bytes: 800, peakBytes: 800, allocations: 2 });
    a.close();
    a.close();
    expect(own.stats()).to.deep.equal({ tensors: 1, bytes: 400, peakBytes: 800, allocations: 2 });
    b.view({ shape: [10] }).close();
    expect(own.stats()).to.deep.equal({ tensors: 0, bytes: 0, peakBytes: 800, allocations: 2 });
    own.allocate({ shape: [10] });
    expect(own.stats()).to.deep.equal({ tensors: 1, bytes: 40, peakBytes: 800, allocations: 3 });
  });

  it('close() closes open tensors and is idempotent, and allocate() throws afterwards', () => {
    const before = openHandles();
    const own = createUnifiedMempool(pool().device);
    const tensors = [own.allocate({ shape: [8] }), own.allocate({ shape: [8] })];
    tensors[0]?.close();
    own.close();
    own.close();
    expect([own.closed, ...tensors.map(({ closed }) => closed)]).to.deep.equal([true, true, true]);
    expect([own.stats().tensors, own.stats().bytes]).to.deep.equal([0, 0]);
    expect(openHandles()).to.deep.equal(before);
    const error = refusal(() => own.allocate({ shape: [8] }));
    expect([error.code, error.message.includes(TESTED)]).to.deep.equal([
      'ERR_HOTSLOT_STATE_CLOSED',
      true,
    ]);
    expect(pool().device.closed, 'the pool does not close a given device').to.equal(false);
  });

  it('createUnifiedMempool() opens a device given by name, and close() closes that device', () => {
    const own = createUnifiedMempool(TESTED);
    const { device } = own;
    expect([device.name, device.closed]).to.deep.equal([TESTED, false]);
    own.close();
    expect(device.closed).to.equal(true);
  });

  it('createUnifiedMempool() and allocate() throw for invalid devices and options', () => {
    for (const what of [undefined, null, 5, {}, [1, 2, 3]])
      expect(refusal(() => createUnifiedMempool(what as never)).message).to.match(
        new RegExp(`got ${describeValue(what)}$`),
      );
    const device = openDevice(TESTED);
    device.close();
    expect(refusal(() => createUnifiedMempool(device)).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    expect(refusal(() => createUnifiedMempool('host:99')).code).to.equal(
      'ERR_HOTSLOT_UNKNOWN_DEVICE',
    );
    const allocate = (options: object) => refusal(() => pool().allocate(options as never)).message;
    expect(allocate({ shape: [1], zeroed: false })).to.match(/unknown option 'zeroed'/);
    expect(allocate({ shape: [-1] })).to.include('-1');
    expect(allocate({ shape: [1], dtype: 'complex64' })).to.include('complex64');
  });

  (ON_HOST ? it : it.skip)(
    'allocate() reserves addresses only, and a prefetch creates the pages (CPU device)',
    async () => {
      const { device } = pool();
      const start = residentMiB();
      using tensor = pool().allocate({ shape: [64 * MIB], dtype: 'uint8' });
      const reserved = residentMiB();
      prefetchManagedTensor(tensor.view({ shape: [32 * MIB] }), { device: 0 });
      await device.currentStream.synchronize();
      const half = residentMiB();
      prefetchManagedTensor(tensor, { device: 0 });
      await device.currentStream.synchronize();
      const whole = residentMiB();
      const grown = [reserved - start, half - reserved, whole - half];
      expect(grown[0], `${grown} MiB`).to.be.below(8);
      for (const part of grown.slice(1)) expect(part, `${grown} MiB`).to.be.within(24, 40);
    },
  );
});
