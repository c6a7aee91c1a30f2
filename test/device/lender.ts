/**
 * A process of its own, because it would crash if memory went away under a running copy: with the
 * argument 'exit' it exits (code 3) while copies out of its shared memory run; with 'thread' a
 * thread of its own is ended while they run; with 'pipeline' that thread has a whole pipeline,
 * whose graph takes longer than its end will wait; with 'closed' and 'collected' the memory itself
 * is closed or dropped while a copy out of it is still queued.
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

/** A copy that waits behind a latch, out of memory that only the device still knows. */
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

/** A pipeline in this thread, running graphs of three seconds. */
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
  // The first batch is on its way to the learner; then this thread's event loop does not turn for
  // long.
  while (pipeline.inspect().slots.every(({ state }) => state !== 'Replaying'))
    await new Promise(setImmediate);
  say('running');
  await running;
}

if (!isMainThread && givenTask() === 'pipeline') {
  await learn();
} else if (!isMainThread) {
  say(lend().handle);
  // Until it is ended.
  parentPort?.on('message', () => undefined);
} else if (process.argv[2] === 'closed' || process.argv[2] === 'collected') {
  await orphan(process.argv[2] === 'closed');
} else if (process.argv[2] === 'thread' || process.argv[2] === 'pipeline') {
  const thread = new TestThread(new URL(import.meta.url), process.argv[2]);
  await thread.next();
  await thread.terminate();
  gc();
  // Whatever the thread enqueued has come this far only after it.
  await openDevice('host:0').currentStream.synchronize();
} else {
  lend();
  process.exit(3);
}
