/**
 * Runs one probe of matrix products in a software driver's environment, and prints the result as a
 * JSON object. products.long.test.ts runs the probes.
 */
import type { Device, Stream } from '../../src/index.ts';
import { openDevice } from '../../src/index.ts';
import { launchAnything } from '../rig/launch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, software } from './talk.ts';

/** Returns numbers between −1 and 1 that float32 has and TF32 does not. */
const numbers = (n: number, from: number) =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(1 + from + i));

/** A product with transposed operands, strides with gaps, and a sum with C. */
const { m, n, k, batch } = { m: 5, n: 7, k: 6, batch: 3 };
const [lda, ldb, ldc] = [9, 10, 8];
const sizes = [m, n, k, lda, ldb, ldc];
const [aEach, bEach, cEach] = [k * lda, n * ldb, m * ldc];
const reals = [0.75, -2];
const values = {
  c: numbers(batch * cEach, 0),
  a: numbers(batch * aEach, 100),
  b: numbers(batch * bEach, 200),
};

/** The device's memory for one product or one batch. */
function operands(device: Device) {
  const made = Object.values(values).map((each) =>
    device.allocate({ shape: [each.length] }).write(each),
  );
  return {
    tensors: made,
    close: () => {
      for (const each of made) each.close();
    },
  };
}

const kinds = {
  gemm: [1, 1, ...sizes],
  gemm_batched: [1, 1, batch, ...sizes, aEach, bEach, cEach],
  /** all products of the batch read the same A */
  shared: [1, 1, batch, ...sizes, 0, bEach, cEach],
};
type Kind = keyof typeof kinds;
const launchOf = (stream: Stream, kind: Kind, tensors: readonly unknown[]) =>
  launchAnything(stream, kind === 'gemm' ? 'gemm' : 'gemm_batched', {
    tensors: tensors as never,
    wholes: kinds[kind],
    reals,
  });

/** Computes a product by a launch, or by the second replay of a graph whose first C is the same. */
async function product(device: Device, kind: Kind, captured: boolean): Promise<number[]> {
  using stream = device.createStream();
  const { tensors, close } = operands(device);
  const [c] = tensors as [(typeof tensors)[0]];
  await device.currentStream.synchronize();
  if (captured) {
    stream.beginCapture();
    launchOf(stream, kind, tensors);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    c.write(values.c, stream);
    stream.replay(exec);
  } else launchOf(stream, kind, tensors);
  const got = [...(await c.toArray(stream))];
  close();
  return got;
}

const probes: Record<string, () => unknown> = {
  /** captures each kind of product as the first of its kind, then launches it */
  async kinds() {
    const device = openDevice(TESTED);
    // The whole arguments begin as those of a batch of two products of 2×2 matrices.
    using x = device.allocate({ shape: [8] }).write(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    using y = device.allocate({ shape: [8] });
    device.currentStream.launch('gemm', {
      tensors: [y, x, x],
      wholes: [0, 0, 2, 2, 2, 2, 2, 2],
      reals: [1, 0],
    });
    await device.currentStream.synchronize();
    using stream = device.createStream();
    stream.beginCapture();
    launchAnything(stream, 'gemm_batched', {
      tensors: [y, x, x],
      wholes: [0, 0, 2, 2, 2, 2, 2, 2, 2, 4, 0, 4],
      reals: [1, 0],
    });
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    const small = [...(await y.toArray(stream))];
    const results: Record<string, number[]> = {};
    for (const kind of Object.keys(kinds) as Kind[]) {
      results[`${kind} captured`] = await product(device, kind, true);
      results[kind] = await product(device, kind, false);
    }
    const { violations } = counts((await software()).live());
    return { products: device.traits.matrixProducts, small, results, violations };
  },

  /** multiplies more pairs of 1×1 matrices than one call of cuBLAS takes */
  async many() {
    const device = openDevice(TESTED);
    const pairs = 150_000;
    const x = Float32Array.from({ length: pairs }, (_, i) => i % 1000);
    using a = device.allocate({ shape: [pairs] }).write(x);
    using c = device.allocate({ shape: [pairs] });
    launchAnything(device.currentStream, 'gemm_batched', {
      tensors: [c, a, a],
      wholes: [0, 0, pairs, 1, 1, 1, 1, 1, 1, 1, 1, 1],
      reals: [1, 0],
    });
    const got = await c.toArray();
    return got.findIndex((value, i) => value !== (i % 1000) ** 2);
  },
};

const answer = await probes[process.argv[2] as string]?.();
process.stdout.write(`${JSON.stringify(answer)}\n`);
