/**
 * A child process that must survive the loss of memory from which copies run. Its argument says how
 * the memory is lost:
 * - 'exit': the process exits with code 3 during copies out of its shared memory.
 * - 'thread': a thread of the process is terminated during the copies.
 * - 'pipeline': that thread has a pipeline whose graph runs longer than the end of the thread
 *   waits.
 * - 'closed', 'collected': the memory is closed, or its object is collected, while a copy out of it
 *   is queued.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread, parentPort } from 'node:worker_threads';
import { openDevice, ReplayBuffer, ReplayPipeline, type Tensor } from '../../src/index.ts';
import { givenTask, say, TestThread } from '../rig/test-thread.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

function lend() {
  const device = openDevice('host:0');
  const bytes = 64 << 20;
  const host = device.registerHost(new Uint8Array(new SharedArrayBuffer(bytes)));
  const to = device.allocate({ shape: [bytes], dtype: 'uint8' });
  const stream = device.createStream();
  for (let i = 0; i < 20; i++) stream.copy(to, host.tensor({ shape: [bytes], dtype: 'uint8' }));
  return stream;
}

/**
 * Enqueues a copy that waits for a latch. Then drops the last reference to its source, so that only
 * the device knows the memory.
 */
async function orphan(close: boolean): Promise<void> {
  const device = openDevice('host:0');
  const bytes = 8 << 20;
  const stream = device.createStream();
  const to = device.allocate({ shape: [bytes], dtype: 'uint8' });
  const latch = device.allocate({ shape: [1], dtype: 'int32' });
  stream.launch('latch', { tensors: [latch], wholes: [8000] });
  (() => {
    const host = device.registerHost(new Uint8Array(new SharedArrayBuffer(bytes)).fill(7));
    stream.copy(to, host.tensor({ shape: [bytes], dtype: 'uint8' }));
    if (close) host.close();
  })();
  for (let i = 0; i < 3; i++) {
    gc();
    await new Promise(setImmediate);
  }
  device.createStream().fill(latch, 1);
  const got = await to.toArray(stream);
  if (got[0] !== 7 || got[bytes - 1] !== 7)
    throw new Error(`the copy read ${got[0]} and ${got[bytes - 1]}`);
}

/** Runs a pipeline in this thread. Its graphs take three seconds. */
async function learn(): Promise<void> {
  const buffer = ReplayBuffer.create({ capacity: 1000, fields: { x: { shape: [4096] } } });
  buffer.add({ x: new Float32Array(4096 * 100) });
  const pipeline = await ReplayPipeline.open({ buffer, device: 'host:0', sampleCount: 500 });
  const target = openDevice('host:0').allocate({ shape: [500 * 4096] });
  pipeline.capture((batch, { stream }) => {
    for (let i = 0; i < 30; i++) {
      stream.launch('spin', { wholes: [100_000] });
      stream.launch('copy2d', {
        tensors: [target, batch.x as Tensor],
        wholes: [500, 4096, 4096, 4096],
      });
    }
  });
  const running = pipeline.run();
  // Waits until the learner runs on the first batch. After that the event loop of this thread does
  // not turn for long.
  while (pipeline.inspect().slots.every(({ state }) => state !== 'Replaying'))
    await new Promise(setImmediate);
  say('running');
  await running;
}

if (!isMainThread && givenTask() === 'pipeline') {
  await learn();
} else if (!isMainThread) {
  say(lend().handle);
  // keeps the thread alive until it is terminated
  parentPort?.on('message', () => undefined);
} else if (process.argv[2] === 'closed' || process.argv[2] === 'collected') {
  await orphan(process.argv[2] === 'closed');
} else if (process.argv[2] === 'thread' || process.argv[2] === 'pipeline') {
  const thread = new TestThread(new URL(import.meta.url), process.argv[2]);
  await thread.next();
  await thread.terminate();
  gc();
  // This returns only after all work that the thread enqueued.
  await openDevice('host:0').currentStream.synchronize();
} else {
  lend();
  process.exit(3);
}
