/**
 * Runs one probe of a device on a driver that waits, loads late or shares its queues. Prints one
 * JSON object, like probe.ts.
 */

import { compileAllocator, createUnifiedMempool } from '../../src/entries/memory.ts';
import { openDevice } from '../../src/index.ts';
import { Thread } from '../device/thread.ts';
import { Latch } from '../rig/latch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { counts, settle, software } from './talk.ts';

const probes: Record<string, (refusing?: boolean) => unknown> = {
  /** opens a device and returns its traits, the loaded modules and the number of connections */
  async opened() {
    const { watchdog, matrixProducts } = openDevice(TESTED).traits;
    const loaded = counts((await software()).calls()).cuModuleLoadData ?? 0;
    return {
      loaded,
      connections: process.env.CUDA_DEVICE_MAX_CONNECTIONS ?? null,
      watchdog,
      matrixProducts,
    };
  },

  /** computes the first matrix product of the process in a capture */
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

  /** counts the graphs that each step uploads, and returns the values that all replays leave */
  async uploads() {
    const { calls } = await software();
    const device = openDevice(TESTED);
    using first = device.createStream();
    using second = device.createStream();
    using sum = device.allocate({ shape: [4] });
    using one = device.allocate({ shape: [4] }).write(new Float32Array(4).fill(1));
    const captured = (nodes: number, during = () => {}) => {
      first.beginCapture();
      for (let i = 0; i < nodes; i++)
        first.launch('axpby', { tensors: [sum, one], wholes: [4], reals: [10 ** (nodes - 1), 1] });
      during();
      return first.endCapture();
    };
    const uploads = () => {
      const made = counts(calls());
      return (made.cuGraphUpload ?? 0) + (made.hipGraphUpload ?? 0);
    };
    const steps: Record<string, number> = {};
    const step = (name: string, act: () => void) => {
      const before = uploads();
      act();
      steps[name] = uploads() - before;
    };
    using single = captured(1);
    using alike = captured(1);
    using two = captured(2);
    const exec = single.instantiate();
    step('instantiated', () => two.instantiate().close());
    using latch = new Latch(device).hold(first);
    // The replay waits behind the latch. Meanwhile the graph is updated, and a second stream
    // replays it after the first.
    step('replayed', () => first.replay(exec));
    step('updated', () => exec.update(alike));
    step('replaced', () => exec.update(two));
    second.replay(exec);
    latch.open();
    step('in a capture', () => {
      captured(1, () => void two.instantiate().close()).close();
    });
    const values = [...((await sum.toArray(second)) as Float32Array)];
    exec.close();
    return { ...steps, values };
  },

  /** runs `givenUp` on a driver that begins another capture */
  goesOn: () => probes.givenUp?.(false),

  /**
   * uses a stream after the thread that captured it has ended, on a driver that refuses to begin
   * another capture
   */
  async givenUp(refusing = true) {
    const { fail, live } = await software();
    const device = openDevice(TESTED);
    using tensor = device.allocate({ shape: [1], dtype: 'int32' });
    using other = device.createStream();
    // The core makes the first capture of the process, to find out how events in graphs behave.
    other.beginCapture();
    other.endCapture().close();
    const before = counts(live());
    const stream = device.createStream();
    const mark = device.createEvent();
    using its = device.allocate({ shape: [1], dtype: 'int32' });
    // The thread's own capture begins, and the next one fails.
    fail(refusing ? 'cuStreamBeginCapture:2:801:forever' : null);
    await new Thread('beginCapture', { device: device.name, stream: stream.handle }).result();
    await until('the capture is gone', () => !stream.capturing);
    fail(null);
    const refused = (act: () => unknown) => {
      try {
        act();
        return null;
      } catch (error) {
        return (error as Error).message;
      }
    };
    const acts = [
      () => stream.fill(its, 1),
      () => stream.record(mark),
      () => stream.query(),
      () => stream.beginCapture(),
      () => stream.endCapture().close(),
    ];
    const messages = acts.map(refused);
    other.fill(tensor, 2);
    const values = [...((await tensor.toArray(other)) as Int32Array)];
    stream.close();
    mark.close();
    settle();
    const streams = (counts(live()).streams ?? 0) - (before.streams ?? 0);
    return { messages, values, streams };
  },

  /** creates a unified memory pool on a device that this process has open */
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

  /** closes memory while another stream is busy, and counts the driver's free calls */
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
      for (let i = 0; i < count; i++)
        device.registerHost(new Uint8Array(new SharedArrayBuffer(4096))).close();
    };
    const cycles = (count: number) => {
      for (let i = 0; i < count; i++) device.allocate({ shape: [1000 + i] }).close();
    };
    cycles(2);
    const allocated = counts(calls());
    cycles(50);
    const asked = (counts(calls()).cuMemAlloc ?? 0) - (allocated.cuMemAlloc ?? 0);
    const latch = new Latch(device);
    const shortLatch = new Latch(device);
    const before = frees();
    // Closes memory after work that ends. The device checks this memory while other work runs.
    using short = device.createStream();
    shortLatch.hold(short);
    device.allocateManaged({ shape: [4] }).close();
    pinned(3);
    latch.hold(stream);
    stream.record(behind);
    cycles(10);
    shortLatch.open();
    while (!short.query()) await new Promise(setImmediate);
    device.memoryInfo();
    pinned(1);
    const during = frees() - before;
    latch.open();
    await stream.synchronize();
    latch[Symbol.dispose]();
    shortLatch[Symbol.dispose]();
    settle();
    await new Promise(setImmediate);
    pinned(1);
    settle();
    return {
      during,
      asked,
      after: frees() - before,
      registrations: counts(live()).registrations ?? 0,
    };
  },
};

process.stdout.write(`${JSON.stringify(await probes[process.argv[2] as string]?.())}\n`);
