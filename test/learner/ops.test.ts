/** Ops against plain loops, over random shapes, views and broadcasts; captured as issued; refused at the door. */
import { expect } from 'chai';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { ops } from '../../src/learner/index.ts';
import { Random } from '../../src/random.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { expectClose } from './reference.ts';

type Floats = Tensor<'float32'>;

const random = new Random(15);
const below = (n: number) => Math.floor(random.between(0, n));
const some = (n: number, low = -3, high = 3) => Float32Array.from({ length: n }, () => random.between(low, high));

const erfc = (x: number): number => {
  // By the trapezium rule over the tail, fine enough for a float.
  const steps = 4000;
  const [from, to] = [Math.min(x, 8), 8];
  const step = (to - from) / steps;
  let sum = 0;
  for (let i = 0; i <= steps; i++) sum += Math.exp(-((from + i * step) ** 2)) * (i === 0 || i === steps ? 0.5 : 1);
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
};

describe('learner/ops', () => {
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
  /** Random numbers of a shape: contiguous, or columns of wider rows. */
  function placed(shape: number[], values = some(shape.reduce((a, b) => a * b, 1))): Floats {
    const columns = shape.at(-1) ?? 1;
    if (shape.length === 0 || below(2) === 0) return tensor(shape, values);
    const extra = 1 + below(4);
    const rows = values.length / columns;
    const all = some(rows * (columns + extra));
    for (let i = 0; i < values.length; i++)
      all[Math.floor(i / columns) * (columns + extra) + (i % columns) + 1] = values[i]!;
    const strides = shape.map((_, d) =>
      d === shape.length - 1 ? 1 : shape.slice(d + 1, -1).reduce((a, b) => a * b, 1) * (columns + extra),
    );
    return tensor([all.length], all).view({ shape, offset: 1, strides });
  }
  const shapes = () => Array.from({ length: below(4) }, () => 1 + below(9));

  for (const [name, f] of Object.entries(unary))
    it(`${name} is what plain loops give`, async () => {
      for (let round = 0; round < 8; round++) {
        const shape = shapes();
        const positive = /sqrt|log/.test(name);
        const x = placed(
          shape,
          some(
            shape.reduce((a, b) => a * b, 1),
            positive ? 0.01 : -3,
          ),
        );
        const out = placed(shape);
        ops[name as 'exp'](stream, out, x);
        const want = Float32Array.from(await x.toArray(stream), f);
        expectClose(await out.toArray(stream), want, 1e-6, `${name} of ${shape}`);
        const dy = placed(shape);
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

  it('of two, what plain loops give, whatever is said again', async () => {
    for (let round = 0; round < 150; round++) {
      const shape = shapes();
      const part = () => {
        const kept = shape.slice(below(shape.length + 1));
        return kept.map((n) => (below(3) === 0 ? 1 : n));
      };
      const [a, b, out] = [placed(part()), placed(part()), placed(shape)];
      const [u, v] = [await a.toArray(stream), await b.toArray(stream)];
      if (below(2) === 0) v.set(u.subarray(0, Math.min(u.length, v.length)));
      if (b.contiguous) b.write(v, stream);
      const seen = await b.toArray(stream);
      const at = (of: Floats, values: Float32Array, i: number): number => {
        let [place, rest, width] = [0, i, 1];
        for (let d = shape.length - 1; d >= 0; d--) {
          const own = d - (shape.length - of.shape.length);
          const index = rest % shape[d]!;
          rest = Math.floor(rest / shape[d]!);
          if (own < 0) continue;
          if (of.shape[own] !== 1) place += index * width;
          width *= of.shape[own]!;
        }
        return values[place]!;
      };
      const name = Object.keys(binary)[round % 12]!;
      let fits = true;
      try {
        ops[name as 'add'](stream, out, a, b);
      } catch (error) {
        // Three dimensions, no two of which join.
        fits = false;
        expect(shape.length, String(error)).to.equal(3);
        expect(refusal(() => ops[name as 'add'](stream, out, a, b))).to.include({ name: 'TypeError' });
      }
      if (!fits) continue;
      const want = Float32Array.from({ length: out.size }, (_, i) => binary[name]!(at(a, u, i), at(b, seen, i)));
      expectClose(await out.toArray(stream), want, 1e-6, `${name} of [${a.shape}] and [${b.shape}] to [${shape}]`);
    }
  });

  it('where, clamp, concat', async () => {
    const [a, c] = [tensor([2, 3], Float32Array.of(1, 2, 3, 4, 5, 6)), tensor([3], Float32Array.of(0, 1, 0))];
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

  it('reductions, softmax, gather and scatterAdd over rows', async () => {
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

  it('matmul multiplies what is stored either way', async () => {
    for (let round = 0; round < 20; round++) {
      const [m, n, k] = [1 + below(20), 1 + below(20), 1 + below(20)];
      const [transA, transB] = [below(2) === 1, below(2) === 1];
      const [a, b, out] = [placed(transA ? [k, m] : [m, k]), placed(transB ? [n, k] : [k, n]), placed([m, n])];
      const [u, v, w] = [await a.toArray(stream), await b.toArray(stream), await out.toArray(stream)];
      ops.matmul(stream, out, a, b, { transA, transB, alpha: 2, beta: 0.5 });
      const want = w.map((old, at) => {
        const [i, j] = [Math.floor(at / n), at % n];
        let sum = 0;
        for (let l = 0; l < k; l++)
          sum += (transA ? u[l * m + i]! : u[i * k + l]!) * (transB ? v[j * k + l]! : v[l * n + j]!);
        return 2 * sum + 0.5 * old;
      });
      expectClose(await out.toArray(stream), want, 1e-5, `${m}×${k}·${k}×${n}`);
    }
  });

  it('captured and replayed, the same bits as issued', async () => {
    const [x, row, y, sums] = [placed([7, 11]), tensor([11], some(11)), tensor([7, 11]), tensor([7])];
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

  it('refuses at the door, naming both sides', () => {
    const [a, b, wide] = [tensor([2, 3]), tensor([3, 2]), tensor([2, 7])];
    const every = wide.view({ shape: [2, 3], strides: [7, 2] });
    const whole = device.allocate({ shape: [2, 3], dtype: 'int32' });
    open.push(whole as unknown as Floats);
    const cases: [string, () => void, string, string][] = [
      ['another shape', () => ops.add(stream, a, a, b), 'RangeError', 'add: b is 3×2, which does not fit out, 2×3'],
      ['fewer numbers', () => ops.exp(stream, a, a.view({ shape: [3] })), 'RangeError', 'x is 3, out is 2×3'],
      [
        'another dtype',
        () => ops.exp(stream, a, whole as never),
        'TypeError',
        'exp: x must be a float32 tensor, got int32: convert()',
      ],
      ['leaps', () => ops.exp(stream, a, every), 'TypeError', 'x [2,3] has strides [7,2]'],
      ['no tensor', () => ops.exp(stream, a, 3 as never), 'TypeError', 'exp: x must be a float32 tensor, got 3'],
      ['no stream', () => ops.exp({} as never, a, a), 'TypeError', 'exp'],
      ['limits', () => ops.clamp(stream, a, a, 2, 1), 'RangeError', 'low must be within'],
      ['a product', () => ops.matmul(stream, a, a, b), 'RangeError', 'matmul: 2×3 by 3×2 does not make 2×3'],
      ['an option', () => ops.matmul(stream, a, a, b, { trans: true } as never), 'TypeError', 'trans'],
      ['columns', () => ops.concat(stream, a, [a, b]), 'RangeError', 'do not make 2×3'],
      ['rows', () => ops.sum(stream, tensor([3]), a), 'RangeError', 'sum: out must be 2 or 2×1, got 3'],
      ['an index', () => ops.gather(stream, tensor([2]), a, tensor([3])), 'RangeError', 'gather: index'],
    ];
    for (const [what, call, name, text] of cases) {
      const refused = refusal(call);
      expect(refused.name, what).to.equal(name);
      expect(refused.message, what).to.include(text);
    }
  });
});
