/**
 * Tests device memory: allocation, write, copy, fill and readback, and the arguments that they
 * reject.
 */
import { expect } from 'chai';
import { type DType, dtypes, type TypedArray } from '../../../src/base/dtype.ts';
import { type Device, fromBfloat16, fromFloat16 } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { refusal, rejection } from '../../rig/refusal.ts';
import { tensorOf, valuesOf } from '../../rig/tensors.ts';

/** Values of every dtype that survive only a bit-exact copy. */
const samples: Record<DType, TypedArray> = {
  float32: new Float32Array([0, -1.5, 3.4e38, 1e-45, Infinity, 7]),
  float64: new Float64Array([0, -1.5, Number.MAX_VALUE, Number.MIN_VALUE, -Infinity, 7]),
  int8: new Int8Array([0, -1, 127, -128, 5, 7]),
  uint8: new Uint8Array([0, 1, 127, 255, 5, 7]),
  int16: new Int16Array([0, -1, 32767, -32768, 5, 7]),
  uint16: new Uint16Array([0, 1, 32767, 65535, 5, 7]),
  int32: new Int32Array([0, -1, 2147483647, -2147483648, 5, 7]),
  uint32: new Uint32Array([0, 1, 2147483647, 4294967295, 5, 7]),
  int64: new BigInt64Array([0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 5n, 7n]),
  uint64: new BigUint64Array([0n, 1n, 2n ** 63n, 2n ** 64n - 1n, 5n, 7n]),
  bool: new Uint8Array([0, 1, 1, 1, 0, 0]),
  float16: new Uint16Array([0, 0x8001, 0x7e01, 0x3e00, 0xfc00, 7]),
  bfloat16: new Uint16Array([0, 0x8001, 0x7fc1, 0xbfc0, 0xff80, 7]),
};
/** Convert the bits of an element to the number that fill() takes. */
const numberIn: Partial<Record<DType, (bits: Uint16Array) => Float32Array>> = {
  float16: fromFloat16,
  bfloat16: fromBfloat16,
};

