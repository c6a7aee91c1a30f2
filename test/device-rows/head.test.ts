/**
 * Tests the draws of a tick of rows on the device. Compares the host's function, the kernels, and a
 * reference with big integers.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { type PhiloxIndices, philoxIndices, writeHead } from '../../src/engine/device-rows/head.ts';
import { HEAD_WORDS } from '../../src/engine/ring/slot.ts';
import { openDevice } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

const U32 = 0xffffffffn;

/** Philox4x32-10, as defined in its paper. */
function philox(counter: readonly bigint[], key: bigint): bigint[] {
  let x = [...counter];
  for (let round = 0n; round < 10n; round++) {
    const [k0, k1] = [
      ((key & U32) + round * 0x9e3779b9n) & U32,
      ((key >> 32n) + round * 0xbb67ae85n) & U32,
    ];
    const [left, right] = [0xd2511f53n * x[0]!, 0xcd9e8d57n * x[2]!];
    x = [(right >> 32n) ^ x[1]! ^ k0, right & U32, (left >> 32n) ^ x[3]! ^ k1, left & U32];
  }
  return x;
}

function reference({ seed, tick, low, span, capacity, count }: PhiloxIndices): number[] {
  return Array.from({ length: count }, (_, i) => {
    const [t, b] = [BigInt(tick), BigInt(Math.floor(i / 2))];
    const x = philox([b & U32, t & U32, t >> 32n, 0x776f7273n], BigInt(seed));
    const word = i % 2 === 0 ? (x[0]! << 32n) | x[1]! : (x[2]! << 32n) | x[3]!;
    return Number((BigInt(low) + ((word * BigInt(span)) >> 64n)) % BigInt(capacity));
  });
}

const cases: PhiloxIndices[] = [
  ...[1, 2, 3, 1000, 2 ** 31, 2 ** 32 - 1].map((span) => ({
    seed: 7,
    tick: 3,
    low: 5,
    span,
    capacity: 2 ** 32 - 1,
    count: 9,
  })),
  // The draws wrap around the ring's end at every position of `low`.
  ...Array.from({ length: 8 }, (_, low) => ({
    seed: 1,
    tick: low,
    low,
    span: 7,
    capacity: 8,
    count: 33,
  })),
  {
    seed: 2 ** 53 - 1,
    tick: 2 ** 53 - 1,
    low: 2 ** 53 - 100,
    span: 1000,
    capacity: 1001,
    count: 64,
  },
  { seed: 2 ** 32, tick: 2 ** 32, low: 2 ** 32, span: 99, capacity: 100, count: 1 },
];

describe('device-rows/head', () => {
  it('philoxIndices() equals a BigInt reference at every wrap of the ring', () => {
    for (const each of cases)
      expect([...philoxIndices(each)], JSON.stringify(each)).to.deep.equal(reference(each));
  });

  it('draw_places returns the places of philoxIndices(), and gather_places copies their rows', async () => {
    using device = openDevice(TESTED);
    for (const each of cases.filter(({ capacity }) => capacity < 2000)) {
      const { count, capacity } = each;
      const words = new Int32Array(HEAD_WORDS);
      writeHead(words, { ...each, places: capacity });
      using head = device.allocate({ shape: [HEAD_WORDS], dtype: 'int32' }).write(words);
      using places = device.allocate({ shape: [count], dtype: 'int32' });
      const stream = device.currentStream;
      stream.launch('draw_places', { tensors: [places, head], wholes: [count] });
      const drawn = Uint32Array.from(await places.toArray());
      expect(drawn).to.deep.equal(philoxIndices(each));
      for (const words of [4, 12, 16, 20, 432]) {
        const numbers = new Random(words);
        const rows = Uint32Array.from({ length: capacity * words }, () => numbers.below(2 ** 32));
        using ring = device.allocate({ shape: [rows.length], dtype: 'uint32' }).write(rows);
        using out = device.allocate({ shape: [count * words], dtype: 'uint32' });
        stream.launch('gather_places', {
          tensors: [out, ring, places],
          wholes: [count, words, capacity, 3],
        });
        const want = Uint32Array.from(
          { length: count * words },
          (_, i) => rows[drawn[Math.floor(i / words)]! * words + (i % words)]!,
        );
        expect(await out.toArray()).to.deep.equal(want);
      }
    }
  });

  it('gather_places writes zeros for a place outside the ring', async () => {
    using device = openDevice(TESTED);
    using places = device.allocate({ shape: [3], dtype: 'int32' }).write(Int32Array.of(-1, 1, 2));
    using ring = device.allocate({ shape: [8], dtype: 'uint32' }).write(new Uint32Array(8).fill(7));
    using out = device.allocate({ shape: [12], dtype: 'uint32' });
    device.currentStream.launch('gather_places', {
      tensors: [out, ring, places],
      wholes: [3, 4, 2, 0],
    });
    expect([...(await out.toArray())]).to.deep.equal([0, 0, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0]);
  });

  it('philoxIndices() passes a chi-square test of uniformity over 10⁶ draws', () => {
    const [span, count] = [1024, 1_000_000];
    const hits = new Float64Array(span);
    for (const row of philoxIndices({ seed: 5, tick: 0, low: 100, span, capacity: 2000, count }))
      hits[row - 100]!++;
    const expected = count / span;
    const chi = hits.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    // Chi-square has 1,023 degrees of freedom. Five standard deviations are allowed on either side.
    expect(Math.abs(chi - 1023)).to.be.below(5 * Math.sqrt(2 * 1023));
  });

  it('philoxIndices() throws a RangeError for a span of 0 or above the capacity', () => {
    const options = { seed: 0, tick: 0, low: 0, span: 5, capacity: 4, count: 1 };
    expect(() => philoxIndices(options)).to.throw(
      RangeError,
      'span must be at most the capacity 4, got 5',
    );
    expect(() => philoxIndices({ ...options, span: 0 })).to.throw(
      RangeError,
      'span must be a whole number of at least 1',
    );
    expect(() => philoxIndices({ ...options, places: 4 } as never)).to.throw(TypeError, /places/);
  });
});
