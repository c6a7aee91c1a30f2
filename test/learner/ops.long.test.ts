/**
 * Tests ops against plain loops over random shapes, views and broadcasts. Also tests captured
 * against eager operations, and invalid arguments.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { firstNonFinite, ops } from '../../src/entries/learner.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { expectClose } from './reference.ts';

type Floats = Tensor<'float32'>;

const random = new Random(15);
const below = (n: number) => Math.floor(random.between(0, n));
const some = (n: number, low = -3, high = 3) =>
  Float32Array.from({ length: n }, () => random.between(low, high));

const erfc = (x: number): number => {
  // Integrates the tail by the trapezoidal rule, which is precise enough for a float32.
  const steps = 4000;
  const [from, to] = [Math.min(x, 8), 8];
  const step = (to - from) / steps;
  let sum = 0;
  for (let i = 0; i <= steps; i++)
    sum += Math.exp(-((from + i * step) ** 2)) * (i === 0 || i === steps ? 0.5 : 1);
  return (2 / Math.sqrt(Math.PI)) * sum * step;
};
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const unary: Record<string, (x: number) => number> = {
  abs: Math.abs,
  neg: (x) => -x,
  sign: Math.sign,
  square: (x) => x * x,
  sqrt: (x) => Math.sqrt(x),
  rsqrt: (x) => 1 / Math.sqrt(x),
  reciprocal: (x) => 1 / x,
  exp: Math.exp,
  log: Math.log,
  tanh: Math.tanh,
  sigmoid,
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  relu: (x) => Math.max(x, 0),
  silu: (x) => x * sigmoid(x),
  gelu: (x) => 0.5 * x * (x < 0 ? erfc(-x / Math.SQRT2) : 2 - erfc(x / Math.SQRT2)),
  geluTanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  elu: (x) => (x > 0 ? x : Math.expm1(x)),
  log1p: Math.log1p,
  sin: Math.sin,
  cos: Math.cos,
  floor: Math.floor,
};
const binary: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  min: Math.min,
  max: Math.max,
  eq: (a, b) => +(a === b),
  ne: (a, b) => +(a !== b),
  lt: (a, b) => +(a < b),
  le: (a, b) => +(a <= b),
  gt: (a, b) => +(a > b),
  ge: (a, b) => +(a >= b),
  pow: (a, b) => a ** b,
  huber: (a, b) =>
    Math.abs(a) <= b ? 0.5 * a * a : b * Math.fround(Math.abs(a) - Math.fround(0.5 * b)),
};

describe('ops', () => {
  let device: Device;
  let stream: Stream;
  const open: Floats[] = [];
  before(() => {
    device = openDevice(TESTED);
    stream = device.createStream();
  });
  afterEach(() => {
    for (const made of open.splice(0)) made.close();
  });
  after(() => stream.close());

  const tensor = (shape: number[], values?: Float32Array): Floats => {
    const made = device.allocate({ shape });
    open.push(made);
    return values === undefined ? made : made.write(values, stream);
  };
  /**
   * Returns a tensor of a shape, filled with random values by default. It is contiguous, or made of
   * columns of wider rows.
   */
  function placed(shape: number[], values = some(shape.reduce((a, b) => a * b, 1))): Floats {
    const columns = shape.at(-1) ?? 1;
    if (shape.length === 0 || below(2) === 0) return tensor(shape, values);
    const extra = 1 + below(4);
    const rows = values.length / columns;
    const all = some(rows * (columns + extra));
    for (let i = 0; i < values.length; i++)
      all[Math.floor(i / columns) * (columns + extra) + (i % columns) + 1] = values[i]!;
    const strides = shape.map((_, d) =>
      d === shape.length - 1
        ? 1
        : shape.slice(d + 1, -1).reduce((a, b) => a * b, 1) * (columns + extra),
    );
    return tensor([all.length], all).view({ shape, offset: 1, strides });
  }
  const shapes = () => Array.from({ length: below(4) }, () => 1 + below(9));

  for (const [name, f] of Object.entries(unary))
    it(`${name} and its gradient agree with plain loops`, async () => {
      for (let round = 0; round < 8; round++) {
        const shape = shapes();
        const positive = /sqrt|log/.test(name);
        const x = strewn(shape, (size) => some(size, positive ? 0.01 : -3));
        const out = strewn(shape);
        ops[name as 'exp'](stream, out, x);
        const want = Float32Array.from(await x.toArray(stream), f);
        expectClose(await out.toArray(stream), want, 1e-6, `${name} of ${shape}`);
        const dy = strewn(shape);
        const above = await dy.toArray(stream);
        const at = await x.toArray(stream);
        const slope = at.map((v, i) => {
          const h = 1e-4 * Math.max(Math.abs(v), 1e-3);
          return Math.abs(v) < 2 * h ? Number.NaN : (above[i]! * (f(v + h) - f(v - h))) / (2 * h);
        });
        ops.backward[name as 'exp'](stream, dy, dy, x);
        const got = await dy.toArray(stream);
        expectClose(
          got.map((v, i) => (Number.isNaN(slope[i]) ? 0 : v)),
          slope.map((v) => v || 0),
          2e-3,
          `slope of ${name}`,
        );
        const once = await out.toArray(stream);
        ops[name as 'exp'](stream, x, x);
        expect(await x.toArray(stream), 'in place').to.deep.equal(once);
      }
    });

  /**
   * Returns a tensor with random strides: its dimensions may be permuted, rows may have gaps, and
   * it may begin at an offset.
   */
  function strewn(shape: readonly number[], values = (size: number) => some(size)): Floats {
    const order = shape.map((_, d) => d);
    if (below(2) === 0) order.sort(() => below(3) - 1);
    const strides = shape.map(() => 0);
    let step = below(3) === 0 ? 2 : 1;
    for (const d of order.reverse()) {
      strides[d] = step;
      step *= shape[d]! + (below(3) === 0 ? 1 : 0);
    }
    const offset = below(3);
    return tensor([offset + step], values(offset + step)).view({ shape, offset, strides });
  }
  /** Returns a random shape that broadcasts to this one. */
  const partOf = (shape: readonly number[]) => {
    const kept = shape.slice(below(3) > 0 ? 0 : below(shape.length + 1));
    return kept.map((n) => (below(3) === 0 ? 1 : n));
  };
  const four = () => Array.from({ length: below(5) }, () => 1 + below(6));
  /**
   * Returns an operand's element at a row-major index of a shape to which the operand broadcasts.
   */
  const at = (
    values: Float32Array,
    of: readonly number[],
    shape: readonly number[],
    i: number,
  ): number => {
    let [place, rest, width] = [0, i, 1];
    for (let d = shape.length - 1; d >= 0; d--) {
      const own = d - (shape.length - of.length);
      if (own >= 0 && of[own] !== 1) place += (rest % shape[d]!) * width;
      if (own >= 0) width *= of[own]!;
      rest = Math.floor(rest / shape[d]!);
    }
    return values[place]!;
  };

  for (const [name, f] of Object.entries(binary))
    itLonger(`${name} equals plain loops over broadcast shapes and random strides`, async () => {
      for (let round = 0; round < setting({ short: 15, all: 100, long: 400 }); round++) {
        const shape = four();
        // In every other round values are small integers, so that some are equal. In the other
        // rounds they are fractions.
        const values = (size: number) =>
          round % 2 === 0 ? some(size) : some(size, -2, 3).map((x) => Math.trunc(x) + 0);
        const out = strewn(shape);
        const drawn = () =>
          below(6) === 0
            ? Math.round(random.between(-3, 3)) / 3 + 0
            : strewn(partOf(shape), values);
        const [a, b] = [drawn(), drawn()];
        const read = async (x: Floats | number) =>
          typeof x === 'number' ? Float32Array.of(x) : x.toArray(stream);
        const [u, v] = [await read(a), await read(b)];
        const shapeOf = (x: Floats | number) => (typeof x === 'number' ? [] : x.shape);
        ops[name as 'add'](stream, out, a, b);
        const want = Float32Array.from({ length: out.size }, (_, i) =>
          f(at(u, shapeOf(a), shape, i), at(v, shapeOf(b), shape, i)),
        );
        const got = await out.toArray(stream);
        const what = `${name} of [${shapeOf(a)}] and [${shapeOf(b)}] to [${shape}]`;
        // Only the rounded results of pow differ.
        if (name === 'pow')
          want.forEach((power, i) => {
            if (Math.abs(got[i]! / power - 1) < 1e-5) want[i] = got[i]!;
          });
        expect(got, what).to.deep.equal(want);
      }
    });

  itLonger('where selects elements over broadcast shapes and random strides', async () => {
    for (let round = 0; round < setting({ short: 60, all: 500, long: 2000 }); round++) {
      const shape = four();
      const out = strewn(shape);
      const inputs = [partOf(shape), partOf(shape), partOf(shape)].map((part, i) =>
        strewn(part, (size) => (i === 0 ? some(size, -1, 2).map(Math.trunc) : some(size))),
      ) as [Floats, Floats, Floats];
      const [c, u, v] = await Promise.all(inputs.map((each) => each.toArray(stream)));
      ops.where(stream, out, ...inputs);
      const [condition, a, b] = inputs;
      const want = Float32Array.from({ length: out.size }, (_, i) =>
        at(c!, condition.shape, shape, i) !== 0
          ? at(u!, a.shape, shape, i)
          : at(v!, b.shape, shape, i),
      );
      expect(
        await out.toArray(stream),
        `[${inputs.map((each) => `[${each.shape}]`)}]`,
      ).to.deep.equal(want);
    }
  });

  it('a number argument equals a tensor to the bit in every launch of a captured graph', async () => {
    const x = tensor([2, 3], Float32Array.of(1, -2, 3, Number.NaN, 0, 5));
    const [y, z, tenth] = [tensor([2, 3]), tensor([2, 3]), tensor([1], Float32Array.of(0.1))];
    stream.beginCapture();
    ops.mul(stream, y, x, 0.1);
    ops.sub(stream, y, 1, y);
    ops.where(stream, z, x, y, Number.NEGATIVE_INFINITY);
    ops.max(stream, z, z, Number.NaN);
    ops.gt(stream, z, x, 2.5);
    const graph = stream.endCapture();
    using exec = graph.instantiate();
    graph.close();
    // If the memory of a number argument were freed, one of these tensors would reuse and overwrite
    // it.
    const others = Array.from({ length: 20 }, () => tensor([1], Float32Array.of(77)));
    for (let round = 0; round < 3; round++) stream.replay(exec);
    expect(await z.toArray(stream)).to.deep.equal(Float32Array.of(0, 0, 1, 0, 0, 1));
    const got = await y.toArray(stream);
    ops.mul(stream, y, x, tenth);
    ops.sub(stream, y, tensor([], Float32Array.of(1)), y);
    expect(got, 'the same bits').to.deep.equal(await y.toArray(stream));
    expect(await others.at(-1)!.toArray(stream)).to.deep.equal(Float32Array.of(77));
  });

  it('firstNonFinite() ignores an infinite argument when the result is finite', async () => {
    const x = tensor([3], Float32Array.of(1, 2, 3));
    const within = (by: Stream) => ops.min(by, x, x, Number.POSITIVE_INFINITY);
    expect(await firstNonFinite(device, within)).to.equal(null);
    const found = await firstNonFinite(device, (by) =>
      ops.where(by, x, x, Number.NEGATIVE_INFINITY, 0),
    );
    expect(found).to.include({ operation: 0, kernel: 'where', value: Number.NEGATIVE_INFINITY });
    expect(found!.before).to.deep.equal(['a']);
  });

  it('a captured broadcast of b×n numbers takes few launches and equals plain loops', async () => {
    const [b, n] = [5, 3];
    const [u, theta] = [tensor([b, 1, n], some(b * n)), tensor([b, n, 1], some(b * n))];
    const out = tensor([b, n, n]);
    stream.beginCapture();
    ops.sub(stream, out, u, theta);
    using graph = stream.endCapture();
    expect(graph.nodeCount, 'a copy of one operand, and one launch').to.equal(2);
    using exec = graph.instantiate();
    stream.replay(exec);
    const [x, y] = [await u.toArray(stream), await theta.toArray(stream)];
    const want = Float32Array.from({ length: b * n * n }, (_, i) => {
      const [row, j, k] = [Math.floor(i / (n * n)), Math.floor(i / n) % n, i % n];
      return x[row * n + k]! - y[row * n + j]!;
    });
    expect(await out.toArray(stream)).to.deep.equal(want);
    stream.beginCapture();
    ops.sub(stream, out, out, theta);
    ops.exp(stream, out, out);
    using again = stream.endCapture();
    expect(again.nodeCount, 'one launch for each contiguous operation').to.equal(2);
  });

  it('throws a RangeError when the output overlaps an input at other positions', async () => {
    const all = tensor([64], some(64));
    const before = await all.toArray(stream);
    const at = (offset: number, shape: number[], strides?: number[]) =>
      all.view({ shape, offset, ...(strides && { strides }) });
    const [out, shifted, other] = [at(0, [4, 4]), at(1, [4, 4]), at(40, [4, 4])];
    const [column, row, few] = [at(2, [4], [4]), at(8, [4]), tensor([4])];
    const cases: Record<string, () => void> = {
      exp: () => ops.exp(stream, out, shifted),
      'backward.exp': () => ops.backward.exp(stream, out, other, shifted),
      'add to the left': () => ops.add(stream, shifted, other, out),
      'add a row of its own': () => ops.add(stream, out, other, row),
      'mul by its own number': () => ops.mul(stream, out, out, at(5, [1])),
      'of few launches': () => ops.add(stream, at(0, [4, 4], [1, 4]), shifted, 1),
      where: () => ops.where(stream, out, shifted, 1, 0),
      clamp: () => ops.clamp(stream, out, shifted, 0, 1),
      sum: () => ops.sum(stream, column, out),
      softmax: () => ops.softmax(stream, out, shifted),
      gather: () => ops.gather(stream, row, out, few),
      scatterAdd: () => ops.scatterAdd(stream, out, column, few),
      matmul: () => ops.matmul(stream, out, out, other),
      'halves that change places': () =>
        ops.concat(stream, out, [at(2, [4, 2], [4, 1]), at(0, [4, 2], [4, 1])]),
    };
    for (const [what, call] of Object.entries(cases)) {
      const refused = refusal(call);
      expect(refused, what).to.include({ name: 'RangeError', code: 'ERR_HOTSLOT_RANGE' });
      expect(refused.message, what).to.match(/share/);
    }
    expect(await all.toArray(stream), 'nothing was launched').to.deep.equal(before);
    // A part that is in its place already shares only elements at equal positions. Columns next to
    // the output share none.
    ops.concat(stream, out, [
      at(0, [4, 2], [4, 1]),
      other.view({ shape: [4, 2], strides: [4, 1] }),
    ]);
    ops.neg(stream, at(0, [4, 2], [4, 1]), at(2, [4, 2], [4, 1]));
    const want = before.slice(0, 16);
    for (let i = 0; i < 4; i++) {
      want.set(before.subarray(40 + 4 * i, 42 + 4 * i), 4 * i + 2);
      want.set(
        want.slice(4 * i + 2, 4 * i + 4).map((x) => -x),
        4 * i,
      );
    }
    expect(await out.toArray(stream)).to.deep.equal(want);
  });

  it('throws a RangeError when a launch would read elements that an earlier launch wrote', async () => {
    const all = tensor([2 * 4 * 3 * 5], some(120));
    const out = all.view({ shape: [4, 3, 5] });
    // The first index of the output is also an operand, which each launch reads.
    const part = out.view({ shape: [1, 3, 1], strides: [15, 5, 1] });
    const first = tensor([4, 1, 5], some(20));
    const refused = refusal(() => ops.add(stream, out, first, part));
    expect(refused).to.include({ name: 'RangeError' });
    expect(refused.message).to.include('add: out and b share elements with different layouts');
    // An output in place of its input, or next to it in the same rows, is accepted.
    const wide = all.view({ shape: [4, 3, 2], strides: [30, 10, 1] });
    const beside = all.view({ shape: [4, 3, 2], offset: 2, strides: [30, 10, 1] });
    const [also, row] = [await beside.toArray(stream), tensor([4, 1, 2], some(8))];
    const added = await row.toArray(stream);
    ops.add(stream, wide, beside, row);
    const sum = (values: Float32Array) =>
      values.map((v, i) => v + added[Math.floor(i / 6) * 2 + (i % 2)]!);
    expect(await wide.toArray(stream)).to.deep.equal(sum(also));
    ops.add(stream, beside, beside, row);
    expect(await beside.toArray(stream), 'in place').to.deep.equal(sum(also));
  });

  it('where, clamp and concat write the expected elements', async () => {
    const [a, c] = [
      tensor([2, 3], Float32Array.of(1, 2, 3, 4, 5, 6)),
      tensor([3], Float32Array.of(0, 1, 0)),
    ];
    const out = tensor([2, 3]);
    const one = tensor([], Float32Array.of(-7));
    ops.where(stream, out, c, a, one);
    expect([...(await out.toArray(stream))]).to.deep.equal([-7, 2, -7, -7, 5, -7]);
    ops.clamp(stream, out, a, 2, 4.5);
    expect([...(await out.toArray(stream))]).to.deep.equal([2, 2, 3, 4, 4.5, 4.5]);
    ops.clamp(stream, out, a, 3, Number.POSITIVE_INFINITY);
    expect([...(await out.toArray(stream))]).to.deep.equal([3, 3, 3, 4, 5, 6]);
    const wide = tensor([2, 5]);
    ops.concat(stream, wide, [a, a.view({ shape: [2, 2], offset: 1, strides: [3, 1] })]);
    expect([...(await wide.toArray(stream))]).to.deep.equal([1, 2, 3, 2, 3, 4, 5, 6, 5, 6]);
  });

  it('reductions, softmax, gather and scatterAdd agree with plain loops over rows', async () => {
    for (let round = 0; round < 30; round++) {
      const [rows, n] = [1 + below(9), 1 + below(90)];
      const x = placed([rows, n]);
      const values = await x.toArray(stream);
      const row = (i: number) => [...values.subarray(i * n, (i + 1) * n)];
      const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);
      const most = (list: number[]) => Math.max(...list);
      const exps = (list: number[]) => sum(list.map((v) => Math.exp(v - most(list))));
      const wanted = {
        sum,
        mean: (list: number[]) => sum(list) / n,
        max: most,
        min: (list: number[]) => Math.min(...list),
        logSumExp: (list: number[]) => most(list) + Math.log(exps(list)),
        argmax: (list: number[]) => list.indexOf(most(list)),
        argmin: (list: number[]) => list.indexOf(Math.min(...list)),
      };
      const out = placed(below(2) ? [rows] : [rows, 1]);
      for (const [name, f] of Object.entries(wanted)) {
        ops[name as 'sum'](stream, out, x);
        const want = Float32Array.from({ length: rows }, (_, i) => f(row(i)));
        expectClose(await out.toArray(stream), want, 3e-6, `${name} of ${rows}×${n}`);
      }
      const soft = placed([rows, n]);
      ops.softmax(stream, soft, x);
      const shares = Float32Array.from(values, (v, i) => {
        const list = row(Math.floor(i / n));
        return Math.exp(v - most(list)) / exps(list);
      });
      expectClose(await soft.toArray(stream), shares, 1e-6, 'softmax');
      ops.logSoftmax(stream, soft, x);
      expectClose(await soft.toArray(stream), shares.map(Math.log), 2e-6, 'logSoftmax');
      const index = tensor(
        [rows],
        Float32Array.from({ length: rows }, () => below(n)),
      );
      const chosen = await index.toArray(stream);
      const picked = tensor([rows]);
      ops.gather(stream, picked, x, index);
      const want = Float32Array.from(chosen, (j, i) => row(i)[j]!);
      expect(await picked.toArray(stream)).to.deep.equal(want);
      ops.scatterAdd(stream, x, picked, index);
      const added = values.map((v, i) => (chosen[Math.floor(i / n)] === i % n ? v + v : v));
      expect(await x.toArray(stream)).to.deep.equal(added);
    }
  });

  itLonger(
    'reductions, softmax, gather and scatterAdd accept rows in any dimensions and strides',
    async () => {
      for (let round = 0; round < setting({ short: 40, all: 150, long: 600 }); round++) {
        const shape = [...four().slice(0, 3), 1 + below(5)];
        const [places, n] = [shape.slice(0, -1), shape.at(-1)!];
        const size = places.reduce((a, b) => a * b, 1);
        // The elements of a row are contiguous, and rows may be at any distance.
        const rows = (values?: (size: number) => Float32Array): Floats => {
          const lying = strewn(places.map((d) => d));
          const strides = [...lying.strides.map((step) => step * n), 1];
          const span = lying.strides.reduce((sum, step, d) => sum + step * n * (places[d]! - 1), n);
          return tensor([span], values?.(span) ?? some(span)).view({ shape, strides });
        };
        const column = () => strewn(below(2) ? places : [...places, 1]);
        const x = rows();
        const values = await x.toArray(stream);
        const row = (i: number) => [...values.subarray(i * n, (i + 1) * n)];
        const most = (list: number[]) => Math.max(...list);
        const out = column();
        for (const [name, f] of Object.entries({
          sum: (list: number[]) => list.reduce((a, b) => a + b, 0),
          max: most,
          argmax: (list: number[]) => list.indexOf(most(list)),
          argmin: (list: number[]) => list.indexOf(Math.min(...list)),
        })) {
          ops[name as 'sum'](stream, out, x);
          const want = Float32Array.from({ length: size }, (_, i) => f(row(i)));
          expectClose(await out.toArray(stream), want, 3e-6, `${name} of ${shape}`);
        }
        const shares = rows();
        ops.softmax(stream, shares, x);
        const ones = tensor(places);
        ops.sum(stream, ones, shares);
        expectClose(await ones.toArray(stream), new Float32Array(size).fill(1), 1e-6, 'shares');
        const index = strewn(places, (length) => Float32Array.from({ length }, () => below(n)));
        const chosen = await index.toArray(stream);
        const picked = tensor(places);
        ops.gather(stream, picked, x, index);
        expect(await picked.toArray(stream)).to.deep.equal(
          Float32Array.from(chosen, (j, i) => row(i)[j]!),
        );
        ops.scatterAdd(stream, x, picked, index);
        const added = values.map((v, i) => (chosen[Math.floor(i / n)] === i % n ? v + v : v));
        expect(await x.toArray(stream)).to.deep.equal(added);
      }
    },
  );

  it('matmul equals plain loops with either operand transposed', async () => {
    for (let round = 0; round < 20; round++) {
      const [m, n, k] = [1 + below(20), 1 + below(20), 1 + below(20)];
      const [transA, transB] = [below(2) === 1, below(2) === 1];
      const [a, b, out] = [
        placed(transA ? [k, m] : [m, k]),
        placed(transB ? [n, k] : [k, n]),
        placed([m, n]),
      ];
      const [u, v, w] = [
        await a.toArray(stream),
        await b.toArray(stream),
        await out.toArray(stream),
      ];
      ops.matmul(stream, out, a, b, { transA, transB, alpha: 2, beta: 0.5 });
      const want = w.map((old, at) => {
        const [i, j] = [Math.floor(at / n), at % n];
        let sum = 0;
        for (let l = 0; l < k; l++)
          sum +=
            (transA ? u[l * m + i]! : u[i * k + l]!) * (transB ? v[j * k + l]! : v[l * n + j]!);
        return 2 * sum + 0.5 * old;
      });
      expectClose(await out.toArray(stream), want, 1e-5, `${m}×${k}·${k}×${n}`);
    }
  });

  it('launching captured operations equals eager operations to the bit', async () => {
    const [x, row, y, sums] = [
      placed([7, 11]),
      tensor([11], some(11)),
      tensor([7, 11]),
      tensor([7]),
    ];
    const work = () => {
      ops.mul(stream, y, x, row);
      ops.gelu(stream, y, y);
      ops.logSoftmax(stream, y, y);
      ops.logSumExp(stream, sums, x);
      ops.sub(stream, y, y, sums.view({ shape: [7, 1] }));
    };
    work();
    const issued = await y.toArray(stream);
    await stream.fill(y, 0);
    stream.beginCapture();
    work();
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    expect(await y.toArray(stream)).to.deep.equal(issued);
  });

  it('throws with both sides for tensors and options that do not fit', () => {
    const [a, b, wide] = [tensor([2, 3]), tensor([3, 2]), tensor([2, 7])];
    const many = tensor([70, 70, 70]);
    const whole = device.allocate({ shape: [2, 3], dtype: 'int32' });
    open.push(whole as unknown as Floats);
    const cases: [string, () => void, string, string][] = [
      [
        'two that do not fit',
        () => ops.add(stream, a, a, b),
        'RangeError',
        'add: a is 2×3 and b is 3×2, which do not broadcast: 3 and 2 meet, and neither is 1',
      ],
      [
        'another shape',
        () => ops.add(stream, a, b, 1),
        'RangeError',
        'add: a is 3×2, which does not fit out, 2×3',
      ],
      [
        'a number beyond float32',
        () => ops.mul(stream, a, a, 1e39),
        'RangeError',
        'mul: b is 1e+39, which float32',
      ],
      [
        'a number for out',
        () => ops.mul(stream, 2 as never, a, a),
        'TypeError',
        'mul: out must be a float32 tensor',
      ],
      [
        'an output in itself',
        () => ops.neg(stream, wide.view({ shape: [2, 3], strides: [2, 1] }), a),
        'RangeError',
        'neg: out [2,3] with strides [2,1] has two indices in one element',
      ],
      [
        'very many launches',
        () =>
          ops.neg(
            stream,
            tensor([70, 71, 142]).view({ shape: [70, 70, 70], strides: [71 * 142, 142, 2] }),
            many,
          ),
        'RangeError',
        'neg would need 4900 launches, and the limit is 4096: out [70,70,70] with strides [10082,142,2], x [70,70,70] with',
      ],
      [
        'fewer numbers',
        () => ops.exp(stream, a, a.view({ shape: [3] })),
        'RangeError',
        'x is 3, out is 2×3',
      ],
      [
        'another dtype',
        () => ops.exp(stream, a, whole as never),
        'TypeError',
        'exp: x must be a float32 tensor, got int32; convert()',
      ],
      [
        'no tensor',
        () => ops.exp(stream, a, 3 as never),
        'TypeError',
        'exp: x must be a float32 tensor, got 3',
      ],
      ['no stream', () => ops.exp({} as never, a, a), 'TypeError', 'exp'],
      ['limits', () => ops.clamp(stream, a, a, 2, 1), 'RangeError', 'low must be within'],
      [
        'a product',
        () => ops.matmul(stream, a, a, b),
        'RangeError',
        'matmul: 2×3 by 3×2 does not make 2×3',
      ],
      [
        'an option',
        () => ops.matmul(stream, a, a, b, { trans: true } as never),
        'TypeError',
        'trans',
      ],
      ['columns', () => ops.concat(stream, a, [a, b]), 'RangeError', 'do not make 2×3'],
      [
        'rows',
        () => ops.sum(stream, tensor([3]), a),
        'RangeError',
        'sum: out must be 2 or 2×1, got 3',
      ],
      [
        'rows of a tensor',
        () => ops.sum(stream, tensor([3]), tensor([4, 3, 5])),
        'RangeError',
        'sum: out must be 4×3 or 4×3×1, got 3',
      ],
      [
        'a product of blocks',
        () => ops.matmul(stream, a, tensor([4, 3, 5]), b),
        'RangeError',
        'matmul: a must have 1 or 2 dimensions, got 4×3×5',
      ],
      [
        'an index',
        () => ops.gather(stream, tensor([2]), a, tensor([3])),
        'RangeError',
        'gather: index',
      ],
    ];
    for (const [what, call, name, text] of cases) {
      const refused = refusal(call);
      expect(refused.name, what).to.equal(name);
      expect(refused.message, what).to.include(text);
    }
  });
});
