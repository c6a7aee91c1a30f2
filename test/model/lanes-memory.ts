/**
 * One state of a modelled lane, byte by byte, and what a load may find in it. A load finds any
 * store that its thread does not know to be overwritten: what is stored later may be seen early,
 * and what was stored long ago may be seen late. What a thread knows is how far in the writers'
 * order of stores it has acquired, and which store of each word it found last. That is C++'s memory
 * model without stores that travel ahead of loads, which no writer here could do: it loads nothing
 * that others store.
 */
import type { State } from './checker.ts';
import { At, type Life } from './lanes-writer.ts';

/** stores made so far, and 1 + those behind which the writer died */
export const STORED = 0;
export const DIED = 1;
/** each store of the floor: its value, and what it brings; how many there are */
export const FLOOR = 2;
export const FLOOR_BRINGS = 4;
export const FLOORS = 6;
/** the threads that clear: the committed count found, and what it brought */
export const CLEARER = 8;
/**
 * of the reader: the store up to which it has acquired, and what a fence would bring; the stores
 * found last of begun, committed, floor
 */
export const VIEW = 12;
export const UNFENCED = 13;
const FOUND = 14;
/** what it keeps: see native/rows/drawable.hpp; the list is a bit for each place */
export const SEEN_FROM = 17;
export const SEEN_TO = 18;
export const START = 19;
export const PENDING = 20;
export const RUNNING = 21;
export const LIST = 22;
/** what it has in hand */
export const NOW_FROM = 24;
export const NOW_TO = 25;
export const COUNTER = 26;
/** something was read that is not what it should be */
export const WRONG = 27;
export const KEPT = 28;
export const ROW = 29;
export const LOWEST = 30;
export const STEPS = 31;
export const FIRST = 32;
/** that a list has bits for */
export const MAX_PLACES = 16;

export type Order = 'acquire' | 'relaxed';

/**
 * The number of the store that a load finds, as its thread's `choice` among those that it may find,
 * newest first; −1: none is left.
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

/** The reader loads a word or a place: what it finds, or −1. */
export function load(state: State, life: Life, at: number, order: Order, choice: number): number {
  // Bytes are copied anyhow: nothing says that one copy sees what another saw.
  const found = at === At.begun || at === At.committed ? FOUND + at : -1;
  const i = findable(state, life, at, found < 0 ? 0 : state[found]!, choice);
  if (i < 0) return -1;
  if (found >= 0) state[found] = i;
  if (i === 0) return 0;
  const { brings, value } = life.stores[i - 1]!;
  learn(state, brings, order);
  return value;
}

/** The same for the floor, which others store. */
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

/** What was loaded before is from now on as if acquired. */
export function fence(state: State): void {
  state[VIEW] = Math.max(state[VIEW]!, state[UNFENCED]!);
  state[UNFENCED] = 0;
}

/** The writers have ended, and the reader has heard of it from each. */
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
