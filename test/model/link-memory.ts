/**
 * One state of the modelled link, byte by byte: what each host keeps, what lies on the server, what
 * the learner has, and what the oracle remembers. A message is one row, or none for HELLO. The
 * helpers check the rules as they write.
 */
import { type State, Violation } from './checker.ts';
import type { LinkSetup } from './link.ts';

/** A host's bytes: so many, from `of(host, …)` on. */
const HOST_BYTES = 20;
/**
 * what it knows: the row acknowledged to it, the epoch it believes in, the last nak it has obeyed,
 * whether HELLO is answered
 */
export const ACKED = 0;
export const EPOCH = 1;
export const NAK = 2;
export const GREETED = 3;
/**
 * messages by bit: to be sent, sent without a reply, and those of them that the server has refused
 * as full
 */
export const TODO = 4;
export const FLIGHT = 5;
export const REFUSED = 6;
/**
 * a notice on its way to it; whether it is connected; beats counted since it looked behind its last
 * reply, and one more
 */
export const NOTICE = 7;
export const UP = 8;
export const WAITED = 9;
/** a message that a lost connection may still bring */
export const GHOST = 10;
/** on the server: its field among the acknowledgements, now and in the snapshot */
export const ACK = 11;
export const SAVED_ACK = 12;
/**
 * in the learner's shared memory: 1 + its mark (0: no session), its nak, and by bit the rows in the
 * buffer
 */
export const MARK = 13;
export const ASKED = 14;
export const BUFFER = 15;
/** in the learner's checkpoint */
export const KEPT_MARK = 16;
export const KEPT_BUFFER = 17;
/** what the last learner has said to it: a learner that lost its lease may say it again */
export const OLD = 18;
/** the oracle's: by bit the rows that any learner before had */
export const PAST = 19;
export const of = (host: number, field: number): number => host * HOST_BYTES + field;

/**
 * On the server: the lease's and the heartbeat's epoch, 0 where there is none; which run of the
 * server this is; a snapshot's.
 */
export const LEASE = 40;
export const HEART = 41;
export const RUN = 42;
export const SAVED_LEASE = 43;
export const SAVED_HEART = 44;
/** 1 + how many messages lie in the snapshot; 0: there is none */
export const SAVED = 45;
export const BROUGHT_BACK = 255;
/**
 * The ingest thread's: connected, entries before its cursor, how many of those are decided, the
 * message it holds and how.
 */
export const INGEST_UP = 46;
export const CURSOR = 47;
export const DECIDED = 48;
export const HELD = 49;
export const PHASE = 50;
/**
 * by bit, sessions whose acknowledgement is to be stored; whether the look since the last beat is
 * over
 */
export const DIRTY = 51;
export const LOOKED = 52;
/** in shared memory: the server run that the marks go with; the learner's epoch */
export const RUN_KNOWN = 53;
export const NOW = 54;
/** faults and flaps that have happened; whether there is a checkpoint */
export const FAULTS = 55;
export const FLAPS = 56;
export const CHECKPOINT = 57;
/** the oracle's: by host the highest epoch that it has believed in */
export const HIGHEST = 58;
/** messages in the stream, then those in the snapshot */
export const STREAM = 60;
export const SNAPSHOT = 76;
export const STREAM_LENGTH = 16;
/**
 * of a busy stream: messages of the setup that lay there at the last beat that counted, and are not
 * decided on yet
 */
export const LAY = 92;
export const WIDTH = 96;

/** CURSOR of a thread that reads behind an id higher than those that come */
export const BLIND = 255;
/**
 * PHASE: the thread is between two steps of its decision; the message was read before its cursor
 * went back to 0-0
 */
export const HALF = 1;
export const STALE = 2;

/** The number of the message without rows. */
export const HELLO = 7;
export const bit = (message: number): number => 1 << message;
/** rows [from, to) by bit */
export const span = (from: number, to: number): number =>
  from >= to ? 0 : ((1 << to) - 1) & ~((1 << from) - 1);
const names = (rows: number): string =>
  [0, 1, 2, 3, 4, 5, 6].filter((row) => rows & bit(row)).join(', ');

/**
 * An entry of the stream: who sent it, its row, and the oldest row that the host kept then. 0 is
 * none.
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

/** An acknowledgement: epoch, row, nak. 0 is none. */
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
 * Puts a message at the stream's end. What lies there of one host is bounded: its window, and twice
 * that for every fault, because a connection that is new and a nak may each call for all of it; and
 * what a snapshot brings back.
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

/** Drops the first messages of the stream. */
export function dropFirst(state: State, count: number): void {
  state.copyWithin(STREAM, STREAM + count, STREAM + STREAM_LENGTH);
  state.fill(0, STREAM + STREAM_LENGTH - count, STREAM + STREAM_LENGTH);
}

/**
 * The stream is another one from here on; whoever reads it on a connection that lasts goes on
 * behind an id.
 */
export function replaceStream(state: State, cursor: number): void {
  state.fill(0, STREAM, STREAM + STREAM_LENGTH);
  state[CURSOR] = cursor;
  state[DECIDED] = state[LAY] = 0;
  if (state[HELD]) state[PHASE] = state[PHASE]! | STALE;
}

/**
 * The oracle of the buffer: a row is in it once, and none is left out but what a learner before has
 * had.
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
 * The oracle of the host: what it lets go of is in the buffer of the newest learner that it has
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
