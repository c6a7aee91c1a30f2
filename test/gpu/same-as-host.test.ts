/**
 * Compares a device with the CPU device. Kernels that add in a fixed order must give the same bits
 * (any NaN equals any NaN). Matrix products must be within their error bound, and those of kernels
 * must have the bits of sums in the written order. Batches must be equal, and a training run equal within rounding. If the tested device is the CPU device or a
 * software driver, everything must be exact.
 */
import { expect } from 'chai';
import type { TypedArray } from '../../src/base/dtype.ts';
import { DqnLearner } from '../../src/entries/learner.ts';
import {
  CpuTensor,
  type Device,
  listDevices,
  openDevice,
  ReplayBuffer,
  ReplayPipeline,
} from '../../src/index.ts';
import { randomBatch } from '../learner/dqn-reference.ts';
import { expectClose, flat, randomRows } from '../learner/reference.ts';
import { sumOfProducts } from '../rig/fused.ts';
import { launchAnything } from '../rig/launch.ts';
import { firstDifference } from '../rig/same-bits.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { kernelCases, type LaunchCase, random } from './kernel-cases.ts';
import { opCases } from './op-cases.ts';

const HOST = 'host:0';
const DEVICE = ON_HOST ? 'host:1' : TESTED;
const description = listDevices().find(({ name }) => name === DEVICE)?.description ?? '';
const EXACT = ON_HOST || description.startsWith('Hotslot software driver');

const bytesOf = ({ buffer, byteOffset, byteLength }: TypedArray) =>
  Buffer.from(buffer, byteOffset, byteLength);

/** Fails at the first element that differs. Any NaN equals any NaN. */
function expectSameBits(got: TypedArray, want: TypedArray, what: string): void {
  const at = firstDifference(got, want);
  if (at >= 0) expect.fail(`${what}[${at}]: ${DEVICE} has ${got[at]}, ${HOST} has ${want[at]}`);
}

/** Launches once and returns every tensor's values afterwards. */
async function launched(
  device: Device,
  kernel: string,
  { tensors, dtypes, ...numbers }: LaunchCase,
): Promise<TypedArray[]> {
  const stream = device.createStream();
  const made = tensors.map((values, i) =>
    device
      .allocate({
        shape: [values.length],
        dtype: new CpuTensor(values, [values.length], dtypes?.[i]).dtype,
      })
      .write(values, stream),
  );
  launchAnything(stream, kernel, { tensors: made, ...numbers });
  const got: TypedArray[] = [];
  for (const tensor of made) got.push(await tensor.toArray(stream));
  for (const part of [...made, stream]) part.close();
  return got;
}

