/**
 * One state of the modelled ring, byte by byte: what threads share, what the device holds, and each
 * agent's next step. Only these helpers write slots and streams, and they check the invariants as
 * they write.
 */
import { type State, Violation } from './checker.ts';

/** The states of a slot, as in `src/engine/ring/slot.ts`. */
export const Slot = {
  free: 0,
  requested: 1,
  packed: 2,
  submitted: 3,
  ready: 4,
  replaying: 5,
} as const;
export type SlotState = (typeof Slot)[keyof typeof Slot];
const NAMES = ['Free', 'Requested', 'Packed', 'Submitted', 'Ready', 'Replaying'];

/**
 * For each slot (depth ≤ 3): its word. `RECORD`, `HOST` and `DEVICE` are 1 + the sequence in the
 * record, the host buffer and the device buffer.
 */
const WORD = 0;
export const RECORD = 3;
export const HOST = 6;
export const DEVICE = 9;
/** sequence + 1 that the newest finished graph stored as its mark */
export const MARK = 12;
/** a bit for each sequence: its update was applied; its record is in the journal */
export const APPLIED = 13;
export const JOURNAL = 14;
/** the request that `startPrepare` left: its tick + 1 */
export const HEADER = 15;
/** number of requests that the rate limiter admits by now */
export const ROWS = 16;
/** 1 once the stop word is stored */
export const STOP = 17;
/** 1 while the client waits and must be rung */
export const GOAL = 18;
/** 1 once a thread has died */
export const DIED = 19;
/** The two device streams: their operations in order, 0 if there is none. */
export const COPY_STREAM = 20;
export const COMPUTE_STREAM = 28;
const STREAM_LENGTH = 8;
/** Each agent's next step. */
export const PLACE = 36;
/** Each thread's bell, and the locals that outlive a step (see `Local`). */
export const BELL = 45;
export const WIDTH = 52;

/**
 * The bits of a bell byte. A count is only compared with the value that the bell's owner read last.
 * So one bit, `moved`, is enough: whether the count has changed since. `did`, `pending` and `skip`
 * are the owner's locals.
 */
export const Local = { flag: 3, moved: 4, did: 8, pending: 16, skip: 32 } as const;

/** Agents by index: up to four threads, then these. Only the first five agents have bells. */
export const Agent = { client: 4, stopper: 5, copy: 6, compute: 7, collector: 8 } as const;
export const AGENTS = 9;

/** Makes every slot Free, with the slot's own number as its first sequence. */
export function initSlots(state: State, depth: number): void {
  for (let slot = 0; slot < depth; slot++) state[WORD + slot] = slot * 8;
}

/**
 * Returns the lowest sequence that has not passed the role which hands on from `from`. Only that
 * role can change it. So it does not matter whether the actor stores it in a local or reads it from
 * the slots' words.
 */
export function position(state: State, depth: number, from: SlotState): number {
  let lowest = 255;
  for (let slot = 0; slot < depth; slot++) {
    const word = state[WORD + slot]!;
    const next = (word & 7) <= from ? word >> 3 : (word >> 3) + depth;
    if (next < lowest) lowest = next;
  }
  return lowest;
}

export function isAt(state: State, depth: number, sequence: number, at: SlotState): boolean {
  return state[WORD + (sequence % depth)] === sequence * 8 + at;
}

/** Slot-1: throws unless the slot's owner touches the payload. */
export function own(
  state: State,
  depth: number,
  sequence: number,
  as: SlotState,
  what: string,
): void {
  if (!isAt(state, depth, sequence, as)) {
    throw new Violation(
      'Slot-1',
      `${what} of ${sequence} is touched while its slot is ${slotName(state, depth, sequence)}`,
    );
  }
}

/**
 * Stores the word that hands a slot on. The slot must still be in state `from` (Slot-1), and it
 * must be the turn of this sequence (Slot-3).
 */
export function handOn(state: State, depth: number, sequence: number, from: SlotState): void {
  own(state, depth, sequence, from, `the word`);
  if (position(state, depth, from) !== sequence) {
    throw new Violation(
      'Slot-3',
      `${sequence} leaves ${NAMES[from]} before ${position(state, depth, from)}`,
    );
  }
  const next = from === Slot.replaying ? (sequence + depth) * 8 : sequence * 8 + from + 1;
  state[WORD + (sequence % depth)] = next;
}

function slotName(state: State, depth: number, sequence: number): string {
  const word = state[WORD + (sequence % depth)]!;
  return `${NAMES[word & 7]}(${word >> 3})`;
}

/**
 * Operations on a stream: the copy or the graph of a sequence, and the event that is recorded after
 * it.
 */
export function work(sequence: number): number {
  return sequence * 2 + 1;
}
export function event(sequence: number): number {
  return sequence * 2 + 2;
}

export function enqueue(state: State, stream: number, operation: number): void {
  for (let i = 0; i < STREAM_LENGTH; i++) {
    if (state[stream + i] !== 0) continue;
    state[stream + i] = operation;
    return;
  }
  throw new Error('STREAM_LENGTH is too short for this setup');
}

export function dequeue(state: State, stream: number): void {
  state.copyWithin(stream, stream + 1, stream + STREAM_LENGTH);
  state[stream + STREAM_LENGTH - 1] = 0;
}

/**
 * Whether the stream still has an operation of the sequence's slot: a copy or graph (`kind` 1), or
 * an event record (`kind` 0).
 */
export function queued(
  state: State,
  depth: number,
  stream: number,
  sequence: number,
  kind: 0 | 1,
): boolean {
  for (let i = 0; i < STREAM_LENGTH; i++) {
    const operation = state[stream + i]!;
    if (operation === 0) return false;
    if ((operation & 1) === kind && (((operation - 1) >> 1) - sequence) % depth === 0) return true;
  }
  return false;
}

export function isIdle(state: State, stream: number): boolean {
  return state[stream] === 0;
}

/** Describes the slots, for traces. */
export function slotsInWords(state: State, depth: number): string {
  return Array.from({ length: depth }, (_, slot) => slotName(state, depth, slot)).join(' ');
}
