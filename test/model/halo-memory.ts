/**
 * One state of a modelled halo exchange, byte by byte; the place in its program and the bell of
 * each rank are as for rings.
 */
import { type State, Violation } from './checker.ts';

/**
 * Bytes of a state: two words and two halves of bytes per buffer, then a byte per rank each, then
 * one in all.
 */
export const WORD = 0;
export const DATA = 12;
export const RANK = 24;
/**
 * routes that nothing has arrived over, and 16 × those whose sender was seen to be gone; FAILED,
 * SENT, WRITES
 */
export const LOCAL = 28;
/** the exchange it has under way */
export const NUMBER = 31;
export const NOTE = 34;
export const FAULTS = 35;
export const MAX_BUFFERS = 6;
/**
 * of devices, where there are no more than two buffers: operations in order, 0 where there is none
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

/** One rank's way to one neighbor. */
export interface Route {
  readonly bit: number;
  readonly sender: number;
  readonly outgoing: number;
  readonly incoming: number;
}

/** Whether a look would be worth a sleeper's while. */
export function findsSomething(state: State, rank: number, routes: readonly Route[]): boolean {
  if (state[NOTE] === Note.written) return true;
  return routes.some(({ bit, sender, incoming }) => {
    if (!(state[LOCAL + rank]! & bit)) return false;
    return isGone(state, sender) || holds(state, incoming, state[NUMBER + rank]!);
  });
}

/** Exchange-6: one that failed may yet be explained, unless who writes that down has died. */
export function isGone(state: State, rank: number): boolean {
  if (state[RANK + rank] !== Rank.failed) return state[RANK + rank] !== Rank.open;
  return state[NOTE] === Note.written || (state[FAULTS]! & Fault.death) !== 0;
}

export function holds(state: State, buffer: number, exchange: number): boolean {
  return state[WORD + 2 * buffer] === exchange || state[WORD + 2 * buffer + 1] === exchange;
}

/** Exchange-1: what is read is what was sent, at its first byte and at its last. */
export function checkRead(state: State, half: number, exchange: number): void {
  if (state[DATA + half] !== exchange)
    throw new Violation(
      'Exchange-1',
      `a half that should hold exchange ${exchange} holds ${state[DATA + half]}`,
    );
}

/** An operation on a stream. */
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
