/**
 * Tests prefetch and advice for whole modules: each byte is handled once, other values are skipped,
 * and nothing happens if a call throws.
 */
import { expect } from 'chai';
import {
  adviseManagedModuleParametersPreferredLocation,
  type ManagedModule,
  type MaybeTensor,
  prefetchManagedModuleParameters,
} from '../../src/entries/memory.ts';
import { CpuTensor, DeviceError, openDevice } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { noted, pooled } from './managed.ts';

type Named = Record<string, MaybeTensor>;
const moduleOf = (parameters: Named, buffers?: Named): ManagedModule => ({
  namedParameters: () => Object.entries(parameters),
  ...(buffers ? { namedBuffers: () => Object.entries(buffers) } : {}),
});

const helpers = {
  prefetchManagedModuleParameters,
  adviseManagedModuleParametersPreferredLocation,
};

describe('memory/managed-module', () => {
  const pool = pooled();

  it('both helpers process parameters, and buffers with includeBuffers, and return the bytes', async () => {
    const { device } = pool();
    const { index: here } = device;
    using w = pool().allocate({ shape: [100, 20] });
    using b = pool().allocate({ shape: [20] });
    using mean = pool().allocate({ shape: [20], dtype: 'float64' });
    const module = moduleOf({ w, b }, { mean });
    expect(prefetchManagedModuleParameters(module, { device: here })).to.equal(8080);
    await device.currentStream.synchronize();
    if (device.traits.movesPages)
      expect([w, b, mean].map((each) => device.residency(each).location)).to.deep.equal([
        here,
        here,
        -2,
      ]);
    expect(
      prefetchManagedModuleParameters(module, { device: here, includeBuffers: true }),
    ).to.equal(8240);
    expect(adviseManagedModuleParametersPreferredLocation(module, { device: here })).to.equal(8080);
    expect(
      prefetchManagedModuleParameters(moduleOf({ w }), { device: here, includeBuffers: true }),
    ).to.equal(8000);
    if (!device.traits.movesPages) return;
    expect(
      adviseManagedModuleParametersPreferredLocation(module, { device: -1, includeBuffers: true }),
    ).to.equal(8240);
    expect([w, b, mean].map((each) => device.residency(each).preferred)).to.deep.equal([
      -1, -1, -1,
    ]);
  });

  it('prefetchManagedModuleParameters() prefetches shared, overlapping and adjacent bytes once', () => {
    const { device } = pool();
    using flat = pool().allocate({ shape: [100] });
    using other = pool().allocate({ shape: [10] });
    const at = (offset: number, size: number) => flat.view({ shape: [size], offset });
    const { stream, asked } = noted(device.currentStream);
    const tied = {
      late: at(70, 10),
      a: at(0, 10),
      b: at(5, 15),
      'a again': at(0, 10),
      other,
      touches: at(20, 10),
      again: other,
    };
    const bytes = prefetchManagedModuleParameters(moduleOf(tied, { tied: at(75, 10) }), {
      device: device.index,
      includeBuffers: true,
      stream,
    });
    const { index } = device;
    expect(asked).to.deep.equal([
      [0, 120, index],
      [280, 60, index],
      [0, 40, index],
    ]);
    expect(bytes).to.equal(220);
  });

  it('prefetchManagedModuleParameters() prefetches a strided parameter from first to last element', () => {
    const { device } = pool();
    using flat = pool().allocate({ shape: [10, 10] });
    const { stream, asked } = noted(device.currentStream);
    const column = flat.view({ shape: [10], offset: 3, strides: [10] });
    expect(
      prefetchManagedModuleParameters(moduleOf({ column }), { device: device.index, stream }),
    ).to.equal(364);
    expect(asked).to.deep.equal([[12, 364, device.index]]);
  });

  it('both helpers skip null, empty and CPU tensors, and registered host memory', () => {
    const { device } = pool();
    using managed = pool().allocate({ shape: [4] });
    using empty = device.allocate({ shape: [0] });
    using lent = device.registerHost(new Float32Array(new SharedArrayBuffer(64)), { pin: false });
    const parts = {
      managed,
      none: null,
      missing: undefined,
      empty,
      cpu: new CpuTensor(new Float32Array(8)),
      array: new Float32Array(8),
      lent: lent.tensor({ shape: [16], dtype: 'float32' }),
    };
    for (const helper of Object.values(helpers))
      expect(helper(moduleOf(parts), { device: device.index })).to.equal(16);
  });

  for (const [name, helper] of Object.entries(helpers)) {
    it(`${name} returns 0 for a null or empty module`, () => {
      expect(helper(null, undefined as never)).to.equal(0);
      expect(helper(undefined, { device: 99 })).to.equal(0);
      expect(helper(moduleOf({}), { device: 0 })).to.equal(0);
    });

    it(`${name} throws for an unmanaged tensor, with its name, before it changes anything`, async () => {
      const { device } = pool();
      using w = pool().allocate({ shape: [100] });
      using plain = device.allocate({ shape: [2, 3], dtype: 'int32' });
      const before = device.traits.movesPages ? device.residency(w) : null;
      const closed = pool().allocate({ shape: [7] });
      closed.close();
      const message = (extra: Named, buffers?: Named) =>
        refusal(() =>
          helper(moduleOf({ w, ...extra }, buffers), {
            device: device.index,
            includeBuffers: true,
          }),
        );
      const error = message({ 'layer.weight': plain });
      expect([error.name, error.code]).to.deep.equal(['TypeError', 'ERR_HOTSLOT_ARGUMENT']);
      expect(error.message).to.match(
        /parameter 'layer\.weight', 2×3 int32 on .* is not in managed memory/,
      );
      expect(message({}, { mean: plain }).message).to.match(/buffer 'mean', 2×3/);
      expect([
        message({ gone: closed }).code,
        message({ gone: closed }).message.includes("'gone'"),
      ]).to.deep.equal(['ERR_HOTSLOT_STATE_CLOSED', true]);
      expect(message({ text: 'x' as never }).message).to.match(
        /parameter 'text' must be a tensor or null, got 'x'/,
      );
      expect(refusal(() => helper(moduleOf({ w }), { device: 99 })).code).to.equal(
        'ERR_HOTSLOT_RANGE',
      );
      await device.currentStream.synchronize();
      if (before) expect(device.residency(w)).to.deep.equal(before);
    });

    it(`${name} throws for invalid options and for a value that is no module, with the values`, () => {
      using w = pool().allocate({ shape: [4] });
      const message = (module: unknown, options: unknown) =>
        refusal(() => helper(module as never, options as never)).message;
      expect(message({}, { device: 0 })).to.match(/namedParameters\(\), or null; got an object/);
      expect(message(5, { device: 0 })).to.include('got 5');
      expect(message([1, 2, 3], { device: 0 })).to.include('got an array of 3');
      expect(message(moduleOf({ w: [w, w] as never }), { device: 0 })).to.match(
        /'w' must be .*, got an array of 2$/,
      );
      const module = moduleOf({ w });
      expect(message(module, { device: 0, buffers: true })).to.match(/unknown option 'buffers'/);
      expect(message(module, { device: 0, includeBuffers: 1 })).to.match(
        /includeBuffers must be a boolean, got 1/,
      );
      expect(message(module, { device: '0' })).to.match(
        /device must be a number, got string \('0'\)/,
      );
      expect(message(moduleOf({}), {})).to.match(/device must be a number, got undefined/);
      expect(message(module, undefined)).to.match(/options object/);
    });
  }

  for (const [name, helper] of Object.entries(helpers))
    it(`${name} throws if the module does not return pairs of a name and a tensor`, () => {
      using w = pool().allocate({ shape: [4] });
      const given = (parameters: unknown, buffers: unknown = []) => {
        const module = {
          namedParameters: () => parameters,
          namedBuffers: () => buffers,
        } as ManagedModule;
        const { code, message } = refusal(() =>
          helper(module, { device: 0, includeBuffers: true }),
        );
        expect(code).to.equal('ERR_HOTSLOT_ARGUMENT');
        expect(message).to.match(
          new RegExp(
            `^${name}: named(Parameters|Buffers)\\(\\) must give \\[name, tensor\\] pairs`,
          ),
        );
        return message;
      };
      expect(given({ w })).to.match(/namedParameters.*its result is not iterable: an object$/);
      expect(given(undefined)).to.match(/its result is not iterable: undefined$/);
      expect(given([['w', w], w])).to.match(/; entry 1 is a Tensor$/);
      expect(given([null])).to.match(/; entry 0 is null$/);
      expect(given([['w']])).to.match(/; entry 0 is an array of 1$/);
      expect(given([[{ name: 'w' }, w]])).to.match(/; the name of entry 0 is an object$/);
      expect(given([], { w })).to.match(/namedBuffers.*its result is not iterable: an object$/);
      expect(helper({ namedParameters: () => new Map([['w', w]]) }, { device: 0 })).to.equal(16);
    });

  it('prefetchManagedModuleParameters() uses the current stream when stream is null', () => {
    const { device } = pool();
    using w = pool().allocate({ shape: [4] });
    const { stream, asked } = noted(device.currentStream);
    const { index } = device;
    device.withStream(stream, () =>
      prefetchManagedModuleParameters(moduleOf({ w }), { device: index, stream: null }),
    );
    expect(asked).to.deep.equal([[0, 16, index]]);
  });

  it('a DeviceError names the parameter, shape, dtype, address and bytes', () => {
    const { device } = pool();
    using w = pool().allocate({ shape: [4, 2] });
    using stream = device.createStream();
    stream.beginCapture();
    const error = refusal(() =>
      prefetchManagedModuleParameters(moduleOf({ w }), { device: device.index, stream }),
    );
    refusal(() => stream.endCapture());
    expect(error).to.be.instanceOf(DeviceError);
    expect(error.message).to.match(
      /parameter 'w', 4×2 float32 \(32 bytes at 0x[0-9a-f]+\), in a range of 32 bytes/,
    );
    expect(error.cause).to.be.instanceOf(DeviceError);
  });

  (ON_HOST ? it : it.skip)(
    'tensors of several devices are prefetched on the current stream of their own device',
    async () => {
      const { device } = pool();
      using other = openDevice('host:1');
      using a = pool().allocate({ shape: [4] });
      using b = other.allocateManaged({ shape: [4] });
      const module = moduleOf({ a, b });
      const [first, second] = [noted(device.currentStream), noted(other.currentStream)];
      const bytes = device.withStream(first.stream, () =>
        other.withStream(second.stream, () =>
          prefetchManagedModuleParameters(module, { device: 1 }),
        ),
      );
      expect([bytes, first.asked, second.asked]).to.deep.equal([32, [[0, 16, 1]], [[0, 16, 1]]]);
      const error = refusal(() =>
        prefetchManagedModuleParameters(module, { device: 1, stream: device.currentStream }),
      );
      expect(error.message).to.equal('a stream of host:0 cannot prefetch a tensor of host:1');
    },
  );
});
