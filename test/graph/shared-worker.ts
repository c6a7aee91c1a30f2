/** Another thread that shares a device's capture stream and graph pool. */
import { parentPort, workerData } from 'node:worker_threads';
import { onCaptureStream } from '../../src/graph/shared.ts';
import {
  FullGraphWrapper,
  getGraphPool,
  getSharedCaptureStream,
  getSharedGraphPool,
  openDevice,
} from '../../src/index.ts';

const { task, name, words, value, runs } = workerData as {
  task: 'handles' | 'hold' | 'run';
  name: string;
  /** word 0: 1 when this thread is where the test wants it, 2 when it may go on */
  words: Int32Array;
  value: number;
  runs: number;
};
const device = openDevice(name);
const here = () => {
  Atomics.store(words, 0, 1);
  Atomics.notify(words, 0);
  Atomics.wait(words, 0, 1);
};

if (task === 'handles') {
  parentPort!.postMessage([getSharedCaptureStream(device).handle, getSharedGraphPool(device).handle]);
  Atomics.wait(words, 0, 0);
} else if (task === 'hold') {
  onCaptureStream(device, getSharedGraphPool(device), (stream) => {
    stream.beginCapture();
    here();
    stream.endCapture().close();
  });
} else {
  // Every thread leaves its own number in the same temporary, and reads it back through others.
  const sum = device.allocate({ shape: [256] });
  const wrapper = new FullGraphWrapper(
    (_, { stream, pool }) => {
      const temporary = pool.allocate({ shape: [256] });
      stream.fill(temporary, value);
      for (let i = 0; i < 4; i++) stream.launch('axpby', { tensors: [sum, temporary], wholes: [256], reals: [1, 1] });
    },
    { device, warmupSteps: 3, useSingleMempool: true },
  );
  const options = { model: null, dataIterator: null, numMicrobatches: 1, seqLength: 1, forwardOnly: false };
  for (let i = 0; i < runs; i++) wrapper.run(options);
  const own = getGraphPool(device, false);
  own.close();
  parentPort!.postMessage([...new Set((await sum.toArray()) as Float32Array)]);
  wrapper.close();
  sum.close();
}
device.close();
