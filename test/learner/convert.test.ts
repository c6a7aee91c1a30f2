/**
 * Tests convert(), which converts stored elements to floats: every bit pattern of small dtypes,
 * rounding of large ones, strided rows and invalid arguments.
 */
import { expect } from 'chai';
import {
  type ArrayOf,
  arrayOf,
  type DType,
  dtypes,
  type TypedArray,
} from '../../src/base/dtype.ts';
import { type ConvertOptions, convert } from '../../src/entries/learner.ts';
import {
  type Device,
  fromBfloat16,
  fromFloat16,
  openDevice,
  Random,
  type Stream,
  type Tensor,
} from '../../src/index.ts';
import { launchAnything } from '../rig/launch.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';

/**
 * Returns the float nearest to an integer of any size. Keeps the 50 highest bits, and sets the
 * lowest of them if any lower bit was set.
 */
function nearest(value: bigint): number {
  const size = value < 0n ? -value : value;
  const down = BigInt(Math.max(size.toString(2).length - 50, 0));
  const top = size >> down;
  const decided = top << down === size ? top : top | 1n;
  return Math.fround(Number(decided)) * 2 ** Number(down) * (value < 0n ? -1 : 1);
}

const every16 = Uint16Array.from({ length: 65_536 }, (_, i) => i);
const random = new Random(3);
const words = (n: number) =>
  BigUint64Array.from({ length: n }, () => BigInt(random.below(2 ** 32)) << 32n);
const anyBigs = (n: number) =>
  words(n).map((word) => (word | BigInt(random.below(2 ** 32))) >> BigInt(random.below(64)));
/**
 * Values halfway between neighboring floats, slightly beside that, outside of float's range, and at
 * its limits.
 */
const doubles = Float64Array.from({ length: 20_000 }, (_, i) => {
  const value = Math.fround(random.between(-2, 2)) * 2 ** (random.below(290) - 155);
  const half = value * 2 ** -25;
  return [value, value + half, value + half * 1.000001, value * 1.1, value * 2 ** 200][
    i % 5
  ] as number;
});
doubles.set([
  0,
  -0,
  Infinity,
  -Infinity,
  Number.MAX_VALUE,
  2 ** -150,
  -(2 ** -149),
  3.4028235677973366e38,
]);

/** Elements of each dtype and the floats that they must convert to. */
const cases: { [D in DType]: [values: ArrayOf<D>, floats: Float32Array] } = {
  bool: [Uint8Array.of(0, 1, 1, 0, 7), Float32Array.of(0, 1, 1, 0, 1)],
  int8: same(Int8Array.from(every16)),
  uint8: same(Uint8Array.from(every16)),
  int16: same(Int16Array.from(every16)),
  uint16: same(every16),
  int32: same(Int32Array.from(anyBigs(5000), (word) => Number(BigInt.asIntN(32, word)))),
  uint32: same(Uint32Array.from(anyBigs(5000), (word) => Number(BigInt.asUintN(32, word)))),
  int64: bigs(BigInt64Array.from([...anyBigs(20_000), ...anyBigs(20_000).map((word) => -word)])),
  uint64: bigs(BigUint64Array.from([...anyBigs(40_000), 2n ** 64n - 1n, 2n ** 63n + 2n ** 39n])),
  float16: [every16, fromFloat16(every16)],
  bfloat16: [every16, fromBfloat16(every16)],
  float32: same(Float32Array.of(0, -0, 1e-45, -3.4e38, Infinity, 0.1)),
  float64: same(doubles),
};
function same<A extends Exclude<TypedArray, BigInt64Array | BigUint64Array>>(
  values: A,
): [A, Float32Array] {
  return [values, Float32Array.from(values)];
}
function bigs<A extends BigInt64Array | BigUint64Array>(values: A): [A, Float32Array] {
  return [values, Float32Array.from([...values].map(nearest))];
}

const bits = (values: Float32Array) => [
  ...new Uint32Array(values.buffer, values.byteOffset, values.length),
];

