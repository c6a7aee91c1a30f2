/**
 * Runs one probe of a device in a software driver's environment, and prints the result as a JSON
 * object. Each probe is a situation that a user may meet, such as a full device or a failing
 * driver.
 */
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import {
  listDevices,
  openDevice,
  ReplayPipeline,
  type Tensor,
  WeightMailbox,
} from '../../src/index.ts';
import { counter, filled, SAMPLE } from '../pipeline/fixture.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, type Software, settle, software } from './talk.ts';

const refused = (call: () => unknown): Record<string, unknown> => {
  try {
    call();
    return {};
  } catch (error) {
    const { name, message, code, advice } = error as Error & { code?: string; advice?: string };
    return { name, message, code, advice };
  }
};

const probes: Record<string, (driver: () => Promise<Software>) => unknown> = {
  /** lists the devices of every family, and the error for a device that does not exist */
  list: () => ({
    devices: listDevices(),
    auto: openDevice('auto').name,
    refused: refused(() => openDevice(process.argv[3] as string)),
  }),

  /** returns what computes matrix products after a first capture */
  products: () => {
    const device = openDevice(TESTED);
    using stream = device.createStream();
    stream.beginCapture();
    stream.endCapture().close();
    return device.traits.matrixProducts;
  },

  /** launches on a device whose kernels cannot be loaded, then copies */
  async kernels() {
    const device = openDevice(TESTED);
    using tensor = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3, 4));
    const launched = refused(() =>
      device.currentStream.launch('axpby', {
        tensors: [tensor, tensor],
        wholes: [4],
        reals: [1, 0],
      }),
    );
    return { ...launched, values: [...(await tensor.toArray())] };
  },

  /** allocates more device memory than exists, then allocates less */
  memory: () => {
    const device = openDevice(TESTED);
    const error = refused(() => device.allocate({ shape: [2 ** 20], dtype: 'float32' }));
    const kept = Array.from({ length: 4 }, () => device.allocate({ shape: [2 ** 10] }));
    for (const tensor of kept) tensor.close();
    return { ...error, free: device.memoryInfo().free };
  },

  /**
   * checks that cached device memory counts as free, and that the device frees it for new
   * allocations, also in a capture
   */
  keptAsFree: () => {
    const device = openDevice(TESTED);
    const { free } = device.memoryInfo();
    const keep = () => device.allocate({ shape: [600_000], dtype: 'uint8', zeroed: false }).close();
    const frees: number[] = [];
    const room = (take: () => Tensor) => {
      keep();
      frees.push(free - device.memoryInfo().free);
      take().close();
    };
    room(() => device.allocate({ shape: [700_000], dtype: 'uint8' }));
    room(() => device.allocateManaged({ shape: [700_000], dtype: 'uint8' }));
    room(() => {
      using stream = device.createStream();
      stream.beginCapture();
      const tensor = device.allocate({ shape: [100_000], dtype: 'uint8', zeroed: false });
      stream.fill(tensor, 1);
      stream.endCapture().close();
      return tensor;
    });
    using held = device.allocateManaged({ shape: [900_000], dtype: 'uint8' });
    const error = refused(() => device.allocateManaged({ shape: [900_000], dtype: 'uint8' }));
    held.close();
    return { ...error, frees, left: free - device.memoryInfo().free };
  },

  /**
   * uses managed memory of the first of two devices: gives advice about it, and accesses it from
   * the second device
   */
  async managedAcross() {
    const [here, there] = [openDevice(TESTED), openDevice(TESTED.replace(/0$/, '1'))];
    using tensor = here.allocateManaged({ shape: [64] });
    using one = here.allocate({ shape: [64] });
    here.currentStream.fill(tensor, 1);
    here.currentStream.fill(one, 1);
    await here.currentStream.synchronize();
    const uses: Record<string, () => unknown> = {
      preferHere: () => here.advise(tensor, { preferredLocation: 0, accessedBy: 0 }),
      preferCpu: () => here.advise(tensor, { preferredLocation: -1 }),
      preferThere: () => here.advise(tensor, { preferredLocation: 1 }),
      accessThere: () => here.advise(tensor, { accessedBy: 1 }),
      prefetchHere: () => here.currentStream.prefetch(tensor, 0),
      prefetchAcross: () => here.currentStream.prefetch(tensor, 1),
      prefetchThere: () => there.currentStream.prefetch(tensor, 1),
      fill: () => there.currentStream.fill(tensor.view({ shape: [32] }), 2),
      nothing: () => {
        const empty = tensor.view({ shape: [0] });
        here.currentStream.prefetch(empty, 0);
        here.advise(empty, { preferredLocation: -1 });
      },
    };
    const said = Object.fromEntries(
      Object.entries(uses).map(([name, use]) => [name, refused(use)]),
    );
    await there.currentStream.synchronize();
    here.currentStream.launch('axpby', { tensors: [tensor, one], wholes: [64], reals: [10, 1] });
    return {
      said,
      values: [...new Set(await tensor.toArray())],
      residency: here.residency(tensor),
    };
  },

  /**
   * allocates when the cache fills most of the memory, and more than the device has, also in a
   * capture
   */
  kept: () => {
    const device = openDevice(TESTED);
    const shape = [1_000_000];
    for (const make of [
      () => device.allocate({ shape }),
      () => device.allocateManaged({ shape }),
      () => device.allocate({ shape: [1_200_000], zeroed: false }),
    ]) {
      device.allocate({ shape, zeroed: false }).close();
      device.memoryInfo();
      make().close();
    }
    const tooMuch = () => refused(() => device.allocate({ shape: [2 ** 21], zeroed: false }));
    using stream = device.createStream();
    stream.beginCapture();
    const captured = tooMuch();
    stream.endCapture().close();
    return { ...tooMuch(), captured, free: device.memoryInfo().free };
  },

  /** allocates managed memory on a device without managed memory */
  unmanaged: () => {
    const device = openDevice(TESTED);
    return {
      why: device.traits.noManaged,
      ...refused(() => device.allocateManaged({ shape: [4] })),
    };
  },

  /** runs a pipeline on a driver that refuses to pin host memory */
  async pageable() {
    const warnings: string[] = [];
    const mailbox = WeightMailbox.create({ length: 1 });
    const made = await ReplayPipeline.open({
      buffer: filled(),
      device: TESTED,
      sampleCount: SAMPLE,
      mailbox,
    });
    made.on('warning', (text) => warnings.push(text));
    const device = openDevice(TESTED);
    using count = device.allocate({ shape: [1] });
    using one = device.allocate({ shape: [1] }).write(Float32Array.of(1));
    made.capture(
      (_, { stream, out }) => {
        stream.launch('axpby', { tensors: [count, one], wholes: [1], reals: [1, 1] });
        stream.copy(out.view({ shape: [1] }), count);
      },
      { scalars: ['count'], weights: count },
    );
    const { ticks, scalars } = await made.run({ ticks: 20, publishEvery: 5 });
    const { transferManifest } = made;
    await made.close();
    const weights = new Float32Array(1);
    const version = mailbox.read(weights);
    const { pageable_copies: pageable = 0 } = counts((await software()).live());
    return { warnings, ticks, scalars, version, weights: [...weights], pageable, transferManifest };
  },

  /** runs two pipelines of one process on one device at the same time */
  async two() {
    const open = () =>
      ReplayPipeline.open({ buffer: filled(), device: TESTED, sampleCount: SAMPLE });
    const [a, b] = await Promise.all([open(), open()]);
    const updates = [a, b].map(counter);
    const ran = await Promise.all([a.run({ ticks: 200 }), b.run({ ticks: 300 })]);
    const counts = await Promise.all(updates.map(async ({ count }) => (await count.toArray())[0]));
    await Promise.all([a.close(), b.close()]);
    for (const update of updates) update.close();
    return { ticks: ran.map(({ ticks }) => ticks), counts };
  },

  /** kills threads while they call the driver, then counts leaked objects and copies again */
  async killed(driver) {
    const { live } = await driver();
    const words = new Int32Array(new SharedArrayBuffer(4));
    const round = async () => {
      Atomics.store(words, 0, 0);
      const worker = new Worker(new URL(import.meta.url), { workerData: words, argv: ['killed'] });
      // Kills the thread at a random point after its tenth to fiftieth round of calls.
      const least = 10 + Math.floor(Math.random() * 40);
      while (Atomics.load(words, 0) < least) await new Promise(setImmediate);
      await worker.terminate();
    };
    await round();
    settle();
    const before = live();
    for (let i = 0; i < Number(process.argv[3]); i++) await round();
    settle();
    const device = openDevice(TESTED);
    using tensor = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3, 4));
    const values = [...(await tensor.toArray())];
    tensor.close();
    settle();
    return { before, after: live(), values };
  },
};

/** Makes most calls that a thread may make on a device, in an endless loop. */
async function busy(words: Int32Array): Promise<void> {
  const device = openDevice(TESTED);
  for (;;) {
    using host = device.registerHost(new Uint8Array(new SharedArrayBuffer(8192)));
    using tensor = device.allocate({ shape: [64] });
    using stream = device.createStream();
    using event = device.createEvent();
    stream.copy(tensor, host.tensor({ shape: [64], dtype: 'float32' }));
    stream.beginCapture();
    stream.fill(tensor, 1);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    stream.record(event);
    while (!event.query());
    Atomics.add(words, 0, 1);
  }
}

if (!isMainThread && workerData instanceof Int32Array) {
  await busy(workerData);
} else {
  const answer = await probes[process.argv[2] as string]?.(software);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
