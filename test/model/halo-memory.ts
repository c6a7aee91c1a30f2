/**
 * One state of a modelled halo exchange, byte by byte. Each rank's next step and its bell are
 * stored as in the model of rings.
 */
import { type State, Violation } from './checker.ts';

/**
 * Bytes of a state: two words and two halves of data per buffer, then some bytes per rank, then
 * bytes that exist once.
 */
export const WORD = 0;
export const DATA = 12;
export const RANK = 24;
/**
 * A rank's locals. Bits 0 and 1: routes over which nothing has arrived yet. These bits × 16: routes
 * whose sender was seen to be gone. Then `FAILED`, `SENT` and `WRITES`.
 */
export const LOCAL = 28;
/** the exchange that the rank has in progress */
export const NUMBER = 31;
export const NOTE = 34;
export const FAULTS = 35;
export const MAX_BUFFERS = 6;
/**
 * streams of devices, in setups with at most two buffers: operations in order, 0 where a stream has
 * none
 */
export const STREAM = [4, 16] as const;
export const SIDE_STREAM = [8, 20] as const;
export const STREAM_LENGTH = 4;

export const Rank = { open: 0, closed: 1, failed: 2, lost: 3 } as const;
export const Note = { none: 0, writing: 1, written: 2 } as const;
export const Fault = { close: 1, failure: 2, death: 4, missed: 8 } as const;
export const FAILED = 4;
export const SENT = 64;
export const WRITES = 128;

/** One rank's connection to one neighbor. */
export interface Route {
  readonly bit: number;
  readonly sender: number;
  readonly outgoing: number;
  readonly incoming: number;
}

/** Whether a sleeping rank that looked now would find something. */
export function findsSomething(state: State, rank: number, routes: readonly Route[]): boolean {
  if (state[NOTE] === Note.written) return true;
  return routes.some(({ bit, sender, incoming }) => {
    if (!(state[LOCAL + rank]! & bit)) return false;
    return isGone(state, sender) || holds(state, incoming, state[NUMBER + rank]!);
  });
}

/**
 * Exchange-6: a failed rank counts as gone only once its failure is written down, or the thread
 * that writes it has died.
 */
export function isGone(state: State, rank: number): boolean {
  if (state[RANK + rank] !== Rank.failed) return state[RANK + rank] !== Rank.open;
  return state[NOTE] === Note.written || (state[FAULTS]! & Fault.death) !== 0;
}

export function holds(state: State, buffer: number, exchange: number): boolean {
  return state[WORD + 2 * buffer] === exchange || state[WORD + 2 * buffer + 1] === exchange;
}

/**
 * Exchange-1: checks that the reader finds the bytes that were sent. The model reads at the first
 * and at the last byte.
 */
export function checkRead(state: State, half: number, exchange: number): void {
  if (state[DATA + half] !== exchange)
    throw new Violation(
      'Exchange-1',
      `a half that should hold exchange ${exchange} holds ${state[DATA + half]}`,
    );
}

/** Returns the number of an operation on a stream. */
export function packing(exchange: number): number {
  return exchange * 2;
}
export function unpacking(exchange: number): number {
  return exchange * 2 + 1;
}

export function enqueue(state: State, on: number, operation: number): void {
  for (let i = 0; i < STREAM_LENGTH; i++) {
    if (state[on + i] !== 0) continue;
    state[on + i] = operation;
    return;
  }
  throw new Error('STREAM_LENGTH is too short for this setup');
}

export function queued(state: State, on: number, operation: number): boolean {
  for (let i = 0; i < STREAM_LENGTH; i++) if (state[on + i] === operation) return true;
  return false;
}
