/**
 * Answers each odd turn with the next even one. It parks on bell 1 until the odd turn arrives,
 * either in JavaScript or in poll.node.
 */
import { openDevice } from '../../src/device/open.ts';
import { newPoller } from '../../src/device/transfer/native.ts';
import { BELL_WORDS, Bell } from '../../src/shm/bell.ts';
import { givenTask, perform } from '../rig/test-thread.ts';

export interface Answering {
  words: Int32Array;
  rounds: number;
  sleeper: 'javascript' | 'native';
}

const { words, rounds, sleeper } = givenTask<Answering>();
const [theirs, mine, turn] = [new Bell(words, 0), new Bell(words, 1), 2 * BELL_WORDS];
const poller =
  sleeper === 'native'
    ? newPoller({
        device: openDevice('host:0').handle,
        events: [],
        watch: new Int32Array(1),
        times: new Float64Array(1),
        bell: mine.words,
        sleepNs: 15_000_000_000,
        spinNs: 0,
      })
    : null;

await perform(() => {
  for (let round = 1; round <= rounds; round++) {
    for (;;) {
      const seen = mine.read();
      if (Atomics.load(words, turn) === 2 * round - 1) break;
      if (poller) poller.wait(seen, 50);
      else if (!mine.park(seen, 15_000)) throw new Error('a wake was lost');
    }
    Atomics.store(words, turn, 2 * round);
    theirs.ring();
  }
  poller?.close();
});
