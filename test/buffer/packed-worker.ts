/**
 * A thread that adds numbered packed rows for ever, a few at a time, starting at the buffer's mark.
 */
import { ReplayBuffer, type SharedReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

export interface PackedTask {
  shared: SharedReplayBuffer;
  words: BigUint64Array;
}

const { shared, words } = givenTask<PackedTask>();

await perform(() => {
  const buffer = ReplayBuffer.attach(shared);
  say('ready');
  for (let rows = 1; ; rows = (rows % 9) + 1) {
    const from = Number(Atomics.load(words, 0));
    const numbers = BigInt64Array.from({ length: rows }, (_, i) => BigInt(from + i));
    buffer.addPacked(new Uint8Array(numbers.buffer), rows, { words, index: 0, value: from + rows });
  }
});
