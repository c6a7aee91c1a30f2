/**
 * One state of the modelled priority updates, byte by byte. The slots' words are those of the ring
 * (memory.ts). The other bytes are what an update passes through, and the tree. Only these helpers
 * write the tree, and they check the rules as they write.
 */
import { type State, Violation } from './checker.ts';
import { isAt, own, position, Slot } from './memory.ts';
import type { Program } from './program.ts';

/**
 * For each slot (depth ≤ 3). `RECORD`: the run that requested it. `IDS`: 1 + the sequence whose ids
 * are in the host buffer. Then four blocks of priorities.
 */
export const RECORD = 3;
export const IDS = 6;
/**
 * `COLUMN`: the column that goes to the device with the rows. `DEVICE`: the device's column.
 * `HOME`: its copy in host memory. `BLOCK`: what poll fetched from that copy.
 */
export const COLUMN = 9;
export const DEVICE = 12;
export const HOME = 20;
export const BLOCK = 23;
/** see Mode; the current run; whether the requester has answered the pause */
export const MODE = 15;
export const RUN = 16;
export const ANSWERED = 50;
/** of pack: the run whose batch is half made, or 0 */
export const HALF = 18;
/** whether any step can be drawn */
export const FILLED = 51;
/** number of updates in the tree, and the number that the tree reports as applied */
export const TREE = 26;
export const APPLIED = 27;

export const Mode = { manual: 0, run: 1, paused: 2 } as const;

/**
 * A block of priorities is 0 initially. Otherwise it belongs to a sequence, whose update has
 * written it or not.
 */
export const unwritten = (sequence: number): number => 2 * sequence + 2;
export const written = (sequence: number): number => 2 * sequence + 3;

/** Rings the bell of a thread. */
export type Rings = (to: Program) => void;

/** Emits one access to shared memory that always continues with the next step. */
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
  /** sequences of manual ticks, whose priorities come from the caller's own work */
  readonly manual?: readonly number[];
}

/**
 * Applies the update of a sequence to the tree. Throws unless it comes once, in order, to the ids
 * of that sequence, and after its priorities are in host memory.
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

/**
 * Draws `sequence`. Throws unless the tree has exactly the updates of the sequences up to
 * `sequence − depth`.
 */
export function draw(state: State, { depth }: Updates, sequence: number): void {
  own(state, depth, sequence, Slot.requested, 'the batch');
  const least = Math.max(0, sequence - depth + 1);
  if (state[TREE] !== least)
    throw new Violation('lag', `${sequence} is drawn behind ${state[TREE]} updates`);
  if (state[RECORD + (sequence % depth)] !== state[RUN])
    throw new Violation('Slot-3', `${sequence} is drawn for a run that is over`);
  state[IDS + (sequence % depth)] = sequence + 1;
}

/** Throws unless the first half of the batch was made for the same request. */
export function checkHalf(state: State, depth: number, sequence: number): void {
  own(state, depth, sequence, Slot.requested, 'the batch');
  if (state[HALF] !== state[RECORD + (sequence % depth)])
    throw new Violation('Slot-3', `half of ${sequence}'s batch was made for another request`);
}

/**
 * Returns a slot from Requested to Free. No later sequence may be requested, and the slot keeps its
 * sequence.
 */
export function takeBack(state: State, depth: number, sequence: number, to = sequence): void {
  own(state, depth, sequence, Slot.requested, 'the word');
  if (position(state, depth, Slot.free) !== sequence + 1)
    throw new Violation('Slot-3', `${sequence} is taken back, and a later one is not`);
  state[sequence % depth] = to * 8 + Slot.free;
}

/** Return the newest or the oldest request that is not packed yet, or −1. */
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
 * Returns what close() finds: the sequence of each slot whose update is done, or will be once the
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
