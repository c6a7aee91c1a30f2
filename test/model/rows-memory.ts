/**
 * One state of the modelled replay rows, byte by byte, and the one store that its rules are looked
 * at in.
 */
import { type State, Violation } from './checker.ts';

/**
 * Words: reserved, committed; of each place of the board its turn (0 free, 255 held, else begin +
 * 1) and end; rows; threads.
 */
export const RESERVED = 0;
export const COMMITTED = 1;
export const BOARD = 2;
const MAX_PLACES = 2;
export const ROWS = BOARD + 2 * MAX_PLACES;
const MAX_ROWS = 3;
/** Of a thread: its step, add(), begin, end, what it looked at, the place of the board it is at. */
export const THREAD = ROWS + MAX_ROWS;
export const T = { at: 0, add: 1, begin: 2, end: 3, saw: 4, place: 5 } as const;
export const THREAD_BYTES = 6;
export const HELD = 255;
export const NOTHING = 255;
/** What a row holds: 2 × its number + 1 while it is written, + 2 when it is whole. */
export const writing = (row: number) => 2 * row + 1;
export const whole = (row: number) => 2 * row + 2;

/** Moves committed, and looks at Rows-1 and Rows-3. */
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
    // A later lap may be on it already only behind this commit.
    if (holds !== whole(row))
      throw new Violation('Rows-1', `row ${row} is committed, and its place holds ${holds}`);
  }
  state[COMMITTED] = end;
}
