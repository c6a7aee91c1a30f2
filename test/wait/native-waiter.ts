/**
 * A worker that blocks in native code, because the test's thread holds a stream. It reports when it
 * is about to sleep.
 */

import { onCaptureStream } from '../../src/device/graph/shared.ts';
import { nativeEvents, nativeGraphs } from '../../src/device/native.ts';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { DeviceSpec, ToDevice } from '../../src/entries/linop.ts';
import { ReplayPipeline, type Tensor } from '../../src/index.ts';
import { decoded, goldenTransformer, repeated } from '../golden/halo.ts';
import { golden } from '../halo/cases.ts';
import { memoryAt, tested } from '../halo/places.ts';
import { filled, SAMPLE } from '../pipeline/fixture.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';

export interface Waiter {
  way: Way;
  /**
   * word 0: 1 when the test's thread holds the stream. Word 1: 1 when this thread sleeps in native
   * code or is about to
   */
  words: Int32Array;
}

const { way, words } = givenTask<Waiter>();

/** Sends a stream to the test's thread, and returns after that thread holds the stream. */
function hold(stream: { handle: number }): void {
  say(stream.handle);
  Atomics.wait(words, 0, 0);
  const [events, graphs] = [nativeEvents(), nativeGraphs()];
  const { waitEvent } = events;
  const { enterCapture } = graphs;
  events.waitEvent = (...given) => {
    Atomics.store(words, 1, 1);
    return waitEvent(...given);
  };
  graphs.enterCapture = (...given) => {
    Atomics.store(words, 1, 1);
    return enterCapture(...given);
  };
}

const ways = {
  synchronizeSync() {
    const [one] = golden as [(typeof golden)[number]];
    const transformer = goldenTransformer(one, TESTED);
    const arrays = repeated(one, memoryAt(TESTED, decoded(one.before[0] as string, one.dtype)));
    hold(tested().currentStream);
    transformer.asyncPack(arrays);
    transformer.synchronizeSync();
  },
  forwardSync() {
    const x: Tensor = tested().allocate({ shape: [8] });
    const op = new ToDevice(new DeviceSpec(tested()), 'cpu');
    hold(tested().currentStream);
    op.forwardSync(x);
  },
  // The test's thread also uses the capture stream.
  onCaptureStream() {
    hold(tested().currentStream);
    onCaptureStream(tested(), null, () => {});
  },
  async closeSync() {
    const made = await ReplayPipeline.open({
      buffer: filled(),
      device: TESTED,
      sampleCount: SAMPLE,
      placement: 'inline',
    });
    hold(internalsOf(made).slots.compute);
    made.closeSync();
  },
};
export type Way = keyof typeof ways;

await perform(ways[way]);
