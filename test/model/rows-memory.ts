/**
 * One state of the modelled replay rows, byte by byte, and the store at which the rules are
 * checked.
 */
import { type State, Violation } from './checker.ts';

/**
 * Words: reserved and committed. For each place of the board: its turn (0 free, 255 held, else
 * begin + 1) and its end. Then rows and threads.
 */
export const RESERVED = 0;
export const COMMITTED = 1;
export const BOARD = 2;
const MAX_PLACES = 2;
export const ROWS = BOARD + 2 * MAX_PLACES;
const MAX_ROWS = 3;
/**
 * Bytes of a thread: its step, the number of its add(), begin, end, the word it loaded, and its
 * place of the board.
 */
export const THREAD = ROWS + MAX_ROWS;
export const T = { at: 0, add: 1, begin: 2, end: 3, saw: 4, place: 5 } as const;
export const THREAD_BYTES = 6;
export const HELD = 255;
export const NOTHING = 255;
/** What a row contains: 2 × its number + 1 while it is written, + 2 when it is whole. */
export const writing = (row: number) => 2 * row + 1;
export const whole = (row: number) => 2 * row + 2;

/** Stores `committed`, and checks Rows-1 and Rows-3. */
export function commit(state: State, begin: number, end: number, capacity: number): void {
  if (state[COMMITTED] !== begin)
    throw new Violation(
      'Rows-3',
      `committed goes from ${state[COMMITTED]} to ${end}, not from ${begin}`,
    );
  if (end <= begin || end > state[RESERVED]!)
    throw new Violation('Rows-3', `committed goes from ${begin} to ${end}`);
  for (let row = begin; row < end; row++) {
    const holds = state[ROWS + (row % capacity)]!;
    // A later lap may begin to overwrite the row only after this commit.
    if (holds !== whole(row))
      throw new Violation('Rows-1', `row ${row} is committed, and its place holds ${holds}`);
  }
  state[COMMITTED] = end;
}
