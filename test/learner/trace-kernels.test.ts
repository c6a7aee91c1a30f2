/**
 * Tests the kernels that copy, select, sort and draw, and the gradients of ops, against plain loops
 * in float32. Each loop adds in the kernel's order, so most results must be equal.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import type { Device } from '../../src/device/device.ts';
import type { kernels } from '../../src/device/kernels.ts';
import { openDevice } from '../../src/device/open.ts';
import { launchAnything } from '../rig/launch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { expectClose } from './reference.ts';

const { fround } = Math;
const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
const random = new Random(29);
const some = (n: number, scale = 2) =>
  Float32Array.from({ length: n }, () => scale * random.between(-1, 1));
const holes = (n: number) => new Float32Array(n).fill(nan);
const range = (n: number) => Array.from({ length: n }, (_, i) => i);
/** Returns indices below `n`, and some outside of it. */
const indices = (count: number, n: number) =>
  Float32Array.from(range(count), (i) =>
    i % 7 === 3 ? [nan, -1, n, inf, -0.5][i % 5]! : Math.floor(random.between(0, n)),
  );
const permutations = (rows: number, columns: number, stride: number) => {
  const index = holes((rows - 1) * stride + columns);
  for (let i = 0; i < rows; i++) {
    const order = range(columns);
    for (let j = columns - 1; j > 0; j--) {
      const k = Math.floor(random.between(0, j + 1));
      [order[j], order[k]] = [order[k]!, order[j]!];
    }
    index.set(order, i * stride);
  }
  return index;
};

