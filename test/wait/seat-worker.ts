/** Claims a bell of a board, releases it if told to, and runs until it is terminated. */
import { BellBoard } from '../../src/shm/bell.ts';
import { givenTask, say } from '../rig/test-thread.ts';

export interface Seat {
  words: Int32Array;
  count: number;
  /** whether it releases the bell at once */
  giveBack: boolean;
}

const { words, count, giveBack } = givenTask<Seat>();
const board = new BellBoard(words, count);
const bell = board.claim();
if (bell && giveBack) board.release(bell);
say(bell?.index ?? null);
setInterval(() => {}, 1000);