describe('convert()', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.createStream();
  });
  after(() => stream.close());

  async function converted(
    values: TypedArray,
    dtype: DType,
    options?: ConvertOptions,
  ): Promise<Float32Array> {
    using from = device.allocate({ shape: [values.length], dtype }).write(values, stream);
    using to = device.allocate({ shape: [values.length] });
    convert(stream, to, from, options);
    return to.toArray(stream);
  }

  for (const dtype of Object.keys(cases) as DType[]) {
    const [values, floats] = cases[dtype];

    it(`${dtype}: converts each element to the nearest float, and rounds after scale and after shift`, async () => {
      expect(bits(await converted(values, dtype))).to.deep.equal(bits(floats));
      const got = await converted(values, dtype, { scale: 1 / 255, shift: -0.5 });
      const factor = Math.fround(1 / 255);
      const want = floats.map((x) => Math.fround(x * factor) - 0.5);
      // Every computed NaN has one bit pattern.
      expect(bits(got)).to.deep.equal(
        bits(want).map((word, i) => (Number.isNaN(want[i]) ? 0x7fc00000 : word)),
      );
    });
  }

  it('accepts strided rows, and reshapes contiguous tensors', async () => {
    for (const dtype of Object.keys(dtypes) as DType[]) {
      const values = arrayOf(dtype, 60);
      for (let i = 0; i < 60; i++)
        (values as Float32Array)[i] = (typeof values[0] === 'bigint' ? BigInt(i) : i % 2) as number;
      using from = device.allocate({ shape: [5, 12], dtype }).write(values, stream);
      using to = device.allocate({ shape: [5, 8] });
      const floats = await converted(values, dtype);
      stream.fill(to, 9);
      const part = from.view({ shape: [5, 2, 3], offset: 4, strides: [12, 3, 1] });
      convert(stream, to.view({ shape: [5, 6], strides: [8, 1] }), part);
      const want = Array.from({ length: 40 }, (_, i) =>
        i % 8 < 6 ? floats[Math.floor(i / 8) * 12 + 4 + (i % 8)] : 9,
      );
      expect([...(await to.toArray(stream))], dtype).to.deep.equal(want);
      convert(
        stream,
        to.view({ shape: [5], strides: [8] }),
        from.view({ shape: [5, 1], offset: 1, strides: [12, 1] }),
      );
      const column = Array.from({ length: 5 }, (_, i) => floats[12 * i + 1]);
      expect([...(await to.view({ shape: [5], strides: [8] }).toArray(stream))]).to.deep.equal(
        column,
      );
      convert(stream, to, from.view({ shape: [2, 4, 5], offset: 3 }));
      expect([...(await to.toArray(stream))]).to.deep.equal([...floats.subarray(3, 43)]);
      convert(stream, to.view({ shape: [] }), from.view({ shape: [1], offset: 59 }));
      convert(stream, to.view({ shape: [0] }), from.view({ shape: [0, 3] }));
      expect((await to.toArray(stream))[0]).to.equal(floats[59]);
    }
  });

  it('reads the current elements when it is captured and launched', async () => {
    using from = device.allocate({ shape: [6], dtype: 'uint8' });
    using to = device.allocate({ shape: [6] });
    stream.beginCapture();
    convert(stream, to, from, { scale: 0.5 });
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    expect(graph.nodeCount).to.equal(1);
    from.write(Uint8Array.of(1, 2, 3, 4, 5, 255), stream);
    stream.replay(exec);
    expect([...(await to.toArray(stream))]).to.deep.equal([0.5, 1, 1.5, 2, 2.5, 127.5]);
  });

  it('works in place on floats', async () => {
    using x = device.allocate({ shape: [3] }).write(Float32Array.of(1, 2, 3), stream);
    convert(stream, x, x, { scale: 2, shift: 1 });
    expect([...(await x.toArray(stream))]).to.deep.equal([3, 5, 7]);
  });

  it('throws with the values for tensors and options that do not fit', () => {
    using floats = device.allocate({ shape: [4, 6] });
    using bytes = device.allocate({ shape: [4, 6], dtype: 'uint8' });
    const text = (to: Tensor, from: Tensor, options?: object) =>
      refusal(() => convert(stream, to as Tensor<'float32'>, from, options)).message;
    expect(text(bytes, floats)).to.include('convert writes float32, got a tensor of uint8');
    expect(text(floats, bytes.view({ shape: [4, 5] }))).to.include('from 4×5 to 4×6');
    const rows = bytes.view({ shape: [2, 6], strides: [12, 1] });
    expect(text(floats.view({ shape: [3, 4] }), rows)).to.include('from 2×6 to 3×4');
    const turned = bytes.view({ shape: [4, 6], strides: [1, 4] });
    expect(text(floats, turned)).to.match(
      /rows whose 6 elements are contiguous, got uint8 \[4,6\] .* \[1,4\]/,
    );
    expect(text(floats, bytes.view({ shape: [4, 6], strides: [3, 1] }))).to.include(
      'strides [3,1]',
    );
    expect(text(floats, bytes, { scale: Infinity })).to.include('scale must be finite');
    expect(text(floats, bytes, { shift: '1' })).to.include("shift must be a number, got '1'");
    expect(text(floats, bytes, { bias: 1 })).to.include("unknown option 'bias'");
    expect(text(floats, new Float32Array(24) as never)).to.include('takes a tensor');
    expect(refusal(() => convert({} as Stream, floats, bytes)).message).to.include(
      'convert takes a stream',
    );
    floats.close();
    expect(text(floats, bytes)).to.include('closed');
  });

  it('its kernel throws at launch when dtype, stride or alignment does not match the tensor', () => {
    using floats = device.allocate({ shape: [4] });
    using halves = device.allocate({ shape: [4], dtype: 'float16' });
    const launch = (from: Tensor, dtype: number) => () =>
      launchAnything(stream, 'convert', {
        tensors: [floats, from],
        wholes: [1, 4, 4, 4, dtype],
        reals: [1, 0],
      });
    launch(halves, dtypes.float16.code)();
    expect(refusal(launch(halves, dtypes.uint16.code)).message).to.equal(
      "kernel 'convert': tensor 1 is float16, but this launch takes uint16",
    );
    expect(refusal(launch(halves, dtypes.int64.code)).code).to.equal('ERR_HOTSLOT_ARGUMENT');
    expect(refusal(launch(halves, 13)).message).to.include('dtype must be at most 12, got 13');
    const rows = halves.view({ shape: [2, 1], strides: [2, 1] });
    const strided = () =>
      launchAnything(stream, 'convert', {
        tensors: [floats, rows],
        wholes: [2, 1, 1, 1, dtypes.float16.code],
        reals: [1, 0],
      });
    expect(refusal(strided).message).to.include(
      "rows are 4 bytes apart, but x_stride is 1 elements of 2: pass the tensor's",
    );
    using host = device.registerHost(new Uint8Array(new SharedArrayBuffer(64)).subarray(1));
    const between = new (halves.constructor as new (...args: unknown[]) => Tensor)(
      host,
      [4],
      'float16',
    );
    expect(refusal(launch(between, dtypes.float16.code)).message).to.include(
      'it must be a multiple of 2',
    );
  });
});
