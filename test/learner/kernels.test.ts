/** Kernels as learners launch them: by name, with counts and sizes checked at the door and the values in the text. */
import { expect } from 'chai';
import type { Device } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { expectClose, flat, type Rows, randomRows, rounded } from './reference.ts';

const transposed = (rows: Rows): Rows => (rows[0] as number[]).map((_, j) => rows.map((row) => row[j] as number));
const product = (a: Rows, b: Rows): Rows =>
  a.map((row) => transposed(b).map((column) => row.reduce((s, v, i) => s + v * (column[i] as number), 0)));

describe('learner/kernels', () => {
  let device: Device;
  before(() => {
    device = openDevice('host:0');
  });

  for (const [transA, transB] of [
    [0, 0],
    [1, 0],
    [0, 1],
    [1, 1],
  ] as const) {
    it(`gemm with transA ${transA}, transB ${transB} multiplies blocks of wider rows`, async () => {
      const [m, n, k, extra] = [13, 17, 19, 3];
      const a = rounded(randomRows(1, m, k));
      const b = rounded(randomRows(2, k, n));
      const c = rounded(randomRows(3, m, n));
      const pad = (rows: Rows) => flat(rows.map((row) => [...row, ...new Array<number>(extra).fill(9)]));
      const place = (rows: Rows) => {
        const width = (rows[0] as number[]).length;
        const wide = device.allocate({ shape: [rows.length, width + extra] }).write(pad(rows));
        return {
          wide,
          block: wide.view({ shape: [rows.length, width], strides: [width + extra, 1] }),
          stride: width + extra,
        };
      };
      const left = place(transA ? transposed(a) : a);
      const right = place(transB ? transposed(b) : b);
      const into = place(c);
      device.currentStream.launch('gemm', {
        tensors: [into.block, left.block, right.block],
        wholes: [transA, transB, m, n, k, left.stride, right.stride, into.stride],
        reals: [2, -0.5],
      });
      const want = product(a, b).map((row, i) => row.map((v, j) => 2 * v - 0.5 * (c[i]?.[j] as number)));
      expectClose(await into.wide.toArray(), pad(want), 1e-5, 'c');
      for (const { wide } of [left, right, into]) wide.close();
    });
  }

  it('wrong counts, sizes and memory are refused with the values in the text', () => {
    using x = device.allocate({ shape: [4, 6] });
    using bias = device.allocate({ shape: [6] });
    const launch = (wholes: number[], tensors = [x, x, bias]) => {
      return () => device.currentStream.launch('bias_act', { tensors, wholes });
    };
    expect(launch([4, 6, 6, 6, 1])).to.not.throw();
    expect(launch([4, 6, 6, 6])).to.throw(TypeError, "kernel 'bias_act' takes 5 whole numbers, got 4");
    expect(launch([4, 6, 6, 6, 1], [x, x])).to.throw(TypeError, 'takes 3 tensors, got 2');
    expect(launch([5, 6, 6, 6, 1])).to.throw(RangeError, 'tensor 0 covers 96 bytes, 120 are needed');
    expect(launch([4, 6, 5, 6, 1])).to.throw(RangeError, "y_stride must be at least the row's 6 elements, got 5");
    expect(launch([0, 6, 6, 6, 1])).to.throw(RangeError, 'rows must be at least 1, got 0');
    expect(launch([4, 6, 6, 6, 7])).to.throw(RangeError, 'activation must be at most 2, got 7');
    expect(() => device.currentStream.launch('no_such', {})).to.throw(TypeError, 'no_such');
  });
});
