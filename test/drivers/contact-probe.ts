/** What a process meets on a driver that waits, loads late or shares its queues; prints one JSON object, like probe.ts. */
import { openDevice } from '../../src/index.ts';
import { compileAllocator, createUnifiedMempool } from '../../src/memory/index.ts';
import { Latch } from '../rig/latch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, settle, software } from './talk.ts';

const probes: Record<string, () => unknown> = {
  /** what the first look at a device finds */
  async opened() {
    const { watchdog, matrixProducts } = openDevice(TESTED).traits;
    const loaded = counts((await software()).calls()).cuModuleLoadData ?? 0;
    return { loaded, connections: process.env.CUDA_DEVICE_MAX_CONNECTIONS ?? null, watchdog, matrixProducts };
  },

  /** the first product of all, made in a capture */
  async firstProduct() {
    const device = openDevice(TESTED);
    using stream = device.createStream();
    const n = 64;
    using a = device.allocate({ shape: [n, n] }).write(new Float32Array(n * n).fill(1));
    using c = device.allocate({ shape: [n, n] });
    await device.currentStream.synchronize();
    stream.beginCapture();
    stream.launch('gemm', { tensors: [c, a, a], wholes: [0, 0, n, n, n, n, n, n], reals: [1, 0] });
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    stream.replay(exec);
    return [...new Set(await c.toArray(stream))];
  },

  /** managed memory on a device that this process has open */
  async managed() {
    const device = openDevice(TESTED);
    await compileAllocator();
    try {
      createUnifiedMempool(device).close();
      return null;
    } catch (error) {
      return (error as Error).message;
    }
  },

  /** memory given back while another stream is busy, and how often the driver was asked to take it */
  async givenBack() {
    const { calls, live } = await software();
    const device = openDevice(TESTED);
    using stream = device.createStream();
    using behind = device.createEvent();
    const frees = () => {
      const made = counts(calls());
      return ['Free', 'HostUnregister', 'HostFree', 'FreeHost'].reduce(
        (sum, name) => sum + (made[`cuMem${name}`] ?? 0) + (made[`hip${name}`] ?? 0),
        0,
      );
    };
    const pinned = (count: number) => {
      for (let i = 0; i < count; i++) device.registerHost(new Uint8Array(new SharedArrayBuffer(4096))).close();
    };
    const cycles = (count: number) => {
      for (let i = 0; i < count; i++) device.allocate({ shape: [1000 + i] }).close();
    };
    cycles(2);
    const allocated = counts(calls());
    cycles(50);
    const asked = (counts(calls()).cuMemAlloc ?? 0) - (allocated.cuMemAlloc ?? 0);
    const latch = new Latch(device);
    const before = frees();
    // Let go behind work that ends, and looked for while other work runs.
    using short = device.createStream();
    short.launch('spin', { wholes: [20_000] });
    device.allocateManaged({ shape: [4] }).close();
    pinned(3);
    latch.hold(stream);
    stream.record(behind);
    cycles(10);
    while (!short.query()) await new Promise(setImmediate);
    device.memoryInfo();
    pinned(1);
    const during = frees() - before;
    latch.open();
    await stream.synchronize();
    latch[Symbol.dispose]();
    settle();
    await new Promise(setImmediate);
    pinned(1);
    settle();
    return { during, asked, after: frees() - before, registrations: counts(live()).registrations ?? 0 };
  },
};

process.stdout.write(`${JSON.stringify(await probes[process.argv[2] as string]?.())}\n`);
