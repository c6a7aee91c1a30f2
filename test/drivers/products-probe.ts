/**
 * Runs one probe of matrix products in a software driver's environment, and prints the result as a
 * JSON object. products.long.test.ts runs the probes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { nativeShared } from '../../src/device/native.ts';
import { AttachedTransferBackend } from '../../src/device/transfer/attached.ts';
import { buildReplayTransferBackend } from '../../src/device/transfer/build.ts';
import { type TrainOptions, train } from '../../src/entries/collect.ts';
import { DqnLearner, linear, Network, relu } from '../../src/entries/learner.ts';
import { adam, type Expression, learner } from '../../src/entries/trace.ts';
import {
  Checkpoint,
  type Device,
  type OpenOptions,
  openDevice,
  type Products,
  type Stream,
} from '../../src/index.ts';
import { columns, randomBatch, small } from '../learner/dqn-reference.ts';
import { builtIn, counted } from '../learner/nodes.ts';
import { launchAnything } from '../rig/launch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, software } from './talk.ts';

/** Returns the result, or the error's code and text. */
function attempt<T, R>(call: () => T, told: (result: T) => R): R | [string, string] {
  try {
    return told(call());
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    return [code, message];
  }
}
const opened = (name: string, options?: OpenOptions) =>
  attempt(
    () => openDevice(name, options),
    (device) => device.traits.products,
  );

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

/** Returns a number rounded to TF32, with 10 bits of mantissa after the point. */
function tf32(x: number): number {
  if (x === 0) return x;
  const unit = 2 ** (Math.floor(Math.log2(Math.abs(x))) - 10);
  const [below, rest] = [Math.floor(x / unit), (x / unit) % 1];
  const up = Math.abs(rest) === 0.5 ? below % 2 !== 0 : x / unit - below > 0.5;
  return (below + Number(up)) * unit;
}

/**
 * Returns the largest distance of a product from its float64 result, in error bounds of float32. The
 * result is of the operands themselves, or of the operands rounded to TF32.
 */
function distance(got: readonly number[], kind: Kind, rounding: (x: number) => number): number {
  let largest = 0;
  for (let p = 0; p < (kind === 'gemm' ? 1 : batch); p++)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const at = p * cEach + i * ldc + j;
        let sum = reals[1]! * values.c[at]!;
        let size = Math.abs(sum);
        for (let q = 0; q < k; q++) {
          const a = values.a[(kind === 'shared' ? 0 : p * aEach) + q * lda + i]!;
          const b = values.b[p * bEach + j * ldb + q]!;
          const term = reals[0]! * rounding(a) * rounding(b);
          sum += term;
          size += Math.abs(term);
        }
        largest = Math.max(largest, Math.abs(got[at]! - sum) / ((k + 3) * 2 ** -24 * size));
      }
  return largest;
}

/** Returns 'float32' or 'tf32' for a product that is within the bound of one of them alone. */
function precisionOf(got: readonly number[], kind: Kind): string {
  const [exact, rounded] = [distance(got, kind, (x) => x), distance(got, kind, tf32)];
  if (exact <= 1.01 && rounded > 10) return 'float32';
  if (rounded <= 1.01 && exact > 10) return 'tf32';
  return `neither: ${exact} and ${rounded} bounds`;
}

/** Returns the precision of each kind of product, captured first and then launched. */
async function precisions(device: Device): Promise<string[]> {
  const found: string[] = [];
  for (const kind of Object.keys(kinds) as Kind[])
    for (const captured of [true, false])
      found.push(precisionOf(await product(device, kind, captured), kind));
  return found;
}

const learnerOf = (device: Device) => new DqnLearner(device, small);

