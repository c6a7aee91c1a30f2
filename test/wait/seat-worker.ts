/** Takes a bell of a board, gives it back if it is told so, and stays until it is ended. */
import { BellBoard } from '../../src/shm/bell.ts';
import { givenTask, say } from '../rig/test-thread.ts';

export interface Seat {
  words: Int32Array;
  count: number;
  /** give it back at once, and say so */
  giveBack: boolean;
}

const { words, count, giveBack } = givenTask<Seat>();
const board = new BellBoard(words, count);
const bell = board.claim();
if (bell && giveBack) board.release(bell);
say(bell?.index ?? null);
setInterval(() => {}, 1000);
