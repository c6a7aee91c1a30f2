/**
 * One state of the modelled updates of priorities, byte by byte: the slots' words are the ring's,
 * beside them lies what an update goes through, and the tree. The helpers are the only writers of
 * the tree, and check the rules as they write.
 */
import { type State, Violation } from './checker.ts';
import { isAt, own, position, Slot } from './memory.ts';
import type { Program } from './program.ts';

/**
 * Per slot (depth ≤ 3): the run that asked for it, 1 + the sequence whose ids lie in the host
 * buffer, and four blocks of priorities.
 */
export const RECORD = 3;
export const IDS = 6;
/**
 * the column that goes to the device with the rows, the device's, what the device wrote home, and
 * what poll fetched from there
 */
export const COLUMN = 9;
export const DEVICE = 12;
export const HOME = 20;
export const BLOCK = 23;
/** see Mode; the run under way; whether the requester has answered the pause */
export const MODE = 15;
export const RUN = 16;
export const ANSWERED = 50;
/** pack's own: a batch is half made, and for which run */
export const HALF = 18;
/** whether anything can be drawn */
export const FILLED = 51;
/** updates that are in the tree, and those that it says are */
export const TREE = 26;
export const APPLIED = 27;

export const Mode = { manual: 0, run: 1, paused: 2 } as const;

/** A block of priorities: 0 as it was made, else a sequence's, not written or written. */
export const unwritten = (sequence: number): number => 2 * sequence + 2;
export const written = (sequence: number): number => 2 * sequence + 3;

/** Rings the bell of a thread. */
export type Rings = (to: Program) => void;

/** One access to shared memory that always goes on to the next step. */
export function step(by: Program, says: string, act: (state: State) => void): void {
  by.step(says, (state, next) => {
    act(state);
    return next;
  });
}

export interface Updates {
  readonly depth: number;
  /** sequences whose update gives no priorities */
  readonly silent?: readonly number[];
  /** sequences of manual ticks: the caller's own work gives the priorities */
  readonly manual?: readonly number[];
}

/**
 * The update of a sequence, into the tree: once, in order, of that sequence's ids and what its
 * update gave, all of it home.
 */
export function apply(state: State, { depth, silent = [] }: Updates, sequence: number): void {
  const slot = sequence % depth;
  if (state[TREE]! > sequence)
    throw new Violation('twice', `the update of ${sequence} is applied again`);
  if (state[TREE]! < sequence)
    throw new Violation('order', `the update of ${sequence} comes before ${state[TREE]}'s`);
  if (state[IDS + slot] !== sequence + 1)
    throw new Violation(
      'home',
      `the update of ${sequence} is applied to the ids of ${state[IDS + slot]! - 1}`,
    );
  const gave = silent.includes(sequence) ? unwritten(sequence) : written(sequence);
  if (state[BLOCK + slot] !== gave)
    throw new Violation('home', `the priorities of ${sequence} are not home`);
  state[TREE] = sequence + 1;
}

/** Draws `sequence`: from exactly the updates of the sequences up to the one `depth` before. */
export function draw(state: State, { depth }: Updates, sequence: number): void {
  own(state, depth, sequence, Slot.requested, 'the batch');
  const least = Math.max(0, sequence - depth + 1);
  if (state[TREE] !== least)
    throw new Violation('lag', `${sequence} is drawn behind ${state[TREE]} updates`);
  if (state[RECORD + (sequence % depth)] !== state[RUN])
    throw new Violation('Slot-3', `${sequence} is drawn for a run that is over`);
  state[IDS + (sequence % depth)] = sequence + 1;
}

/** The batch is whole: its first half was made for the same request. */
export function checkHalf(state: State, depth: number, sequence: number): void {
  own(state, depth, sequence, Slot.requested, 'the batch');
  if (state[HALF] !== state[RECORD + (sequence % depth)])
    throw new Violation('Slot-3', `half of ${sequence}'s batch was made for another request`);
}

/** Requested → Free: no later sequence may be asked for, and the slot keeps its own. */
export function takeBack(state: State, depth: number, sequence: number, to = sequence): void {
  own(state, depth, sequence, Slot.requested, 'the word');
  if (position(state, depth, Slot.free) !== sequence + 1)
    throw new Violation('Slot-3', `${sequence} is taken back, and a later one is not`);
  state[sequence % depth] = to * 8 + Slot.free;
}

/** The newest request that is not packed yet, and the oldest; or −1. */
export function newest(state: State, depth: number): number {
  return requested(state, depth, position(state, depth, Slot.free) - 1);
}
export function oldest(state: State, depth: number): number {
  return requested(state, depth, position(state, depth, Slot.requested));
}
function requested(state: State, depth: number, sequence: number): number {
  return sequence >= 0 && isAt(state, depth, sequence, Slot.requested) ? sequence : -1;
}

/**
 * What close() finds: the sequences whose slots their update has left, or is to leave once the
 * device is drained.
 */
export function spent(
  state: State,
  depth: number,
  freeAlone: boolean,
): { sequence: number; replaying: boolean }[] {
  return Array.from({ length: depth }, (_, slot) => {
    const [sequence, at] = [state[slot]! >> 3, state[slot]! & 7];
    const replaying = at === Slot.replaying;
    const left = freeAlone && at === Slot.requested;
    return { sequence: left ? -1 : replaying ? sequence : sequence - depth, replaying };
  }).sort((a, b) => a.sequence - b.sequence);
}