/** Returns the parameters of a learner after some updates that a graph replays or that are launched. */
async function updated(products: Products, captured: boolean) {
  using device = openDevice(TESTED, { products });
  using learner = learnerOf(device);
  await learner.ready;
  using stream = device.createStream();
  using out = device.allocate({ shape: [learner.scalars.length] });
  const { packed, tensors: rows } = columns(device, stream, randomBatch(3, 16, 3, 4));
  await stream.synchronize();
  if (captured) {
    stream.beginCapture();
    learner.update(stream, rows, out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    for (let i = 0; i < 5; i++) stream.replay(exec);
    await stream.synchronize();
  } else for (let i = 0; i < 5; i++) learner.update(stream, rows, out);
  const parameters = [...(await learner.parameters.toArray(stream))];
  packed.close();
  return { settings: learner.settings, parameters };
}

const folder = isMainThread ? mkdtempSync(join(tmpdir(), 'hotslot-products-')) : '';
const folderOf = (name: string) => join(folder, name);

/** Saves a learner on a device with this precision. `changed` may replace its settings. */
async function save(name: string, products: Products, changed = (settings: object) => settings) {
  using device = openDevice(TESTED, { products });
  using learner = learnerOf(device);
  const part = {
    kind: learner.kind,
    settings: changed(learner.settings),
    state: () => learner.state(),
    loadState: () => {},
  };
  const checkpoint = await Checkpoint.open(folderOf(name), { learner: part });
  await checkpoint.save();
  await checkpoint.close();
}

/** Returns the text of the refused restore into a learner with this precision, or null. */
async function restored(name: string, products: Products): Promise<string | null> {
  using device = openDevice(TESTED, { products });
  using learner = learnerOf(device);
  try {
    await Checkpoint.restore(folderOf(name), { learner });
    return null;
  } catch (error) {
    return (error as Error).message.replace(folder, '');
  }
}

const training = (change: object): TrainOptions => ({
  environment: new URL('../collect/target.js', import.meta.url),
  environmentOptions: { discrete: true },
  learner: { algorithm: 'dqn', hidden: [16], batchSize: 32 },
  device: TESTED,
  deterministic: true,
  steps: 300,
  warmUp: 200,
  evaluation: { every: 300, episodes: 2, confirm: 2 },
  ...change,
});

/** Trains, and returns the precision of the device, or the text and the code of the error. */
async function trained(change: object): Promise<string> {
  let products = 'nothing';
  try {
    await train(
      training({
        onOpen: () => {
          using device = openDevice(TESTED);
          products = device.traits.products;
        },
        ...change,
      }),
    );
    return products;
  } catch (error) {
    return (error as Error).message.replace(folder, '');
  }
}

const probes: Record<string, () => unknown> = {
  /** returns the nodes of updates of the built-in learners, and what their plans need */
  async nodes() {
    const device = openDevice(TESTED);
    const all: Record<string, readonly number[]> = {};
    for (const name of Object.keys(builtIn)) all[name] = await counted(device, name);
    return all;
  },

  /** returns the table of a network of two layers, of which one is large */
  table() {
    const net = new Network([linear(4, 2048), relu(), linear(2048, 64)]);
    const device = openDevice(TESTED, { products: 'tf32' });
    const made = learner(device, {
      name: 'large',
      rows: 8,
      batch: { x: [4] },
      networks: { net },
      optimizers: { net: adam() },
      update: ({ net: f }, { x }) => ({ minimize: { net: (f(x) as Expression).square().mean() } }),
    });
    return String(made.plan).split('\n');
  },

  /** returns whether products of each number of terms and multiply-adds have TF32's bits */
  async routed() {
    const device = openDevice(TESTED, { products: 'tf32' });
    const found: Record<string, string> = {};
    for (const [rows, columns, terms] of [
      [4, 4, 512],
      [4, 4, 513],
      [256, 256, 256],
      [257, 256, 256],
    ] as const) {
      // A product of numbers that TF32 rounds to 1, and of ones.
      using a = device.allocate({ shape: [rows * terms] });
      using b = device.allocate({ shape: [terms * columns] });
      using c = device.allocate({ shape: [rows * columns] });
      const stream = device.currentStream;
      stream.fill(a, 1 + 2 ** -12);
      stream.fill(b, 1);
      stream.launch('gemm', {
        tensors: [c, a, b],
        wholes: [0, 0, rows, columns, terms, terms, columns, columns],
        reals: [1, 0],
      });
      const [first] = await c.toArray();
      found[`${rows}×${columns}×${terms}`] = first === terms ? 'tf32' : 'float32';
    }
    return found;
  },

  /** captures each kind of product as the first of its kind, then launches it */
  async kinds() {
    const device = openDevice(TESTED);
    // The whole arguments begin as those of a batch of two products of 2×2 matrices.
    using x = device.allocate({ shape: [8] }).write(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    using y = device.allocate({ shape: [8] });
    device.currentStream.launch('gemm', {
      tensors: [y, x, x],
      wholes: [1, 0, 2, 2, 2, 2, 2, 2],
      reals: [1, 0],
    });
    await device.currentStream.synchronize();
    using stream = device.createStream();
    stream.beginCapture();
    launchAnything(stream, 'gemm_batched', {
      tensors: [y, x, x],
      wholes: [1, 0, 2, 2, 2, 2, 2, 2, 2, 4, 0, 4],
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

  /** multiplies on a device that is opened in float32, in TF32, and in float32 again */
  async precisions() {
    const found: Record<string, unknown>[] = [];
    for (const products of [undefined, 'tf32', 'float32', 'tf32', undefined] as const) {
      using device = openDevice(TESTED, { products });
      const { products: told, matrixProducts } = device.traits;
      found.push({ told, matrixProducts, is: await precisions(device) });
    }
    return { found, violations: counts((await software()).live()).violations };
  },

  /** keeps streams and graphs open while the device is opened with another precision */
  async kept() {
    const first = openDevice(TESTED);
    const { tensors, close } = operands(first);
    const [c] = tensors as [(typeof tensors)[0]];
    const [float32, tf32Graph] = [first.createStream(), first.createStream()];
    const usual = first.defaultStream;
    const lent = nativeShared().lendStream(first.handle);
    first.close();
    float32.beginCapture();
    const inCapture = opened(TESTED, { products: 'tf32' });
    float32.endCapture().close();
    const second = openDevice(TESTED, { products: 'tf32' });
    nativeShared().takeBackStream(second.handle, lent);
    const lentAgain = nativeShared().lendStream(second.handle);
    const stale = attempt(
      () => usual.fill(c, 0),
      () => null,
    );
    const stream = second.createStream();
    stream.beginCapture();
    launchOf(stream, 'gemm', tensors);
    const exec = stream.endCapture().instantiate();
    second.close();
    const third = openDevice(TESTED);
    const results: Record<string, string> = {};
    const run = async (name: string, on: Stream, work: () => void) => {
      c.write(values.c, on);
      work();
      results[name] = precisionOf([...(await c.toArray(on))], 'gemm');
    };
    await run('stream of float32', float32, () => launchOf(float32, 'gemm', tensors));
    await run('stream of TF32', stream, () => launchOf(stream, 'gemm', tensors));
    await run('graph of TF32', tf32Graph, () => tf32Graph.replay(exec));
    await run('new stream', third.defaultStream, () =>
      launchOf(third.defaultStream, 'gemm', tensors),
    );
    close();
    return { results, stale, inCapture, lentAnother: lentAgain !== lent };
  },

  /** opens the device with the options of the command line, in this order, without closing */
  open() {
    return (JSON.parse(process.argv[3] as string) as [string, OpenOptions?][]).map(
      ([name, options]) => opened(name, options),
    );
  },

  /** opens the device in a thread while this thread has it open */
  async thread() {
    using device = openDevice(TESTED, { products: 'tf32' });
    const worker = new Worker(new URL(import.meta.url), { argv: ['openThere'] });
    const answer = await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
    return { here: device.traits.products, there: answer };
  },

  /** attaches to the slots of a backend, with its own precision and with another one */
  attached() {
    using backend = buildReplayTransferBackend({ device: TESTED, ringDepth: 2 });
    backend.registerHostSlots([0, 1].map(() => new Uint8Array(new SharedArrayBuffer(64))));
    backend.allocateDeviceSlots({ shape: [64], dtype: 'uint8' });
    const shared = backend.share();
    return ([shared.products, 'tf32'] as const).map((products) =>
      attempt(
        () => new AttachedTransferBackend({ ...shared, products }),
        (made) => {
          made.close();
          return products;
        },
      ),
    );
  },

  /** updates a learner in both precisions */
  async updates() {
    return {
      float32: await updated('float32', false),
      tf32: await updated('tf32', false),
      graph: await updated('tf32', true),
    };
  },

  /** restores learners that were saved with each precision, and with the settings of old versions */
  async checkpoints() {
    await save('float32', 'float32');
    await save('tf32', 'tf32');
    await save('other', 'tf32', (settings) => ({ ...settings, gamma: 0.5 }));
    await save('old', 'float32', () => undefined as never);
    const texts: Record<string, string | null> = {};
    for (const name of ['float32', 'tf32', 'other', 'old'])
      for (const products of ['float32', 'tf32'] as const)
        texts[`${name} to ${products}`] = await restored(name, products);
    return texts;
  },

  /** resumes trainings with each precision */
  async trainings() {
    const own = (products: Products | undefined, settings: boolean) => ({
      learner: ({ device, obsDim, seed }: { device: Device; obsDim: number; seed: number }) => {
        const made = new DqnLearner(device, {
          obsDim,
          actions: 2,
          hidden: [16],
          batchSize: 32,
          seed,
        });
        return settings
          ? made
          : {
              ...{ device, batchSize: 32, scalars: made.scalars, ready: made.ready },
              ...{ parameters: made.parameters, kind: 'own' },
              update: made.update.bind(made),
              state: () => made.state(),
              loadState: (state: never) => made.loadState(state),
              close: () => made.close(),
            };
      },
      policy: {
        module: new URL('../collect/own-policy.js', import.meta.url),
        options: { sizes: [2, 16, 2] },
      },
      products,
    });
    const tf32: Products = 'tf32';
    const go = async (name: string, change: object, steps = 300) =>
      trained({ ...change, steps, checkpoint: { folder: folderOf(name) } });
    return {
      first: await go('tf32', { products: tf32 }),
      threads: await trained({ products: tf32, deterministic: false }),
      omitted: await go('tf32', {}, 400),
      float32: await go('tf32', { products: 'float32' }, 500),
      firstInFloat32: await go('float32', {}),
      tf32: await go('float32', { products: tf32 }, 400),
      own: await go('own', own(tf32, false)),
      ownInFloat32: await go('own', own('float32', false), 400),
      ownOmitted: await go('own', own(undefined, false), 400),
      wrong: await trained({ products: 'bf16' }),
      onHost: await trained({ products: tf32, device: 'host:0' }),
    };
  },

  /** gives train() a learner that is on its own device */
  async ownDevice() {
    using device = openDevice(TESTED);
    using learner = learnerOf(device);
    return trained({ learner, device: undefined, products: 'tf32', policy: { network: 'q' } });
  },
};

if (process.argv[2] === 'openThere' && !isMainThread) {
  parentPort!.postMessage(
    ([undefined, 'tf32', 'float32'] as const).map((products) => opened(TESTED, { products })),
  );
} else {
  const answer = await probes[process.argv[2] as string]?.();
  rmSync(folder, { recursive: true, force: true });
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
