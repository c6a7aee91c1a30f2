/**
 * One state of the modelled link, byte by byte: the hosts' bytes, the server's, the learner's and
 * the oracle's. A message is one row, or none for HELLO. The helpers check the rules as they write.
 */
import { type State, Violation } from './checker.ts';
import type { LinkSetup } from './link.ts';

/** Number of bytes of a host, from `of(host, …)` on. */
const HOST_BYTES = 20;
/**
 * of the host: the rows acknowledged to it, the epoch it believes in, the last nak it has obeyed,
 * and whether HELLO is acknowledged
 */
export const ACKED = 0;
export const EPOCH = 1;
export const NAK = 2;
export const GREETED = 3;
/** messages, a bit for each: to be sent; sent without a reply; sent and refused by a full server */
export const TODO = 4;
export const FLIGHT = 5;
export const REFUSED = 6;
/**
 * `NOTICE`: a notice on its way to the host. `UP`: whether the host is connected. `WAITED`: 1 + the
 * beats counted since its last reply, or 0 before it looked.
 */
export const NOTICE = 7;
export const UP = 8;
export const WAITED = 9;
/** a message that may still reach the server from a lost connection */
export const GHOST = 10;
/** on the server: the acknowledgement of the host, now and in the snapshot */
export const ACK = 11;
export const SAVED_ACK = 12;
/**
 * in the learner's shared memory: 1 + the session's mark (0: no session), its nak, and the rows in
 * the buffer, a bit for each
 */
export const MARK = 13;
export const ASKED = 14;
export const BUFFER = 15;
/** in the learner's checkpoint: the mark and the rows */
export const KEPT_MARK = 16;
export const KEPT_BUFFER = 17;
/**
 * the last acknowledgement of the learner before: a learner that lost its lease may store it again
 */
export const OLD = 18;
/** of the oracle: the rows that any earlier learner had, a bit for each */
export const PAST = 19;
export const of = (host: number, field: number): number => host * HOST_BYTES + field;

/**
 * On the server. `LEASE`, `HEART`: the epochs of the lease and of the heartbeat, or 0. `RUN`:
 * number of the server's run. `SAVED_LEASE`, `SAVED_HEART`: the two epochs in the snapshot.
 */
export const LEASE = 40;
export const HEART = 41;
export const RUN = 42;
export const SAVED_LEASE = 43;
export const SAVED_HEART = 44;
/** 1 + the number of messages in the snapshot; 0: there is no snapshot */
export const SAVED = 45;
export const BROUGHT_BACK = 255;
/**
 * Of the ingest thread. `INGEST_UP`: whether it is connected. `CURSOR`: number of entries before
 * its cursor. `DECIDED`: how many of them are decided. `HELD`: the message that it works on.
 * `PHASE`: the phase of its decision.
 */
export const INGEST_UP = 46;
export const CURSOR = 47;
export const DECIDED = 48;
export const HELD = 49;
export const PHASE = 50;
/**
 * sessions whose acknowledgement is to be stored, a bit for each; whether the look since the last
 * beat is over
 */
export const DIRTY = 51;
export const LOOKED = 52;
/** in shared memory: the server run that the marks belong to; the learner's epoch */
export const RUN_KNOWN = 53;
export const NOW = 54;
/** number of faults and of flaps that have happened; whether there is a checkpoint */
export const FAULTS = 55;
export const FLAPS = 56;
export const CHECKPOINT = 57;
/** of the oracle: by host, the highest epoch that the host has believed in */
export const HIGHEST = 58;
/** the messages in the stream, then those in the snapshot */
export const STREAM = 60;
export const SNAPSHOT = 76;
export const STREAM_LENGTH = 16;
/** on a busy stream: messages that were there at the last counted beat and are not decided yet */
export const LAY = 92;
export const WIDTH = 96;

/** CURSOR of a thread that reads after an id higher than all ids that will come */
export const BLIND = 255;
/**
 * bits of PHASE: the thread is between two steps of its decision; the cursor went back to 0-0 after
 * the message was read
 */
export const HALF = 1;
export const STALE = 2;

/** Number of the message that has no rows. */
export const HELLO = 7;
export const bit = (message: number): number => 1 << message;
/** the rows [from, to), a bit for each */
export const span = (from: number, to: number): number =>
  from >= to ? 0 : ((1 << to) - 1) & ~((1 << from) - 1);
