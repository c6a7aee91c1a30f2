/** A second thread that uses a device's shared capture stream and graph pool. */

import { onCaptureStream } from '../../src/device/graph/shared.ts';
import {
  FullGraphWrapper,
  getGraphPool,
  getSharedCaptureStream,
  getSharedGraphPool,
} from '../../src/entries/graph.ts';
import { openDevice } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

export interface Sharing {
  task: 'handles' | 'hold' | 'run';
  name: string;
  /** word 0: 1 when this thread may continue */
  words: Int32Array;
  value?: number;
  runs?: number;
}

const { task, name, words, value = 0, runs = 0 } = givenTask<Sharing>();
const device = openDevice(name);

const tasks = {
  /** Reports the shared handles, and keeps the device open until it may continue. */
  handles() {
    say([getSharedCaptureStream(device).handle, getSharedGraphPool(device).handle]);
    Atomics.wait(words, 0, 0);
  },
  /** Stays within a capture until it may continue. */
  hold() {
    onCaptureStream(device, getSharedGraphPool(device), (stream) => {
      stream.beginCapture();
      say('capturing');
      Atomics.wait(words, 0, 0);
      stream.endCapture().close();
    });
  },
  /**
   * Each thread writes its own value to the same temporary, and reads it back in the same graph.
   * Without the shared stream's order, another thread could overwrite the temporary in between.
   */
  async run() {
    using sum = device.allocate({ shape: [256] });
    using wrapper = new FullGraphWrapper(
      (_, { stream, pool }) => {
        const temporary = pool.allocate({ shape: [256] });
        stream.fill(temporary, value);
        for (let i = 0; i < 4; i++)
          stream.launch('axpby', { tensors: [sum, temporary], wholes: [256], reals: [1, 1] });
      },
      { device, warmupSteps: 3, useSingleMempool: true },
    );
    const options = {
      model: null,
      dataIterator: null,
      numMicrobatches: 1,
      seqLength: 1,
      forwardOnly: false,
    };
    for (let i = 0; i < runs; i++) wrapper.run(options);
    getGraphPool(device, false).close();
    return [...new Set(await sum.toArray())];
  },
};

await perform(tasks[task]);
device.close();