export function memoryContract(device: () => Device): void {
  it('memoryInfo() returns total and free bytes', () => {
    const { total, free } = device().memoryInfo();
    expect(free).to.be.greaterThan(0);
    expect(total).to.be.at.least(free);
  });

  it('allocate() returns zeroed memory on every call', async () => {
    for (let i = 0; i < 3; i++) {
      using tensor = device().allocate({ shape: [300, 7], dtype: 'int32' });
      expect([tensor.bytes, tensor.size, tensor.contiguous]).to.deep.equal([8400, 2100, true]);
      expect((await valuesOf(tensor)).some((value) => value !== 0)).to.equal(false);
      device().currentStream.fill(tensor, -1);
      await device().currentStream.synchronize();
    }
  });

  it('allocate() throws for more memory than is free, with the requested and the free bytes', () => {
    const error = refusal(() => device().allocate({ shape: [2 ** 24, 2 ** 24], dtype: 'float64' }));
    expect(error).to.be.instanceOf(RangeError);
    expect(error.code).to.equal('ERR_HOTSLOT_MEMORY');
    expect(error.message).to.match(new RegExp(`${2 ** 51} bytes.*[0-9]+ are free`));
  });

  it('allocate() throws for invalid shapes and dtypes', () => {
    for (const shape of [[-1], [1.5], [Number.NaN], ['2']])
      expect(refusal(() => device().allocate({ shape: shape as number[] })).message).to.include(
        String(shape[0]),
      );
    expect(refusal(() => device().allocate({ shape: 3 as never }))).to.be.instanceOf(TypeError);
    expect(
      refusal(() => device().allocate({ shape: [1], dtype: 'float128' as DType })).message,
    ).to.include('float128');
  });

  for (const dtype of Object.keys(dtypes) as DType[]) {
    it(`writes, copies and reads ${dtype} without changing a bit`, async () => {
      const values = samples[dtype];
      using a = device().allocate({ shape: [2, 3], dtype });
      using b = device().allocate({ shape: [6], dtype });
      device().currentStream.copy(b, a.write(values));
      expect(await b.toArray()).to.deep.equal(values);
      const rows = a.view({ shape: [3, 2], strides: [1, 3] });
      const transposed = [0, 3, 1, 4, 2, 5].map((i) => values[i]);
      expect(Array.from((await rows.toArray()) as Float32Array), 'a strided view').to.deep.equal(
        transposed,
      );
    });

    it(`fill() writes ${dtype} elements, and throws for a value of the wrong type`, async () => {
      using tensor = device().allocate({ shape: [5], dtype });
      const element = samples[dtype][3] as number | bigint;
      const value = numberIn[dtype]?.(Uint16Array.of(Number(element)))[0] ?? element;
      device().currentStream.fill(tensor.view({ shape: [3], offset: 1 }), value);
      const zero = typeof value === 'bigint' ? 0n : 0;
      const filled = [zero, element, element, element, zero];
      expect(Array.from((await tensor.toArray()) as Float32Array)).to.deep.equal(filled);
      const other = typeof value === 'bigint' ? 1 : 1n;
      expect(refusal(() => device().currentStream.fill(tensor, other)).message).to.include(
        typeof value,
      );
    });
  }

  it('fill() throws for a bool value other than 0 or 1', () => {
    using tensor = device().allocate({ shape: [2], dtype: 'bool' });
    const fill = (value: number) => () => device().currentStream.fill(tensor, value);
    for (const value of [7, 0.5, -1, Number.NaN])
      expect(refusal(fill(value)).message).to.include(`0 or 1, got ${value}`);
    fill(0)();
  });

  it('reads views with offset, stride and repeated elements', async () => {
    using base = await tensorOf(device(), [...Array(24).keys()]);
    const grid = base.view({ shape: [4, 6] });
    expect(await valuesOf(grid.view({ shape: [2, 2], offset: 7, strides: [6, 2] }))).to.deep.equal([
      7, 9, 13, 15,
    ]);
    expect(await valuesOf(grid.view({ shape: [3], offset: 5, strides: [0] }))).to.deep.equal([
      5, 5, 5,
    ]);
    expect(await valuesOf(grid.view({ shape: [0, 3] }))).to.deep.equal([]);
    expect(await valuesOf(grid.view({ shape: [], offset: 23 })), 'a scalar').to.deep.equal([23]);
  });

  it('view() throws outside its memory, and tensor() throws for a misaligned byteOffset', () => {
    using base = device().allocate({ shape: [6] });
    expect(refusal(() => base.view({ shape: [6], offset: 1 })).message).to.include(
      'beyond 24 bytes',
    );
    expect(refusal(() => base.view({ shape: [2], offset: -1 })).message).to.include('-4');
    expect(refusal(() => base.view({ shape: [2], strides: [-1] })).message).to.include('[-1]');
    using host = device().registerHost(new Uint8Array(new SharedArrayBuffer(16)));
    expect(
      refusal(() => host.tensor({ shape: [1], dtype: 'float32', byteOffset: 2 })).message,
    ).to.include('got 2');
  });

  it('fill() throws if the address is not a multiple of the element size', async () => {
    using host = device().registerHost(new Uint8Array(new SharedArrayBuffer(64)).subarray(1));
    using bytes = host.tensor({ shape: [56], dtype: 'uint8' });
    using stream = device().createStream();
    for (const [dtype, size] of [
      ['float64', 8],
      ['float32', 4],
      ['float16', 2],
    ] as const) {
      const odd = bytes.view({ shape: [56 / size], dtype });
      expect(refusal(() => stream.fill(odd, 1.5)).message).to.include(
        `at a multiple of ${size} bytes`,
      );
    }
    stream.fill(bytes, 7);
    await stream.synchronize();
    expect(await valuesOf(bytes)).to.deep.equal(Array(56).fill(7));
  });

  it('registerHost() throws unless its argument is a typed array over a SharedArrayBuffer', () => {
    const view = new Float32Array(4);
    for (const pin of [true, false])
      expect(refusal(() => device().registerHost(view, { pin })).message).to.include(
        'SharedArrayBuffer',
      );
    expect(refusal(() => device().registerHost([1] as never)).message).to.include(
      'takes a typed array',
    );
    const none = Object.create(Float32Array.prototype);
    expect(refusal(() => device().registerHost(none)).message).to.include('takes a typed array');
    // registerHost() must not trust the `buffer` property of a view. It also rejects a typed array
    // of an unknown element type.
    const forged = Object.defineProperty(new Uint8Array(8), 'buffer', {
      value: new SharedArrayBuffer(8),
    });
    expect(refusal(() => device().registerHost(forged)).message).to.include('SharedArrayBuffer');
    const { Float16Array } = globalThis as {
      Float16Array?: new (of: SharedArrayBuffer) => Uint16Array;
    };
    const later = Float16Array
      ? new Float16Array(new SharedArrayBuffer(8))
      : new DataView(new SharedArrayBuffer(8));
    expect(refusal(() => device().registerHost(later as never)).message).to.include(
      'that has a dtype',
    );
    structuredClone(view, { transfer: [view.buffer] });
    expect(refusal(() => device().registerHost(view)).message).to.include('SharedArrayBuffer');
  });

  it('copies between registered host memory and the device', async () => {
    const shared = new Int32Array(new SharedArrayBuffer(32));
    shared.set([1, 2, 3, 4, 5, 6, 7, 8]);
    using host = device().registerHost(shared);
    using half = device().allocate({ shape: [4], dtype: 'int32' });
    const stream = device().currentStream;
    stream.copy(half, host.tensor({ shape: [4], dtype: 'int32', byteOffset: 16 }));
    stream.copy(host.tensor({ shape: [4], dtype: 'int32' }), half);
    await stream.synchronize();
    expect([...shared]).to.deep.equal([5, 6, 7, 8, 5, 6, 7, 8]);
  });

  it('copy() throws for unequal, strided or overlapping tensors, with the values', () => {
    using a = device().allocate({ shape: [8] });
    using b = device().allocate({ shape: [4] });
    const stream = device().currentStream;
    expect(refusal(() => stream.copy(b, a)).message).to.match(/32 bytes.*16 bytes/);
    expect(refusal(() => stream.copy(b, a.view({ shape: [4], strides: [2] }))).message).to.include(
      '[2]',
    );
    expect(refusal(() => stream.copy(a.view({ shape: [4], strides: [2] }), b)).message).to.include(
      '[2]',
    );
    const from = a.view({ shape: [4] });
    const error = refusal(() => stream.copy(a.view({ shape: [4], offset: 3 }), from));
    expect([error.code, error.message]).to.deep.equal([
      'ERR_HOTSLOT_RANGE',
      'a copy of 16 bytes from offset 0 to offset 12 of the same memory: the two overlap',
    ]);
    stream.copy(a.view({ shape: [4], offset: 4 }), from);
  });

  it('write() reads its values when called, and moves them in stream order', async () => {
    using stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    using tensor = device().allocate({ shape: [2], dtype: 'int32' });
    const values = new Int32Array([1, 2]);
    tensor.write(values, stream);
    values.fill(9);
    const read = tensor.toArray(stream);
    stream.fill(tensor, 3);
    latch.open();
    expect([...(await read)], 'values when the read was enqueued').to.deep.equal([1, 2]);
    expect(await valuesOf(tensor, stream)).to.deep.equal([3, 3]);
  });

  it('write() throws for values of another type or count, and for a closed tensor', async () => {
    using tensor = device().allocate({ shape: [2] });
    expect(refusal(() => tensor.write(new Float64Array(2) as never)).message).to.match(
      /^write takes a Float32Array of 2 elements \(float32\), got a Float64Array of 2$/,
    );
    expect(refusal(() => tensor.write([1, 2] as never)).message).to.equal(
      'write takes a Float32Array of 2 elements (float32), got an array of 2',
    );
    expect(refusal(() => tensor.write(new Float32Array(3))).message).to.include(
      'got a Float32Array of 3',
    );
    expect(
      refusal(() => tensor.view({ shape: [1], strides: [2] }).write(new Float32Array(2))),
    ).to.be.instanceOf(Error);
    tensor.close();
    expect(refusal(() => tensor.write(new Float32Array(2))).code).to.equal(
      'ERR_HOTSLOT_STATE_CLOSED',
    );
    expect((await rejection(tensor.toArray())).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });

  it('stays allocated after close() until the work that uses it is done', async () => {
    using stream = device().createStream();
    using latch = new Latch(device()).hold(stream);
    using out = device().allocate({ shape: [1000], dtype: 'int32' });
    const closed = device().allocate({ shape: [1000], dtype: 'int32' });
    stream.fill(closed, 7);
    stream.copy(out, closed);
    closed.close();
    latch.open();
    expect(new Set(await valuesOf(out, stream))).to.deep.equal(new Set([7]));
  });
}