const names = (rows: number): string =>
  [0, 1, 2, 3, 4, 5, 6].filter((row) => rows & bit(row)).join(', ');

/**
 * An entry of the stream: its host, its row, and the oldest row that the host kept when it sent the
 * entry. The number 0 is no entry.
 */
export interface Message {
  host: number;
  row: number;
  base: number;
}
export const entryOf = ({ host, row, base }: Message): number => 1 + base + 8 * row + 64 * host;
export const messageOf = (entry: number): Message => ({
  host: (entry - 1) >> 6,
  row: ((entry - 1) >> 3) & 7,
  base: (entry - 1) & 7,
});
export function inWords(entry: number): string {
  const { host, row, base } = messageOf(entry);
  return `${row === HELLO ? 'HELLO' : `row ${row}`} of host ${host} (base ${base})`;
}

/** An acknowledgement as a number: epoch, row, nak. 0 is none. */
export const EPOCHS = 3;
export const NAKS = 8;
export const ackOf = (epoch: number, row: number, nak: number): number =>
  64 * epoch + 8 * nak + row;
export const ackInWords = (ack: number): string =>
  ack === 0 ? 'nothing' : `${ack >> 6}:${ack & 7}:${(ack >> 3) & 7}`;

export function lengthOf(state: State, from = STREAM): number {
  let length = 0;
  while (length < STREAM_LENGTH && state[from + length] !== 0) length++;
  return length;
}

/**
 * Appends a message to the stream, and checks that a host has a bounded number of messages in it.
 * The bound is the window, plus two windows per fault, because a new connection and a nak may each
 * ask for all rows. A snapshot adds one window.
 */
export function append(state: State, setup: LinkSetup, entry: number): void {
  const { host } = messageOf(entry);
  const length = lengthOf(state);
  let copies = 1;
  for (let i = 0; i < length; i++) if (messageOf(state[STREAM + i]!).host === host) copies++;
  const most =
    (setup.window ?? 2) * (1 + 2 * state[FAULTS]! + (state[SAVED] === BROUGHT_BACK ? 1 : 0));
  if (copies > most)
    throw new Violation(
      'copies',
      `${copies} messages of host ${host} lie on the server, ${most} are to`,
    );
  if (length === STREAM_LENGTH) throw new Error('STREAM_LENGTH is too short for this setup');
  state[STREAM + length] = entry;
}

/** Removes the first messages of the stream. */
export function dropFirst(state: State, count: number): void {
  state.copyWithin(STREAM, STREAM + count, STREAM + STREAM_LENGTH);
  state.fill(0, STREAM + STREAM_LENGTH - count, STREAM + STREAM_LENGTH);
}

/**
 * Replaces the stream by an empty one. `cursor` is where a reader whose connection lasts continues,
 * and may be `BLIND`.
 */
export function replaceStream(state: State, cursor: number): void {
  state.fill(0, STREAM, STREAM + STREAM_LENGTH);
  state[CURSOR] = cursor;
  state[DECIDED] = state[LAY] = 0;
  if (state[HELD]) state[PHASE] = state[PHASE]! | STALE;
}

/**
 * The oracle of the buffer: a row is committed once. No row is skipped unless an earlier learner
 * had it.
 */
export function commit(state: State, host: number, row: number): void {
  if (state[of(host, BUFFER)]! & bit(row))
    throw new Violation('twice', `row ${row} of host ${host} is in the buffer twice`);
  state[of(host, BUFFER)] = state[of(host, BUFFER)]! | bit(row);
}
export function skip(state: State, host: number, from: number, to: number): void {
  const missing = span(from, to) & ~(state[of(host, BUFFER)]! | state[of(host, PAST)]!);
  if (missing !== 0)
    throw new Violation('lost', `no learner has had row ${names(missing)} of host ${host}`);
}

/**
 * The oracle of the host: a row that it drops is in the buffer of the newest learner that it has
 * ever believed in.
 */
export function letGo(state: State, host: number, row: number): void {
  const now = state[HIGHEST + host] === state[NOW];
  const there = state[of(host, now ? BUFFER : PAST)]!;
  const missing = span(state[of(host, ACKED)]!, row) & ~there;
  if (missing !== 0)
    throw new Violation(
      'lost',
      `host ${host} lets go of row ${names(missing)}, its learner has not`,
    );
}
