/** The state of the modelled handle table, byte by byte. */
import type { State } from './checker.ts';

/**
 * The entry's word in three parts, the number of its object, how often the entry is free, and the
 * owner of the lock.
 */
export const [GENERATION, FLAGS, PINS, OBJECT, FREE, LOCK] = [0, 1, 2, 3, 4, 5] as const;
/**
 * The newest handle; the objects that were destroyed, a bit for each; the number of objects added.
 */
export const [NEWEST, GONE, ADDED] = [6, 7, 8] as const;
export const [OPEN, CLOSING, RETIRED] = [1, 2, 4] as const;
/**
 * Bytes of each thread: its step, its handle, the word that it saw or the object that it took, and
 * how often it pinned.
 */
export const THREAD = 12;
export const [STEP, HANDLE, SEEN, HAS] = [0, 1, 2, 3] as const;

export const at = (state: State, index: number) => state[index] as number;
export const own = (thread: number, what: number) => THREAD + 4 * thread + what;

/** Returns the entry's word as one number. */
export const word = (state: State) =>
  at(state, GENERATION) * 64 + at(state, PINS) * 8 + at(state, FLAGS);
export const flags = (seen: number) => seen & 7;
export const pins = (seen: number) => (seen >> 3) & 7;
export const generation = (seen: number) => seen >> 6;

export function lock(state: State, thread: number): boolean {
  if (at(state, LOCK) !== 0) return false;
  state[LOCK] = thread + 1;
  return true;
}

/**
 * Runs `act` if the word still equals `seen`, and returns whether it did. With `twoSteps`, which is
 * broken, it does not compare and first stores `seen` back.
 */
export function compareAndSet(
  state: State,
  seen: number,
  act: () => void,
  twoSteps: boolean,
): boolean {
  if (!twoSteps && word(state) !== seen) return false;
  if (twoSteps)
    [state[GENERATION], state[PINS], state[FLAGS]] = [generation(seen), pins(seen), flags(seen)];
  act();
  return true;
}
