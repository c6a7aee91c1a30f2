/** What a user meets on one device in some trouble; prints one JSON object. Run in a software driver's environment. */
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { listDevices, openDevice, ReplayPipeline } from '../../src/index.ts';
import { counter, filled, SAMPLE } from '../pipeline/fixture.ts';
import { TESTED } from '../tested-device.ts';
import { type Software, software } from './talk.ts';

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
  /** every family, and how a device that is not there is refused */
  list: () => ({
    devices: listDevices(),
    auto: openDevice('auto').name,
    refused: refused(() => openDevice(process.argv[3] as string)),
  }),

  /** what matrix products run on, once something was captured */
  products: () => {
    const device = openDevice(TESTED);
    using stream = device.createStream();
    stream.beginCapture();
    stream.endCapture().close();
    return device.traits.matrixProducts;
  },

  /** a device whose kernels cannot be loaded: it still copies */
  async kernels() {
    const device = openDevice(TESTED);
    using tensor = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3, 4));
    const launched = refused(() =>
      device.currentStream.launch('axpby', { tensors: [tensor, tensor], wholes: [4], reals: [1, 0] }),
    );
    return { ...launched, values: [...(await tensor.toArray())] };
  },

  /** more device memory than there is; afterwards it works */
  memory: () => {
    const device = openDevice(TESTED);
    const error = refused(() => device.allocate({ shape: [2 ** 20], dtype: 'float32' }));
    const kept = Array.from({ length: 4 }, () => device.allocate({ shape: [2 ** 10] }));
    for (const tensor of kept) tensor.close();
    return { ...error, free: device.memoryInfo().free };
  },

  /** a driver that will not pin host memory */
  async pageable() {
    const warnings: string[] = [];
    const made = await ReplayPipeline.open({ buffer: filled(), device: TESTED, sampleCount: SAMPLE });
    made.on('warning', (text) => warnings.push(text));
    const update = counter(made);
    const { ticks } = await made.run({ ticks: 20 });
    const { transferManifest } = made;
    await made.close();
    update.close();
    return { warnings, ticks, transferManifest };
  },

  /** two pipelines of one process on one device, at once */
  async two() {
    const open = () => ReplayPipeline.open({ buffer: filled(), device: TESTED, sampleCount: SAMPLE });
    const [a, b] = await Promise.all([open(), open()]);
    const updates = [a, b].map(counter);
    const ran = await Promise.all([a.run({ ticks: 200 }), b.run({ ticks: 300 })]);
    const counts = await Promise.all(updates.map(async ({ count }) => (await count.toArray())[0]));
    await Promise.all([a.close(), b.close()]);
    for (const update of updates) update.close();
    return { ticks: ran.map(({ ticks }) => ticks), counts };
  },

  /** threads ended by force while they are somewhere in the driver: nothing that they held stays, and others go on */
  async killed(driver) {
    const { live } = await driver();
    const words = new Int32Array(new SharedArrayBuffer(4));
    const round = async () => {
      Atomics.store(words, 0, 0);
      const worker = new Worker(new URL(import.meta.url), { workerData: words, argv: ['killed'] });
      // Somewhere in its tenth to fiftieth round of calls, wherever that is.
      const least = 10 + Math.floor(Math.random() * 40);
      while (Atomics.load(words, 0) < least) await new Promise(setImmediate);
      await worker.terminate();
    };
    await round();
    settle();
    const before = live();
    for (let i = 0; i < 20; i++) await round();
    settle();
    const device = openDevice(TESTED);
    using tensor = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3, 4));
    const values = [...(await tensor.toArray())];
    tensor.close();
    settle();
    return { before, after: live(), values };
  },
};

/** What was let go while it was in use is given back by a later call that looks. */
function settle(): void {
  for (let i = 0; i < 20; i++) {
    openDevice(TESTED).createEvent().close();
    openDevice(TESTED).memoryInfo();
  }
}

/** Everything a thread may do with a device, over and over. */
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
