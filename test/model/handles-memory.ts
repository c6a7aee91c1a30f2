/** The words of the modelled handle table, byte by byte. */
import type { State } from './checker.ts';

/**
 * The word in three parts, the object by its number, how often the entry is free, who has the lock.
 */
export const [GENERATION, FLAGS, PINS, OBJECT, FREE, LOCK] = [0, 1, 2, 3, 4, 5] as const;
/** The newest handle; objects that went, a bit each; objects that were added. */
export const [NEWEST, GONE, ADDED] = [6, 7, 8] as const;
export const [OPEN, CLOSING, RETIRED] = [1, 2, 4] as const;
/**
 * Of each thread: its step, its handle, the word it saw or the object it took, and how often it
 * pinned.
 */
export const THREAD = 12;
export const [STEP, HANDLE, SEEN, HAS] = [0, 1, 2, 3] as const;

export const at = (state: State, index: number) => state[index] as number;
export const own = (thread: number, what: number) => THREAD + 4 * thread + what;

/** The word as threads see it, in one number. */
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

/** `twoSteps`: broken, the word is stored as it was seen. */
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
