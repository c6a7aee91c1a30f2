/**
 * One state of a modelled lane, byte by byte, and the stores that a load may find. A load may find
 * any store that its thread does not know to be overwritten. So a late store may be seen early, and
 * an early store late. A thread knows up to which store, in the writers' order, it has acquired,
 * and which store of each word it found last. That is C++'s memory model, except that no store
 * moves ahead of a load. No writer of a lane could do that, because a writer loads nothing that
 * others store.
 */
import type { State } from './checker.ts';
import { At, type Life } from './lanes-writer.ts';

/** number of stores made, and 1 + the number of stores after which the writer died (0: it lives) */
export const STORED = 0;
export const DIED = 1;
/** each store of the floor: its value, and the view that it brings; then their number */
export const FLOOR = 2;
export const FLOOR_BRINGS = 4;
export const FLOORS = 6;
/**
 * of each clearing thread: the committed count that it found, and the view that came with the count
 */
export const CLEARER = 8;
/**
 * Of the reader. `VIEW`: the store up to which it has acquired. `UNFENCED`: the store that a fence
 * would add. `FOUND`: the stores of begun, committed and floor that it found last.
 */
export const VIEW = 12;
export const UNFENCED = 13;
const FOUND = 14;
/**
 * what the reader keeps between looks, as in native/rows/drawable.hpp; the list has a bit for each
 * place
 */
export const SEEN_FROM = 17;
export const SEEN_TO = 18;
export const START = 19;
export const PENDING = 20;
export const RUNNING = 21;
export const LIST = 22;
/** the span and the counter that the reader works with now */
export const NOW_FROM = 24;
export const NOW_TO = 25;
export const COUNTER = 26;
/** whether the reader has read something that is not what it should be */
export const WRONG = 27;
export const KEPT = 28;
export const ROW = 29;
export const LOWEST = 30;
export const STEPS = 31;
export const FIRST = 32;
/** number of places that a list has bits for */
export const MAX_PLACES = 16;

export type Order = 'acquire' | 'relaxed';

/**
 * Returns the number of the store that a load finds. It is the `choice`-th, newest first, of the
 * stores that the thread may find. −1 means that there is none.
 */
function findable(state: State, life: Life, at: number, least: number, choice: number): number {
  let skipped = 0;
  for (let i = state[STORED]!; i > 0; i--) {
    if (life.stores[i - 1]!.at !== at) continue;
    if (i < least) return -1;
    if (skipped++ === choice) return i;
    if (i <= state[VIEW]!) return -1;
  }
  return least === 0 && skipped === choice ? 0 : -1;
}

/** Makes the reader load a word or a place. Returns the value, or −1 if `choice` finds no store. */
export function load(state: State, life: Life, at: number, order: Order, choice: number): number {
  // Bytes are copied without order: two copies need not agree on what they see.
  const found = at === At.begun || at === At.committed ? FOUND + at : -1;
  const i = findable(state, life, at, found < 0 ? 0 : state[found]!, choice);
  if (i < 0) return -1;
  if (found >= 0) state[found] = i;
  if (i === 0) return 0;
  const { brings, value } = life.stores[i - 1]!;
  learn(state, brings, order);
  return value;
}

/** Does the same for the floor, which the clearing threads store. */
export function loadFloor(state: State, choice: number): number {
  const i = state[FLOORS]! - choice;
  if (i < state[FOUND + 2]!) return -1;
  state[FOUND + 2] = i;
  if (i === 0) return 0;
  learn(state, state[FLOOR_BRINGS + i - 1]!, 'acquire');
  return state[FLOOR + i - 1]!;
}

function learn(state: State, brings: number, order: Order): void {
  const known = order === 'acquire' ? VIEW : UNFENCED;
  state[known] = Math.max(state[known]!, brings);
  if (state[UNFENCED]! <= state[VIEW]!) state[UNFENCED] = 0;
}

/** Makes the reader acquire what it loaded before. */
export function fence(state: State): void {
  state[VIEW] = Math.max(state[VIEW]!, state[UNFENCED]!);
  state[UNFENCED] = 0;
}

/** Makes the reader acquire everything: the writers have ended, and it has heard of that. */
export function join(state: State): void {
  state[VIEW] = state[STORED]!;
  state[UNFENCED] = 0;
  state[FOUND + 2] = state[FLOORS]!;
}

export function list(state: State): number[] {
  const bits = state[LIST]! | (state[LIST + 1]! << 8);
  return Array.from({ length: MAX_PLACES }, (_, place) => place).filter(
    (place) => bits & (1 << place),
  );
}
export function put(state: State, place: number, there: boolean): void {
  const at = LIST + (place >> 3);
  const bit = 1 << (place & 7);
  state[at] = there ? state[at]! | bit : state[at]! & ~bit;
}