describe(`${DEVICE} against ${HOST}`, () => {
  let device: Device;
  let host: Device;
  before(() => {
    device = openDevice(DEVICE);
    host = openDevice(HOST);
  });

  for (const [title, kernel, launch] of [...kernelCases, ...opCases]) {
    it(`${kernel} has the same bits: ${title}`, async () => {
      const [got, want] = [
        await launched(device, kernel, launch),
        await launched(host, kernel, launch),
      ];
      want.forEach((values, i) => void expectSameBits(got[i]!, values, `${kernel}, tensor ${i}`));
      const changed = want.some(
        (values, i) => !bytesOf(values).equals(bytesOf(launch.tensors[i]!)),
      );
      expect(changed, 'the kernel writes something').to.equal(true);
    });
  }

  it('fill() writes the same bits for every element width', async () => {
    const fills = [
      ['uint8', 0xa5],
      ['int16', -2],
      ['int32', 0x12345678],
      ['int64', 0x1_2345_6789_abcdn],
      ['int64', 0x7_0000_0007n],
      ['float64', Math.PI],
    ] as const;
    for (const [dtype, value] of fills) {
      const filled = async (on: Device) => {
        using tensor = on.allocate({ shape: [1003], dtype });
        on.currentStream.fill(tensor.view({ shape: [1000], offset: 2 }), value);
        return tensor.toArray();
      };
      expectSameBits(await filled(device), await filled(host), `${dtype} ${value}`);
    }
  });

  // Error bound of an element of alpha·A·B + beta·C in float32. It has k products, as many sums,
  // and three more operations. Each is off by at most 2⁻²⁴ of the sum of absolute values, in any
  // order, fused or not. Products in fewer bits would be far outside the bound.
  const unit = 2 ** -24;
  const shapes = [
    [1, 1, 1],
    [13, 17, 19],
    [128, 120, 4],
    [128, 84, 120],
    [84, 2, 128],
    [33, 65, 1025],
  ] as const;
  for (const [m, n, k] of shapes) {
    it(`gemm ${m}×${n}×${k} is within its error bound, in every transposition`, async () => {
      for (const [transA, transB, alpha, beta] of [
        [0, 0, 1, 0],
        [1, 0, 1, 1],
        [0, 1, -0.5, 0.25],
        [1, 1, 2, 0],
      ] as const) {
        const [a, b, c] = [random(m * k, m), random(k * n, n), random(m * n, k)];
        const launch: LaunchCase = {
          tensors: [c, a, b],
          wholes: [transA, transB, m, n, k, transA ? m : k, transB ? k : n, n],
          reals: [alpha, beta],
        };
        const [got] = (await launched(device, 'gemm', launch)) as [Float32Array];
        const [same] = (await launched(host, 'gemm', launch)) as [Float32Array];
        if (EXACT) expectSameBits(got, same, 'gemm');
        for (let i = 0; i < m; i++) {
          for (let j = 0; j < n; j++) {
            let sum = beta * c[i * n + j]!;
            let size = Math.abs(sum);
            for (let p = 0; p < k; p++) {
              const product =
                alpha * a[transA ? p * m + i : i * k + p]! * b[transB ? j * k + p : p * n + j]!;
              sum += product;
              size += Math.abs(product);
            }
            for (const [name, values] of [[DEVICE, got] as const, [HOST, same] as const]) {
              const off = Math.abs(values[i * n + j]! - sum);
              const allowed = 1.01 * (k + 3) * unit * size;
              if (!(off <= allowed))
                expect.fail(`${name}: C[${i}, ${j}] is off by ${off}, allowed ${allowed}`);
            }
          }
        }
      }
    });
  }

  /**
   * A layer of two members with gaps between rows and between members. Its input is in two tensors,
   * and `split` has the meaning of the kernels.
   */
  const layers = [
    { rows: 17, outputs: 33, inputs: 65, split: 65 },
    { rows: 33, outputs: 16, inputs: 130, split: 1 },
    { rows: 65, outputs: 31, inputs: 17, split: -64 },
    { rows: 130, outputs: 15, inputs: 1, split: -1 },
    { rows: 1, outputs: 1, inputs: 10_000, split: 9999 },
  ] as const;
  for (const { rows, outputs, inputs, split } of layers) {
    const batch = 2;
    const [xRows, x2Rows] = split < 0 ? [-split, rows + split] : [rows, rows];
    const [xColumns, x2Columns] = split < 0 ? [inputs, inputs] : [split, inputs - split];
    const [xStride, x2Stride, yStride] = [xColumns + 1, x2Columns + 2, outputs + 3];
    const xBatch = Math.max(xRows * xStride, x2Rows * x2Stride) + 1;
    const [yBatch, pBatch] = [rows * yStride + 1, outputs * inputs + outputs + 2];
    const x = random(batch * xBatch, 1);
    const x2 = random(batch * xBatch, 2);
    const parameters = random(batch * pBatch, 3);
    const bias = parameters.slice(outputs * inputs);
    const dy = random(batch * yBatch, 4);
    const input = (p: number, i: number, k: number) => {
      const second = split < 0 ? i >= -split : k >= split;
      const [row, column] = split < 0 ? [i + split, k] : [i, k - split];
      return second ? x2[p * xBatch + row * x2Stride + column]! : x[p * xBatch + i * xStride + k]!;
    };

    /**
     * Launches on both devices. Elements `at(p, i, j)` of tensor `which` must be the sums of `n`
     * products and then `rest`. The CPU device adds in another order.
     */
    async function compare(
      kernel: string,
      launch: LaunchCase,
      which: number,
      sizes: readonly [members: number, rows: number, columns: number, n: number],
      at: (p: number, i: number, j: number) => number,
      terms: (p: number, i: number, j: number) => (k: number) => readonly [number, number],
      rest: (sum: number, p: number, i: number, j: number) => number = (sum) => sum,
    ): Promise<TypedArray[]> {
      const got = await launched(device, kernel, launch);
      const same = await launched(host, kernel, launch);
      if (EXACT) got.forEach((each, i) => void expectSameBits(each, same[i]!, `${kernel}, ${i}`));
      const want = (launch.tensors[which] as Float32Array).slice();
      const [members, height, width, n] = sizes;
      for (let p = 0; p < members; p++)
        for (let i = 0; i < height; i++)
          for (let j = 0; j < width; j++) {
            const of = terms(p, i, j);
            const sum = sumOfProducts(
              n,
              (k) => of(k)[0],
              (k) => of(k)[1],
            );
            const here = at(p, i, j);
            want[here] = Math.fround(rest(sum, p, i, j));
            let size = 1;
            for (let k = 0; k < n; k++) size += Math.abs(of(k)[0] * of(k)[1]);
            const off = Math.abs((same[which] as Float32Array)[here]! - want[here]!);
            const allowed = 2.02 * (n + 3) * unit * size * members;
            if (!(off <= allowed))
              expect.fail(`${HOST}: ${kernel}[${p}, ${i}, ${j}] is off by ${off} of ${allowed}`);
          }
      // Elements between rows keep their values.
      if (!EXACT) expectSameBits(got[which]!, want, `${kernel}, tensor ${which}, as sums in order`);
      return got;
    }

    const title = `of ${rows} × ${inputs} × ${outputs} with split ${split}`;
    it(`linear_act ${title} adds in the order of devices, and applies every function as unary`, async () => {
      const [y, z] = [random(batch * yBatch, 5), random(batch * yBatch, 6)];
      const wholes = [batch, rows, outputs, inputs, split, yStride, xStride, x2Stride];
      for (const op of inputs > 1000 ? [-1] : [-1, 9, 12, 13, 18]) {
        const launch: LaunchCase = {
          tensors: [y, z, x, x2, parameters, bias],
          wholes: [...wholes, yBatch, xBatch, pBatch, op],
        };
        const [gotY, gotZ] = (await compare(
          'linear_act',
          launch,
          1,
          [batch, rows, outputs, inputs],
          (p, i, j) => p * yBatch + i * yStride + j,
          (p, i, j) => (k) => [input(p, i, k), parameters[p * pBatch + j * inputs + k]!],
          (sum, p, _i, j) => sum + bias[p * pBatch + j]!,
        )) as [Float32Array, Float32Array];
        for (let p = 0; p < batch; p++) {
          const member = gotZ.subarray(p * yBatch, p * yBatch + rows * yStride);
          const [want] = await launched(device, op < 0 ? 'copy2d' : 'unary', {
            tensors: [y.slice(p * yBatch, p * yBatch + rows * yStride), member.slice()],
            wholes: [rows, outputs, yStride, yStride, ...(op < 0 ? [] : [op])],
          });
          expectSameBits(gotY.subarray(p * yBatch, p * yBatch + rows * yStride), want!, `op ${op}`);
        }
      }
    });

    it(`linear_backward ${title} adds in the order of devices, and the members if told`, async () => {
      const [wStride, out] = [inputs + 2, random(batch * rows * inputs + 9, 7)];
      const weight = random(batch * outputs * wStride, 8);
      const y = random(batch * rows * inputs, 9);
      const terms = (p: number, i: number, j: number) => (k: number) =>
        [dy[p * yBatch + i * yStride + k]!, weight[(p * outputs + k) * wStride + j]!] as const;
      const sizes = [rows, inputs, outputs, wStride, yStride, inputs];
      const after = [yBatch, outputs * wStride, rows * inputs];
      const launch = (dxBatch: number, op: number): LaunchCase => ({
        tensors: [out, dy, weight, y],
        wholes: [batch, ...sizes, dxBatch, ...after, op],
      });
      const at = (p: number, i: number, j: number) => (p * rows + i) * inputs + j;
      const all = [batch, rows, inputs, outputs] as const;
      await compare('linear_backward', launch(rows * inputs, -1), 0, all, at, terms);
      await compare(
        'linear_backward',
        launch(rows * inputs, 12),
        0,
        all,
        at,
        terms,
        (sum, ...of) => (y[at(...of)]! > 0 ? sum : 0),
      );
      await compare(
        'linear_backward',
        launch(rows * inputs, 9),
        0,
        all,
        at,
        terms,
        (sum, ...of) => {
          const t = y[at(...of)]!;
          return sum * Math.fround(1 - Math.fround(t * t));
        },
      );
      const first = (i: number, j: number) =>
        sumOfProducts(
          outputs,
          (k) => terms(0, i, j)(k)[0],
          (k) => terms(0, i, j)(k)[1],
        );
      await compare(
        'linear_backward',
        launch(0, -1),
        0,
        [1, rows, inputs, outputs],
        at,
        (_, i, j) => terms(1, i, j),
        (sum, _, i, j) => first(i, j) + sum,
      );
    });

    it(`linear_gradients ${title} adds in the order of devices`, async () => {
      const gradients = random(batch * pBatch, 10);
      const launch: LaunchCase = {
        tensors: [gradients, gradients.slice(outputs * inputs), dy, x, x2],
        wholes: [batch, outputs, inputs, rows, split, yStride, xStride, x2Stride].concat([
          yBatch,
          xBatch,
          pBatch,
        ]),
      };
      const of = (p: number, i: number, j: number) => dy[p * yBatch + i * yStride + j]!;
      await compare(
        'linear_gradients',
        launch,
        0,
        [batch, outputs, inputs, rows],
        (p, j, k) => p * pBatch + j * inputs + k,
        (p, j, k) => (i) => [of(p, i, j), input(p, i, k)],
      );
      await compare(
        'linear_gradients',
        launch,
        1,
        [batch, outputs, 1, rows],
        (p, j) => p * pBatch + j,
        (p, j) => (i) => [of(p, i, j), 1],
      );
    });

    it(`gemm_batched ${title} adds in the order of devices`, async () => {
      const launch: LaunchCase = {
        tensors: [random(batch * yBatch, 11), random(rows * inputs, 12), parameters],
        wholes: [0, 1, batch, rows, outputs, inputs, inputs, inputs, yStride, 0, pBatch, yBatch],
        reals: [-0.75, 0.5],
      };
      const [c, a] = launch.tensors as [Float32Array, Float32Array];
      const at = (p: number, i: number, j: number) => p * yBatch + i * yStride + j;
      await compare(
        'gemm_batched',
        launch,
        0,
        [batch, rows, outputs, inputs],
        at,
        (p, i, j) => (k) => [a[i * inputs + k]!, parameters[p * pBatch + j * inputs + k]!],
        (sum, ...here) => Math.fround(0.5 * c[at(...here)]!) + Math.fround(-0.75 * sum),
      );
    });
  }

  const obsDim = 4;
  const actions = 3;
  /**
   * Creates the same transitions for each run. Each run has its own buffer, so its draws depend on
   * nothing else.
   */
  function filled() {
    const buffer = ReplayBuffer.offPolicy({ capacity: 1000, obsDim, actionDim: 1 });
    const batch = randomBatch(11, 600, obsDim, actions);
    const column = (values: number[]) => Float32Array.from(values);
    buffer.add({
      obs: flat(batch.obs),
      nextObs: flat(batch.nextObs),
      actions: column(batch.actions),
      rewards: flat(randomRows(5, 600, 1)),
      dones: column(batch.dones),
      truncated: column(batch.truncated),
    });
    return buffer;
  }

  it('sampleLargeBatch() returns batches with the same bits', async () => {
    const batches = async (name: string) => {
      using buffer = filled();
      await using pipeline = await ReplayPipeline.open({
        buffer,
        device: name,
        sampleCount: 64,
        baseSeed: 9,
        placement: 'inline',
      });
      const seen: TypedArray[] = [];
      for (let tick = 0; tick < 20; tick++) {
        const batch = await pipeline.sampleLargeBatch(tick, 64);
        for (const tensor of Object.values(batch)) if (tensor) seen.push(await tensor.toArray());
        pipeline.afterTick();
      }
      return seen;
    };
    const [got, want] = [await batches(DEVICE), await batches(HOST)];
    expect(got.length).to.equal(20 * 6);
    want.forEach(
      (values, i) =>
        void expectSameBits(got[i]!, values, `tick ${Math.floor(i / 6)}, field ${i % 6}`),
    );
  });

  const updates = 200;
  const batchSize = 16;
  const rate = 0.01;
  /**
   * Adam divides by √v + epsilon. With an epsilon this large, the rounding error of a gradient
   * moves a weight by at most rate / epsilon times the error.
   */
  const epsilon = 0.1;
  // Products of up to 32 terms leave gradients of size 1 uncertain by about 32 · 2⁻²⁴ = 2e-6. An
  // update then moves a weight by 2e-7 more or less. If all errors add up, two hundred updates move
  // it by 4e-5. Twice that is allowed.
  const tolerance = 1e-4;

  /** Trains, and returns the losses of each tick and the final weights. */
  async function train(name: string, learningRate = rate) {
    using buffer = filled();
    const on = openDevice(name);
    using learner = new DqnLearner(on, {
      obsDim,
      actions,
      hidden: [32, 16],
      batchSize,
      learningRate,
      epsilon,
      seed: 3,
    });
    await learner.ready;
    const pipeline = await ReplayPipeline.open({
      buffer,
      device: name,
      sampleCount: 4 * batchSize,
      baseSeed: 17,
      placement: 'inline',
    });
    const scalars: number[] = [];
    pipeline.on('tick', (tick) => scalars.push(tick.scalars.loss!, tick.scalars.meanQ!));
    pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
      scalars: learner.scalars,
    });
    await pipeline.run({ ticks: updates / 4 });
    const weights = await learner.parameters.toArray();
    const target = await learner.target.toArray();
    await pipeline.close();
    return { scalars: Float32Array.from(scalars), weights, target };
  }

  it(`a training run of ${updates} updates ends with the same weights ${EXACT ? 'bit by bit' : 'within rounding'}`, async () => {
    const [got, want] = [await train(DEVICE), await train(HOST)];
    expect(got.scalars.length).to.equal((2 * updates) / 4);
    for (const part of ['scalars', 'weights', 'target'] as const) {
      if (EXACT) expectSameBits(got[part], want[part], part);
      else expectClose(got[part], Array.from(want[part]), tolerance, part);
    }
    // Checks that the tolerance is narrow enough: a learning rate that is 1% higher exceeds it.
    const other = await train(HOST, rate * 1.01);
    expect(() =>
      expectClose(other.weights, Array.from(want.weights), tolerance, 'weights'),
    ).to.throw('off by');
  });
});
