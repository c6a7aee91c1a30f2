/**
 * A process of its own, because it would crash if memory went away under a running copy: with the argument 'exit' it
 * exits (code 3) while copies out of its shared memory run; with 'thread' a thread of its own is ended while they run.
 */
import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { openDevice } from '../../src/index.ts';

function lend() {
  const device = openDevice('host:0');
  const bytes = 64 << 20;
  const host = device.registerHost(new Uint8Array(new SharedArrayBuffer(bytes)));
  const to = device.allocate({ shape: [bytes], dtype: 'uint8' });
  const stream = device.createStream();
  for (let i = 0; i < 20; i++) stream.copy(to, host.tensor({ shape: [bytes], dtype: 'uint8' }));
  return stream;
}

if (!isMainThread) {
  parentPort?.postMessage(lend().handle);
  parentPort?.on('message', () => undefined);
} else if (process.argv[2] === 'thread') {
  const worker = new Worker(new URL(import.meta.url));
  await once(worker, 'message');
  await worker.terminate();
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  // Whatever the thread enqueued has come this far only after it.
  await openDevice('host:0').currentStream.synchronize();
} else {
  lend();
  process.exit(3);
}
