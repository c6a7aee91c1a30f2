/**
 * Tests the kernels that learners launch by name. Wrong counts and sizes must throw with the
 * values.
 */
import { expect } from 'chai';
import type { Device, Tensor } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { launchAnything } from '../rig/launch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { expectClose, flat, type Rows, randomRows, rounded } from './reference.ts';

const transposed = (rows: Rows): Rows =>
  (rows[0] as number[]).map((_, j) => rows.map((row) => row[j] as number));
const product = (a: Rows, b: Rows): Rows =>
  a.map((row) =>
    transposed(b).map((column) => row.reduce((s, v, i) => s + v * (column[i] as number), 0)),
  );

describe('Stream.launch() of learner kernels', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
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
      const pad = (rows: Rows) =>
        flat(rows.map((row) => [...row, ...new Array<number>(extra).fill(9)]));
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
      const want = product(a, b).map((row, i) =>
        row.map((v, j) => 2 * v - 0.5 * (c[i]?.[j] as number)),
      );
      expectClose(await into.wide.toArray(), pad(want), 1e-5, 'c');
      for (const { wide } of [left, right, into]) wide.close();
    });
  }

  it('gather copies float32 and int32 rows by index, and writes zeros for indices out of range', async () => {
    const stream = device.currentStream;
    using index = device
      .allocate({ shape: [4], dtype: 'int32' })
      .write(new Int32Array([2, -1, 0, 3]));
    const numbers = Array.from({ length: 15 }, (_, i) => i + 1);
    for (const [dtype, table] of [
      ['float32', Float32Array.from(numbers)],
      ['int32', Int32Array.from(numbers)],
    ] as const) {
      using from = device.allocate({ shape: [3, 5], dtype }).write(table);
      using out = device.allocate({ shape: [4, 2], dtype });
      stream.launch('gather', {
        tensors: [out, from.view({ shape: [3, 2], strides: [5, 1] }), index],
        wholes: [4, 2, 3, 2, 5],
      });
      expect([...(await out.toArray())]).to.deep.equal([11, 12, 0, 0, 1, 2, 0, 0]);
    }
    using floats = device.allocate({ shape: [8] });
    const launch = (tensors: Tensor[], wholes: number[]) => () =>
      launchAnything(stream, 'gather', { tensors, wholes });
    expect(launch([floats, floats, floats], [4, 2, 3, 2, 2])).to.throw(
      TypeError,
      'tensor 2 must be int32',
    );
    expect(launch([floats, floats, index], [4, 2, 5, 2, 2])).to.throw(
      RangeError,
      'tensor 1 covers 32 bytes, 40 are needed',
    );
  });

  it('fill sets elements of 8 bytes', async () => {
    using words = device
      .allocate({ shape: [5], dtype: 'int64' })
      .write(new BigInt64Array(5).fill(1n));
    device.currentStream.launch('fill', { tensors: [words], wholes: [4, -(2 ** 40)] });
    expect([...(await words.toArray())]).to.deep.equal([...new Array(4).fill(-(2n ** 40n)), 1n]);
  });

  it('throws with the values for wrong counts, sizes and memory', () => {
    using x = device.allocate({ shape: [4, 6] });
    using bias = device.allocate({ shape: [6] });
    const launch = (wholes: number[], tensors = [x, x, bias]) => {
      return () => launchAnything(device.currentStream, 'bias_act', { tensors, wholes });
    };
    expect(launch([4, 6, 6, 6, 1])).to.not.throw();
    expect(launch([4, 6, 6, 6])).to.throw(
      TypeError,
      "kernel 'bias_act' takes 5 whole numbers, got 4",
    );
    expect(launch([4, 6, 6, 6, 1], [x, x])).to.throw(TypeError, 'takes 3 tensors, got 2');
    expect(launch([5, 6, 6, 6, 1])).to.throw(
      RangeError,
      'tensor 0 covers 96 bytes, 120 are needed',
    );
    expect(launch([4, 6, 5, 6, 1])).to.throw(
      RangeError,
      "y_stride must be at least the row's 6 elements, got 5",
    );
    expect(launch([0, 6, 6, 6, 1])).to.throw(RangeError, 'rows must be at least 1, got 0');
    expect(launch([4, 6, 6, 6, 7])).to.throw(RangeError, 'activation must be at most 2, got 7');
    expect(() => launchAnything(device.currentStream, 'no_such', {})).to.throw(
      TypeError,
      'no_such',
    );
  });
});
