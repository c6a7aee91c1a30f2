/**
 * Measures packing and unpacking halos. Compares the CPU with numpy and memcpy, and also measures
 * the cost of a call, an exchange between threads, and packing on a device.
 */
import { Worker } from 'node:worker_threads';
import { nativeMemory } from '../src/device/native.ts';
import {
  type Edge,
  edgeSlices,
  edges,
  HaloDataTransformer,
  HaloExchangeSpec,
  periodicTopology,
  QuantityHaloSpec,
  shareHaloExchange,
} from '../src/entries/halo.ts';
import { openDevice } from '../src/index.ts';
import type { ExchangeTask } from './halo-worker.ts';
import { type Benchmark, beside, inTurn, median, middle, speedBeside } from './harness.ts';
import { Peer } from './peers/peer.ts';

const LEVELS = 79;
const layouts = [
  { title: '54×54×79, k innermost', dims: ['i', 'j', 'k'], fortran: false },
  { title: '79×54×54, i innermost', dims: ['k', 'j', 'i'], fortran: false },
  { title: '54×54×79, column-major', dims: ['i', 'j', 'k'], fortran: true },
];
const rotations = edges.map((_, e) => e % 4);

function specOf(dims: readonly string[], fortran: boolean): QuantityHaloSpec {
  const shape = dims.map((name) => (name === 'k' ? LEVELS : 54));
  const product = (part: readonly number[]) => part.reduce((n, d) => n * d, 1);
  const strides = shape.map((_, d) => product(fortran ? shape.slice(0, d) : shape.slice(d + 1)));
  const origin = dims.map((name) => (name === 'k' ? 0 : 3));
  const extent = dims.map((name) => (name === 'k' ? LEVELS : 48));
  return new QuantityHaloSpec({
    nPoints: 3,
    shape,
    strides,
    origin,
    extent,
    dims,
    dtype: 'float64',
  });
}
const leaving = (spec: QuantityHaloSpec, edge: Edge) => edgeSlices(spec, edge, { interior: true });
const arriving = (spec: QuantityHaloSpec, edge: Edge) =>
  edgeSlices(spec, edge, { interior: false });

function exchangesOf(specification: QuantityHaloSpec): HaloExchangeSpec[] {
  return edges.map(
    (edge, e) =>
      new HaloExchangeSpec({
        specification,
        packSlices: leaving(specification, edge),
        packClockwiseRotation: rotations[e] as number,
        unpackSlices: arriving(specification, edge),
      }),
  );
}

/**
 * Describes the work to the numpy program, which packs or unpacks on request and returns its time.
 */
function numpyTask(spec: QuantityHaloSpec, fortran: boolean) {
  const pack = edges.map((edge) => leaving(spec, edge));
  const unpack = edges.map((edge) => arriving(spec, edge));
  return { dims: spec.dims, shape: spec.shape, fortran, pack, unpack, rotations };
}

/** Returns the mean microseconds of one call. */
function timed(calls: number, act: () => void): number {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) act();
  return ((performance.now() - begin) * 1000) / calls;
}

/**
 * Returns the microseconds of an exchange between two threads. They are the halves of a periodic
 * plane, and each packs and unpacks eight regions.
 */