describe('Stream.launch() of the kernels of traced functions', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });

  /** Launches with tensors of these values. Returns the values of the first one afterwards. */
  async function launched(
    kernel: keyof typeof kernels,
    tensors: readonly Float32Array[],
    wholes: readonly number[],
    reals: readonly number[] = [],
  ): Promise<Float32Array> {
    const made = tensors.map((values) => device.allocate({ shape: [values.length] }).write(values));
    launchAnything(device.currentStream, kernel, { tensors: made, wholes, reals });
    const got = await made[0]!.toArray();
    for (const tensor of made) tensor.close();
    return got;
  }

  const layouts = [
    ['a dense copy', [2, 3, 4, 5], [60, 20, 5, 1], [60, 20, 5, 1]],
    ['a transposition', [1, 3, 4, 5], [60, 1, 3, 12], [60, 20, 5, 1]],
    ['repeated elements', [2, 3, 4, 5], [60, 20, 5, 1], [0, 1, 0, 3]],
    ['a repeated last dimension', [2, 3, 4, 5], [70, 21, 5, 1], [12, 4, 1, 0]],
    ['reversed dimensions', [2, 3, 4, 5], [61, 20, 5, 1], [-60, 20, -5, -1]],
    ['gaps in both', [2, 3, 4, 5], [200, 60, 12, 2], [90, 30, 7, 1]],
    ['one element', [1, 1, 1, 1], [0, 0, 0, 0], [-7, 0, 3, 1]],
    ['one dimension of one element', [3, 1, 2, 1], [2, 0, 1, 0], [1, 9, 3, -4]],
  ] as const;
  for (const [title, n, y, x] of layouts)
    it(`copy4d writes ${title}, with and without beta`, async () => {
      const reach = (strides: readonly number[]) =>
        1 + n.reduce((sum, count, d) => sum + (count - 1) * Math.abs(strides[d]!), 0);
      const from = some(reach(x));
      for (const [beta, to] of [
        [0, holes(reach(y))],
        [0.75, some(reach(y))],
      ] as const) {
        const want = to.slice();
        for (let at = 0; at < n[0] * n[1] * n[2] * n[3]; at++) {
          let [rest, into, out] = [at, 0, 0];
          for (let d = 3; d >= 0; d--) {
            const i = rest % n[d]!;
            rest = Math.floor(rest / n[d]!);
            into += i * y[d]!;
            out += x[d]! < 0 ? (i - n[d]! + 1) * x[d]! : i * x[d]!;
          }
          want[into] = beta === 0 ? from[out]! : from[out]! + fround(beta * to[into]!);
        }
        expect(await launched('copy4d', [to, from], [...n, ...y, ...x], [beta])).to.deep.equal(
          want,
        );
      }
    });

  it('copy4d rejects strides of y by which two indices meet', () => {
    using x = device.allocate({ shape: [1000] });
    using y = device.allocate({ shape: [1000] });
    const launch = (n: number[], strides: number[]) => () =>
      launchAnything(device.currentStream, 'copy4d', {
        tensors: [y, x],
        wholes: [...n, ...strides, 0, 0, 0, 0],
        reals: [0],
      });
    expect(launch([1, 2, 3, 4], [0, 12, 4, 1])).to.not.throw();
    expect(launch([1, 2, 3, 4], [0, 1, 2, 6])).to.not.throw();
    expect(launch([1, 2, 3, 4], [0, 11, 4, 1])).to.throw(
      RangeError,
      'y1 must be at least 12, the reach of the dimensions of smaller strides, got 11',
    );
    expect(launch([1, 1, 2, 4], [0, 0, 0, 1])).to.throw(RangeError, 'y2 must be at least 1');
    expect(launch([1, 1, 2, 2], [0, 0, 1, 1])).to.throw(RangeError, 'must be at least 2');
    expect(launch([1, 1, 2, 2], [0, 0, -2, 1])).to.throw(RangeError, 'y2 must be at least 0');
    expect(launch([2 ** 40, 2 ** 40, 1, 1], [2 ** 40, 1, 0, 0])).to.throw(RangeError, 'tensor 0');
  });

  it('chain rejects numbers beyond its limits, and tensors that are too short', () => {
    using y = device.allocate({ shape: [6] });
    using x = device.allocate({ shape: [6] });
    using program = device.allocate({ shape: [65] });
    const good = [2, 3, 3, 0, 0, 0, 3, -1, -1, -1, -1, -1];
    const launch =
      (at: number, value: number, words = program) =>
      () =>
        launchAnything(device.currentStream, 'chain', {
          tensors: [y, y, y, y, x, x, x, x, x, x, words],
          wholes: good.map((whole, i) => (i === at ? value : whole)),
          reals: [],
        });
    expect(launch(2, 3)).to.not.throw();
    expect(launch(2, 0)).to.throw(RangeError, "y0_stride must be at least the row's 3 elements");
    expect(launch(3, 2)).to.throw(RangeError, "y1_stride must be at least the row's 3 elements");
    expect(launch(5, -1)).to.throw(RangeError, "y3_stride must be at least the row's 3 elements");
    expect(launch(3, 3)).to.throw(
      RangeError,
      'tensor 0 is written and shares memory with tensor 1',
    );
    expect(launch(6, 4)).to.throw(RangeError, 'tensor 4 covers 24 bytes, 28 are needed');
    expect(launch(7, 2)).to.throw(RangeError, "x1_stride must be at least the row's 3 elements");
    expect(launch(11, -6)).to.not.throw();
    expect(launch(11, -7)).to.throw(RangeError, 'tensor 9 covers 24 bytes, 28 are needed');
    expect(launch(11, Number.MIN_SAFE_INTEGER)).to.throw(RangeError, 'tensor 9 covers 24 bytes');
    expect(launch(2, 3, x)).to.throw(RangeError, 'tensor 10 covers 24 bytes, 260 are needed');
  });

  it('take_rows copies rows by index, from one table or a table for each row', async () => {
    for (const [rows, columns, tableRows, apart] of [
      [40, 5, 6, 0],
      [17, 1, 3, 3],
      [9, 33, 4, 5],
      [1, 1, 1, 0],
    ] as const) {
      const [outStride, tableStride, indexStride] = [columns + 2, columns + 1, 2];
      const table = some(((rows - 1) * apart + tableRows) * tableStride);
      const index = indices(rows * indexStride, tableRows);
      const out = some(rows * outStride);
      const want = out.slice();
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) {
          const a = index[i * indexStride]!;
          const inside = a >= 0 && a < tableRows;
          want[i * outStride + j] = inside
            ? table[(i * apart + Math.floor(a)) * tableStride + j]!
            : nan;
        }
      const wholes = [rows, columns, tableRows, outStride, tableStride, indexStride, apart];
      expect(await launched('take_rows', [out, table, index], wholes)).to.deep.equal(want);
    }
  });

  it('take_rows_backward adds rows in ascending order, and beta times the old values last', async () => {
    for (const [rows, columns, tableRows] of [
      [60, 5, 6],
      [200, 1, 3],
      [9, 300, 70],
      [1, 1, 1],
    ] as const)
      for (const beta of [0, 0.5]) {
        const [tableStride, dyStride, indexStride] = [columns + 1, columns + 2, 2];
        const dTable = beta === 0 ? holes(tableRows * tableStride) : some(tableRows * tableStride);
        const dy = some(rows * dyStride);
        const index = indices(rows * indexStride, tableRows);
        const want = dTable.slice();
        for (let r = 0; r < tableRows; r++)
          for (let j = 0; j < columns; j++) {
            let sum = 0;
            for (let i = 0; i < rows; i++)
              if (Math.floor(index[i * indexStride]!) === r && index[i * indexStride]! >= 0)
                sum = fround(sum + dy[i * dyStride + j]!);
            const at = r * tableStride + j;
            want[at] = beta === 0 ? sum : fround(beta * dTable[at]!) + sum;
          }
        const wholes = [rows, columns, tableRows, tableStride, dyStride, indexStride];
        const got = await launched('take_rows_backward', [dTable, dy, index], wholes, [beta]);
        expect(got).to.deep.equal(want);
      }
  });

  it('pick_backward adds to the block that the index names', async () => {
    for (const [rows, n, inner, dyStride] of [
      [30, 6, 1, 1],
      [30, 4, 5, 7],
      [9, 3, 2, 0],
      [1, 1, 1, 0],
    ] as const)
      for (const beta of [0, -1.5]) {
        const dxStride = n * inner + 1;
        const dx = beta === 0 ? holes(rows * dxStride) : some(rows * dxStride);
        const dy = some((rows - 1) * dyStride + inner);
        dy[0] = -0;
        const index = indices(rows * 2, n);
        const want = dx.slice();
        for (let i = 0; i < rows; i++)
          for (let q = 0; q < n * inner; q++) {
            const hit = index[2 * i]! >= 0 && Math.floor(index[2 * i]!) === Math.floor(q / inner);
            const at = i * dxStride + q;
            want[at] =
              (beta === 0 ? 0 : fround(beta * dx[at]!)) +
              (hit ? dy[i * dyStride + (q % inner)]! : 0);
          }
        const wholes = [rows, n, inner, dxStride, dyStride, 2];
        expect(await launched('pick_backward', [dx, dy, index], wholes, [beta])).to.deep.equal(
          want,
        );
      }
  });

  const awkward = (n: number) =>
    some(n).map((value, i) =>
      i % 11 === 4 ? nan : i % 13 === 5 ? inf : Math.round(2 * value) / 2,
    );
  const slopes: readonly [string, (d: number, a: number, b: number) => number][] = [
    ['min', (d, a, b) => (a < b ? d : a === b ? fround(0.5 * d) : a > b ? 0 : nan)],
    ['max', (d, a, b) => (a > b ? d : a === b ? fround(0.5 * d) : a < b ? 0 : nan)],
    ['div', (d, a, b) => fround(-d * fround(fround(a / b) / b))],
    ['huber', (d, a, b) => fround((a < -b ? -b : a > b ? b : a) * d)],
  ];
  for (const [op, [name, slope]] of slopes.entries())
    it(`binary_backward multiplies dy by the slope of ${name}, over repeated operands`, async () => {
      const [rows, columns] = [13, 17];
      for (const steps of [
        [18, 1, 19, 1, 20, 1],
        [0, 1, 18, 1, 3, 0],
        [18, 1, 0, 0, 18, 1],
        [0, 0, 2, 0, 0, 1],
      ] as const) {
        const [dyRow, dyStep, aRow, aStep, bRow, bStep] = steps;
        const of = (row: number, step: number) => (rows - 1) * row + (columns - 1) * step + 1;
        const [dy, a] = [awkward(of(dyRow, dyStep)), awkward(of(aRow, aStep))];
        const b = awkward(of(bRow, bStep)).map((v) => (name === 'huber' ? Math.abs(v) + 0.5 : v));
        const dx = holes(rows * 20);
        const want = dx.slice();
        for (let i = 0; i < rows; i++)
          for (let j = 0; j < columns; j++)
            want[i * 20 + j] = slope(
              dy[i * dyRow + j * dyStep]!,
              a[i * aRow + j * aStep]!,
              b[i * bRow + j * bStep]!,
            );
        const wholes = [rows, columns, 20, ...steps, op];
        expect(await launched('binary_backward', [dx, dy, a, b], wholes)).to.deep.equal(want);
      }
    });

  it('clip_backward passes dy within the limits, and NaN of x', async () => {
    const [dy, x] = [awkward(13 * 18), awkward(13 * 19)];
    const dx = holes(13 * 17);
    const want = dx.map((_, at) => {
      const [i, j] = [Math.floor(at / 17), at % 17];
      const v = x[i * 19 + j]!;
      return v >= -0.5 && v <= 1 ? dy[i * 18 + j]! : Number.isNaN(v) ? nan : 0;
    });
    const got = await launched('clip_backward', [dx, dy, x], [13, 17, 17, 18, 19], [-0.5, 1]);
    expect(got).to.deep.equal(want);
  });

  it('softmax_rows gives 0 for −∞, also throughout a row, and −∞ as the logarithm', async () => {
    const x = Float32Array.of(1, -inf, 2, -inf, -inf, -inf);
    const plain = await launched('softmax_rows', [holes(6), x], [2, 3, 3, 3, 0]);
    const e = Math.exp(-1);
    expectClose(plain, Float32Array.of(e / (1 + e), 0, 1 / (1 + e), 0, 0, 0), 1e-6, 'softmax');
    const logs = await launched('softmax_rows', [holes(6), x], [2, 3, 3, 3, 1]);
    expect([...logs].map(Number.isFinite)).to.deep.equal([true, false, true, false, false, false]);
    expect([logs[1], logs[3], logs[4], logs[5]]).to.deep.equal([-inf, -inf, -inf, -inf]);
  });

  it('softmax_rows_backward agrees with plain loops, and leaves out elements of probability 0', async () => {
    for (const [rows, columns] of [
      [5, 1],
      [7, 33],
      [2, 600],
    ] as const)
      for (const logarithm of [0, 1]) {
        const x = some(rows * columns).map((v, i) => (i % 9 === 2 ? -inf : v));
        const dy = some(rows * columns).map((v, i) => (i % 9 === 2 && !logarithm ? inf : v));
        const shape = [rows, columns, columns, columns];
        const y = await launched('softmax_rows', [holes(x.length), x], [...shape, logarithm]);
        const got = await launched(
          'softmax_rows_backward',
          [holes(x.length), dy, y],
          [...shape, columns, logarithm],
        );
        const want = dy.map((d, at) => {
          const row = range(columns).map((j) => Math.floor(at / columns) * columns + j);
          const sum = row.reduce(
            (s, k) => s + (logarithm ? dy[k]! : y[k] === 0 ? 0 : dy[k]! * y[k]!),
            0,
          );
          if (logarithm) return d - Math.exp(y[at]!) * sum;
          return y[at] === 0 ? 0 : y[at]! * (d - sum);
        });
        expectClose(got, want, 1e-5, `${rows} × ${columns}, logarithm ${logarithm}`);
      }
  });

  it('cumsum adds in order, from the front or from the back, in place too', async () => {
    for (const [outer, n, inner] of [
      [3, 7, 5],
      [4, 9, 1],
      [1, 1, 300],
      [2, 1000, 1],
    ] as const)
      for (const reverse of [0, 1]) {
        const x = some(outer * n * inner);
        x[0] = -0;
        const want = x.slice();
        const at = (o: number, k: number, i: number) =>
          (o * n + (reverse ? n - 1 - k : k)) * inner + i;
        for (let o = 0; o < outer; o++)
          for (let i = 0; i < inner; i++)
            for (let k = 1; k < n; k++) want[at(o, k, i)]! += want[at(o, k - 1, i)]!;
        const wholes = [outer, n, inner, reverse];
        expect(await launched('cumsum', [holes(x.length), x], wholes)).to.deep.equal(want);
        using both = device.allocate({ shape: [x.length] }).write(x);
        launchAnything(device.currentStream, 'cumsum', { tensors: [both, both], wholes });
        expect(await both.toArray()).to.deep.equal(want);
      }
  });

  it('rank_rows sorts stably with NaN last, and the moves along rows undo each other', async () => {
    for (const columns of [1, 2, 7, 64, 65, 300, 1024]) {
      const [rows, stride] = [3, columns + 1];
      const x = some(rows * stride, 20).map((v, i) =>
        i % 7 === 2 ? [nan, inf, -inf, -0, 0][i % 5]! : i % 2 ? Math.round(v) : v,
      );
      const ranks = await launched(
        'rank_rows',
        [holes(rows * columns), x],
        [rows, columns, columns, stride],
      );
      const order = (u: number, v: number) =>
        Number.isNaN(u) ? (Number.isNaN(v) ? 0 : 1) : Number.isNaN(v) || u < v ? -1 : +(u > v);
      for (let i = 0; i < rows; i++) {
        const row = x.subarray(i * stride, i * stride + columns);
        const sorted = range(columns).sort((j, k) => order(row[j]!, row[k]!) || j - k);
        expect(
          sorted.map((j) => ranks[i * columns + j]),
          `${columns} columns`,
        ).to.deep.equal(range(columns));
      }
      const all = [rows, columns, columns, stride, columns];
      const sorted = await launched('scatter_along_rows', [holes(rows * columns), x, ranks], all);
      const back = await launched(
        'gather_along_rows',
        [holes(rows * columns), sorted, ranks],
        [rows, columns, columns, columns, columns, columns],
      );
      const dense = range(rows).flatMap((i) => [...x.subarray(i * stride, i * stride + columns)]);
      expect(back).to.deep.equal(Float32Array.from(dense));
    }
  });

  it('the moves along rows treat an index outside as their contracts say', async () => {
    const index = permutations(2, 4, 5);
    index[1] = 4;
    index[7] = nan;
    const x = some(8);
    const y = new Float32Array(8).fill(9);
    const want = y.slice();
    for (const at of [0, 2, 3, 5, 6, 8])
      want[(at < 5 ? 0 : 4) + index[at]!] = x[at < 5 ? at : at - 1]!;
    expect(await launched('scatter_along_rows', [y, x, index], [2, 4, 4, 4, 5])).to.deep.equal(
      want,
    );
    using both = device.allocate({ shape: [3] }).write(Float32Array.of(1, 2, -1));
    using from = device.allocate({ shape: [2] }).write(Float32Array.of(5, 6));
    launchAnything(device.currentStream, 'gather_along_rows', {
      tensors: [both, from, both],
      wholes: [1, 3, 2, 3, 2, 3],
    });
    expect(await both.toArray()).to.deep.equal(Float32Array.of(6, nan, nan));
  });

  it('squashed_gaussian_rows has the bits of squashed_gaussian and the sum of its terms', async () => {
    const stream = device.currentStream;
    const rows = 5;
    for (const [k, n] of [...range(33).map((i) => i + 1), 64, 70].entries()) {
      const [actionStride, outStride] = [n + (k % 3), 2 * n + (k % 2)];
      const box = some(2 * n).map((v, j) => (j < n ? Math.abs(v) + 0.1 : v));
      const given = [some(rows * outStride, 6), some(rows * n), box].map((values) =>
        device.allocate({ shape: [values.length] }).write(values),
      );
      const results = (sizes: readonly number[]) =>
        sizes.map((size) => device.allocate({ shape: [size] }).write(holes(size)));
      const both = results([rows * actionStride, rows * n, rows]);
      const one = results([rows * actionStride, rows]);
      for (const form of [0, 1])
        for (const correction of range(4)) {
          const wholes = [rows, n, actionStride, outStride, form, correction];
          const launch = (
            kernel: 'squashed_gaussian' | 'squashed_gaussian_rows',
            to: typeof both,
          ) =>
            launchAnything(stream, kernel, {
              tensors: [...to.slice(0, 2), ...given],
              wholes,
              reals: [-3, 1, 1.5],
            });
          launch('squashed_gaussian', both);
          launchAnything(stream, 'reduce_rows', {
            tensors: [both[2]!, both[1]!],
            wholes: [rows, n, 1, n, 0],
            reals: [1],
          });
          launch('squashed_gaussian_rows', one);
          const bits = async (tensor: (typeof both)[number]) =>
            Buffer.from((await tensor.toArray()).buffer).toString('hex');
          expect(await bits(one[0]!), `actions ${wholes}`).to.equal(await bits(both[0]!));
          expect(await bits(one[1]!), `log-probs ${wholes}`).to.equal(await bits(both[2]!));
        }
      for (const tensor of [...given, ...both, ...one]) tensor.close();
    }
  });

  /**
   * The losses' kernels: elements in each row of the results, then elements and distance of the rows
   * of the operands, then the whole numbers between `rows` and the rows of operands that repeat.
   */
  const losses = {
    td_loss_weighted: {
      results: [5, 2, 1],
      operands: [
        [5, 6],
        [1, 1],
        [1, 2],
        [1, 3],
      ],
      wholes: [5, 5, 1, 6, 2, 3],
      reals: [0.5, 0.25],
    },
    categorical_loss: {
      results: [5, 2, 1],
      operands: [
        [5, 6],
        [5, 5],
        [1, 2],
      ],
      wholes: [5, 5, 1, 6, 2],
      reals: [-1, 0.25, -2, 2],
    },
    categorical_project: {
      results: [5, 1],
      operands: [
        [5, 5],
        [1, 1],
        [1, 2],
        [1, 3],
      ],
      wholes: [5, 1, 2, 3],
      reals: [-2, 2],
    },
  } as const;
  for (const [name, { results, operands, wholes, reals }] of Object.entries(losses))
    it(`${name} of operands that repeat has the bits of a launch for each row`, async () => {
      const kernel = name as keyof typeof losses;
      /** Launches the kernel with operands of these rows. Returns the results. */
      async function launchedRows(
        rows: number,
        own: readonly number[],
        inputs: readonly Float32Array[],
      ): Promise<number[][]> {
        const tensors = [...results.map((width) => holes(rows * width)), ...inputs].map((values) =>
          device.allocate({ shape: [values.length] }).write(values),
        );
        const all = [rows, ...wholes, ...own.slice(1)];
        launchAnything(device.currentStream, kernel, { tensors, wholes: all, reals });
        const got: number[][] = [];
        for (const tensor of tensors.slice(0, results.length))
          got.push([...(await tensor.toArray())]);
        for (const tensor of tensors) tensor.close();
        return got;
      }
      const rows = 12;
      for (const periods of [
        [4, 4, 4],
        [12, 4, 4],
        [6, 12, 2],
        [1, 1, 1],
        [5, 7, 11],
        [12, 12, 12],
      ]) {
        const own = operands.map((_, k) => (k === 0 ? rows : periods[k - 1]!));
        const inputs = operands.map(([width, distance], k) => {
          const values = some((own[k]! - 1) * distance + width);
          // Actions, of which some are outside of the row.
          return kernel === 'td_loss_weighted' && k === 2
            ? values.map((_, i) => (i % 7) - 1)
            : values;
        });
        const got = await launchedRows(rows, own, inputs);
        for (const i of range(rows)) {
          const row = operands.map(([width, distance], k) => {
            const at = (i % own[k]!) * distance;
            return inputs[k]!.slice(at, at + width);
          });
          const want = await launchedRows(
            1,
            operands.map(() => 1),
            row,
          );
          const part = results.map((width, k) => got[k]!.slice(i * width, (i + 1) * width));
          expect(part, `row ${i}, periods of ${periods}`).to.deep.equal(want);
        }
      }
    });

  it("gemm_batched equals gemm for each product, in every transposition, and has its bits in Hotslot's own products", async () => {
    const [batch, m, n, k] = [3, 5, 7, 6];
    // cuBLAS may add the terms of a batch in another order.
    const same = !device.traits.matrixProducts.startsWith('cuBLAS');
    for (const [transA, transB, shareA, beta] of [
      [0, 0, 0, 0],
      [1, 0, 0, 0.5],
      [0, 1, 1, 0],
      [1, 1, 1, -2],
    ] as const) {
      const [lda, ldb, ldc] = [9, 10, 8];
      const [aEach, bEach, cEach] = [(transA ? k : m) * lda, (transB ? n : k) * ldb, m * ldc];
      const [a, b] = [some(batch * aEach), some(batch * bEach)];
      const c = beta === 0 ? holes(batch * cEach) : some(batch * cEach);
      const want = c.slice();
      for (let p = 0; p < batch; p++) {
        const one = await launched(
          'gemm',
          [
            c.slice(p * cEach, (p + 1) * cEach),
            a.slice(shareA ? 0 : p * aEach),
            b.slice(p * bEach),
          ],
          [transA, transB, m, n, k, lda, ldb, ldc],
          [0.75, beta],
        );
        want.set(one, p * cEach);
      }
      const wholes = [transA, transB, batch, m, n, k, lda, ldb, ldc];
      const steps = [shareA ? 0 : aEach, bEach, cEach];
      const got = await launched('gemm_batched', [c, a, b], [...wholes, ...steps], [0.75, beta]);
      if (same) expect(got).to.deep.equal(want);
      else
        for (const [i, value] of want.entries())
          if (Number.isFinite(value)) expect(got[i]).to.be.closeTo(value, 1e-4);
          else expect(got[i]).to.deep.equal(value);
    }
    using x = device.allocate({ shape: [100] });
    using y = device.allocate({ shape: [100] });
    const launch = (cBatch: number) => () =>
      launchAnything(device.currentStream, 'gemm_batched', {
        tensors: [y, x, x],
        wholes: [0, 0, 2, 2, 3, 2, 2, 3, 4, 0, 0, cBatch],
        reals: [1, 0],
      });
    expect(launch(7)).to.not.throw();
    expect(launch(6)).to.throw(RangeError, 'c_batch must be at least the 7 elements of a product');
  });

  it('categorical_draw inverts the cumulative distribution, and never draws probability 0', async () => {
    const [rows, columns] = [4000, 6];
    const row = [0, -inf, Math.log(2), nan, Math.log(5), -inf];
    const logits = Float32Array.from(range(rows * columns), (i) => row[i % columns]! + 50);
    const uniform = Float32Array.from(range(rows), (i) => i / rows);
    const drawn = await launched(
      'categorical_draw',
      [holes(rows), logits, uniform],
      [rows, columns, columns],
    );
    const counts = range(columns).map((j) => drawn.filter((each) => each === j).length);
    expect(counts.map((count) => Math.round((8 * count) / 50) * 50)).to.deep.equal([
      rows,
      0,
      2 * rows,
      0,
      5 * rows,
      0,
    ]);
    const edges = Float32Array.of(-inf, -inf, nan, 3, -inf, 3, 3, -inf);
    const ends = await launched(
      'categorical_draw',
      [holes(4), edges, Float32Array.of(0.5, 0, 0, 1)],
      [4, 2, 2],
    );
    expect([...ends]).to.deep.equal([0, 1, 1, 0]);
  });

  it('reduce_rows finds the first of the smallest elements, never NaN', async () => {
    const x = Float32Array.of(3, nan, -1, -1, nan, nan, nan, nan, inf, -0, 0, 5);
    const got = await launched('reduce_rows', [holes(3), x], [3, 4, 1, 4, 5], [1]);
    expect([...got]).to.deep.equal([2, 0, 1]);
  });

  it('reduce_rows combines 32 lanes by halves, for rows of all lengths and strides', async () => {
    const most = (u: number, v: number) => (u > v || Number.isNaN(u) ? u : v);
    const least = (u: number, v: number) => -most(-u, -v);
    const sum = (u: number, v: number) => fround(u + v);
    const ops = [
      [0, 0, sum],
      [1, -inf, most],
      [2, inf, least],
    ] as const;
    const reduced = (row: Float32Array, first: number, join: (typeof ops)[number][2]) => {
      const lanes = new Float32Array(32).fill(first);
      for (const [j, v] of row.entries()) lanes[j % 32] = join(v, lanes[j % 32]!);
      for (let half = 16; half >= 1; half /= 2)
        for (let l = 0; l < half; l++) lanes[l] = join(lanes[l]!, lanes[l + half]!);
      return lanes[0]!;
    };
    const odd = [-0, 0, inf, -inf, nan];
    for (const columns of [...range(70).map((n) => n + 1), 96, 97, 128, 300, 1000]) {
      const rows = [1, 2, 15, 16, 17, 35][columns % 6]!;
      const [xStride, outStride] = [columns + (columns % 4), 1 + (columns % 3)];
      const x = some((rows - 1) * xStride + columns, 10 ** ((columns % 7) - 2));
      // Some rows have only zeros, and others have elements that are infinite or NaN.
      for (const i of range(rows))
        if (i % 5 === 1) x.fill(-0, i * xStride, i * xStride + columns);
        else if (i % 5 === 3)
          for (let k = 0; k < 3; k++)
            x[i * xStride + ((7 * k + i) % columns)] = odd[(i + k * columns) % 5]!;
      for (const [op, first, join] of ops)
        for (const scale of [1, fround(1 / columns)]) {
          const out = holes((rows - 1) * outStride + 1);
          const wholes = [rows, columns, outStride, xStride, op];
          const got = await launched('reduce_rows', [out, x], wholes, [scale]);
          for (const i of range(rows)) {
            const row = x.subarray(i * xStride, i * xStride + columns);
            out[i * outStride] = scale * reduced(row, first, join);
          }
          expect(got, `op ${op}, ${rows} rows of ${columns}`).to.deep.equal(out);
        }
    }
  });

  it('reduce_rows computes ln Σ e^x of a row as if the row were alone', async () => {
    for (const columns of [1, 2, 6, 31, 32, 33, 51, 64, 101]) {
      const [rows, stride] = [21, columns + 1];
      const x = some(rows * stride, 5);
      x.fill(-inf, 3 * stride, 4 * stride);
      x.fill(-inf, 4 * stride, 4 * stride + columns - 1);
      x[7 * stride] = inf;
      const of = (from: Float32Array, rows: number) =>
        launched('reduce_rows', [holes(rows), from], [rows, columns, 1, stride, 3], [1]);
      const got = await of(x, rows);
      const row = (i: number) => x.subarray(i * stride, i * stride + columns);
      for (const i of range(rows)) expect(await of(row(i), 1)).to.deep.equal(got.slice(i, i + 1));
      expect(got[3]).to.equal(-inf);
      expect(got[7]).to.equal(inf);
      for (const i of [0, 4, 9, 20]) {
        const all = row(i).reduce((total, v) => total + Math.exp(v), 0);
        expect(got[i]).to.be.closeTo(Math.log(all), 4e-6);
      }
    }
  });

  it('log1p, sin, cos and floor are precise over their whole ranges', async () => {
    const numbers = new Random(3);
    const bits = Uint32Array.from(range(4000), () => numbers.below(2 ** 32));
    const any = new Float32Array(bits.buffer).map((v, i) =>
      i < 8 ? [0, -0, inf, -inf, nan, -1, 16_367_173 * 2 ** 72, 1e-45][i]! : v,
    );
    const unary = (op: number, x: Float32Array) =>
      launched('unary', [holes(x.length), x], [1, x.length, x.length, x.length, op]);
    for (const [op, f, ulps] of [
      [17, Math.log1p, 3],
      [18, Math.sin, 1],
      [19, Math.cos, 1],
      [20, Math.floor, 0],
    ] as const) {
      const got = await unary(op, any);
      any.forEach((x, i) => {
        const want = f(x);
        const last = 2 ** Math.max(-149, Math.floor(Math.log2(Math.abs(want))) - 23);
        if (!Number.isFinite(want) || want === 0)
          expect(got[i], `${x}`).to.deep.equal(fround(want));
        else expect(Math.abs(got[i]! - want) / last, `${op} of ${x}`).to.be.at.most(ulps);
      });
    }
  });

  it('pow agrees with Math.pow for zeros, infinities, NaN and every kind of exponent', async () => {
    const values = [0, -0, 1, -1, 2, -2, 0.5, -0.5, 1.5, -2.5, 3, -3, inf, -inf, nan, 2.7, -7, 100];
    const [rows, columns] = [values.length, values.length];
    const a = Float32Array.from(values);
    const got = await launched(
      'binary',
      [holes(rows * columns), a, a],
      [rows, columns, columns, 1, 0, 0, 1, 12],
    );
    a.forEach((u, i) => {
      a.forEach((v, j) => {
        const want = fround(u ** v);
        const is = got[i * columns + j]!;
        const what = `${u} to the power ${v} is ${is}`;
        if (!Number.isFinite(want) || want === 0) expect(is, what).to.deep.equal(want);
        else expect(Math.abs(is / want - 1), what).to.be.below(2e-5);
      });
    });
  });
});