async function exchanged(specification: QuantityHaloSpec, exchanges: number): Promise<number> {
  const { nPoints, shape, origin, extent, dims, dtype } = specification;
  const topology = periodicTopology({ layout: [2, 1] });
  const shared = shareHaloExchange({
    topology,
    x: [{ nPoints, shape, origin, extent, dims, dtype }],
  });
  const sides = [0, 1].map((rank) => {
    const workerData: ExchangeTask = { shared, rank, elements: specification.span, exchanges };
    const worker = new Worker(new URL('./halo-worker.js', import.meta.url), { workerData });
    return new Promise<number>((resolve, reject) =>
      worker.once('message', resolve).once('error', reject),
    );
  });
  return median(await Promise.all(sides));
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const rounds = quick ? 2 : 20;
  const calls = quick ? 50 : 200;
  const available = Peer.has('numpy');
  if (!available)
    console.error('halo: python3 has no numpy, so there is nothing to compare with but memcpy');
  for (const { title, dims, fortran } of layouts) {
    const spec = specOf(dims, fortran);
    const transformer = HaloDataTransformer.get('cpu', exchangesOf(spec));
    const data = new Float64Array(spec.span).fill(1);
    const quantities = edges.map(() => ({ data, shape: spec.shape, strides: spec.strides, dims }));
    const bytes = transformer.length * 8;
    using source = openDevice('host:0').allocate({ shape: [bytes], dtype: 'uint8' });
    const target = new Uint8Array(bytes);
    const ours = {
      pack: () => transformer.asyncPack(quantities),
      unpack: () => transformer.asyncUnpack(quantities),
    };
    const numpy = available ? new Peer('halo_numpy.py', 'numpy', numpyTask(spec, fortran)) : null;
    for (const way of ['pack', 'unpack'] as const) {
      const times = { ours: [] as number[], numpy: [] as number[], memcpy: [] as number[] };
      for (let round = quick ? -1 : -3; round < rounds; round++) {
        const got = {
          // A native call that makes one memcpy.
          memcpy: timed(calls, () => nativeMemory().copyOut(source.handle, target)),
          ours: timed(calls, ours[way]),
          numpy: numpy ? await numpy.time(way) : Number.NaN,
        };
        if (round >= 0)
          for (const who of ['ours', 'numpy', 'memcpy'] as const) times[who].push(got[who]);
      }
      const what = `${title}, float64, 8 edges of 3 points, mixed turns`;
      report({
        case: `${way} ${what}${numpy ? '; numpy' : ''}`,
        metric: 'time',
        ...(numpy ? beside(times.ours, times.numpy) : middle(times.ours)),
        unit: 'µs',
      });
      report({
        case: `${way} ${what}; memcpy of ${bytes} B`,
        metric: 'speed',
        ...speedBeside(bytes, times.ours, times.memcpy),
      });
    }
    numpy?.close();
    transformer.finalize();
  }

  // A large array. Idle cores help to pack it.
  {
    const specification = new QuantityHaloSpec({
      nPoints: 0,
      shape: [64, 512, 512],
      origin: [0, 0, 0],
      extent: [64, 512, 512],
      dims: ['k', 'j', 'i'],
      dtype: 'float64' as const,
    });
    const all = specification.shape.map((n) => [0, n] as const);
    const whole = new HaloExchangeSpec({
      specification,
      packSlices: all,
      packClockwiseRotation: 1,
      unpackSlices: all,
    });
    const transformer = HaloDataTransformer.get('cpu', [whole]);
    const data = new Float64Array(specification.span).fill(1);
    using source = openDevice('host:0').allocate({ shape: [data.byteLength], dtype: 'uint8' });
    const target = new Uint8Array(data.byteLength);
    const { ours, memcpy } = await inTurn(rounds, {
      memcpy: () => nativeMemory().copyOut(source.handle, target),
      ours: () => transformer.asyncPack([{ data }]),
    });
    report({
      case: 'pack 64×512×512 float64, a quarter turn; memcpy on one thread',
      metric: 'speed',
      ...speedBeside(data.byteLength, ours.caller, memcpy.caller),
    });
    transformer.finalize();
  }

  // Tiny halos. Most of the time is the call itself.
  const small = new QuantityHaloSpec({
    nPoints: 1,
    shape: [6, 6],
    origin: [1, 1],
    extent: [4, 4],
    dims: ['j', 'i'],
    dtype: 'float32' as const,
  });
  for (const count of [1, 8]) {
    const specs = exchangesOf(small).slice(0, count);
    const data = new Float32Array(36);
    const quantity = { data, shape: [6, 6], strides: [6, 1], dims: ['j', 'i'] };
    const transformer = HaloDataTransformer.get('cpu', specs);
    const quantities = specs.map(() => quantity);
    const { cpu } = await inTurn(
      5 * rounds,
      { cpu: () => transformer.asyncPack(quantities) },
      undefined,
      500,
    );
    report({
      case: `tiny halos, ${count} of them, on cpu`,
      metric: 'a pack',
      ...middle(cpu.caller),
      unit: 'µs',
    });
    transformer.finalize();

    using memory = device.allocate({ shape: [36] });
    const there = HaloDataTransformer.get(device, specs);
    const tensors = specs.map(() => ({ ...quantity, data: memory }));
    const { js } = await inTurn(
      5 * rounds,
      { js: () => there.asyncPack(tensors) },
      () => there.synchronize(),
      50,
    );
    report({
      case: `tiny halos, ${count} of them, on ${name}`,
      metric: 'JS cost of a pack',
      ...middle(js.caller),
      unit: 'µs',
    });
    there.finalize();
  }

  // A whole exchange with another thread, from its start until the last halo point is written.
  const tiny = new QuantityHaloSpec({
    nPoints: 1,
    shape: [6, 6],
    origin: [1, 1],
    extent: [4, 4],
    dims: ['j', 'i'],
    dtype: 'float64' as const,
  });
  for (const [what, spec] of [
    ['6×6', tiny],
    ['54×54×79', specOf(['i', 'j', 'k'], false)],
  ] as const) {
    const times: number[] = [];
    for (let round = 0; round < (quick ? 1 : 5); round++)
      times.push(await exchanged(spec, quick ? 200 : 10_000));
    report({
      case: `${what} float64 on each of two threads, 8 edges each way`,
      metric: 'an exchange',
      ...middle(times),
      unit: 'µs',
    });
  }

  // The same regions on the device, from the call until they are packed.
  {
    const spec = specOf(['i', 'j', 'k'], false);
    const transformer = HaloDataTransformer.get(device, exchangesOf(spec));
    using data = device.allocate({ shape: [spec.span], dtype: 'float64' });
    const quantities = edges.map(() => ({ data }));
    for (const way of ['asyncPack', 'asyncUnpack'] as const) {
      const act = () => transformer[way](quantities);
      const { times } = await inTurn(
        10 * rounds,
        { times: act },
        () => transformer.synchronize(),
        20,
      );
      report({
        case: `${way === 'asyncPack' ? 'pack' : 'unpack'} 54×54×79 float64, 8 edges, on ${name}, 20 enqueued at once`,
        metric: 'time until done, each',
        ...middle(times.done),
        unit: 'µs',
      });
    }
    transformer.finalize();
  }
  device.close();
};
