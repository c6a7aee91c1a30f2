/**
 * The control words that the ranks of a halo exchange share. They contain each rank's state and
 * bell, the content of each buffer, and the first failure. Each pair of a receiving rank and an
 * edge has one buffer, which one rank writes and one rank reads. test/model/halo.ts checks these
 * rules:
 *
 * Exchange-1  A buffer has two halves, which exchanges use in turn: exchange n uses half n mod 2. A
 *    half's word is 0 while the half is empty, else the number of the exchange whose data is in it.
 *    Only the sender fills a half: it stores the number after it has written the last byte. Only
 *    the receiver empties a half. It stores 0 after it has read the last byte, and before it fills
 *    any buffer in its own next exchange.
 * Exchange-2  Starting exchange n+1 never waits, because the half that the rank packs into is
 *    empty. It is the half of exchange n−1. A rank that starts n+1 has received all data of n, so
 *    each neighbor has filled its own buffers with n. Before that, each neighbor emptied the halves
 *    that it had received in n−1 (Exchange-1). These include the rank's half, because neighbors are
 *    mutual.
 * Exchange-3  After a rank has filled a buffer, it rings the reader's bell. A rank that leaves
 *    (closes or fails) stores its new state first, then rings all bells.
 * Exchange-4  A waiting rank reads its bell's count, then checks for a failure and for arrived
 *    data, then parks on the count that it read.
 * Exchange-5  Data that was sent is received, even if a rank has closed, failed or died since. A
 *    waiting rank reads the failure and each sender's state before it reads the sender's word. It
 *    gives up only if data is missing after that.
 * Exchange-6  The first failure wins, and every rank throws it. A rank whose thread ended cannot
 *    report that: native code stores `lost` for it and rings no bell. So no park is longer than 100
 *    ms. A rank that misses data of a lost rank fails, which informs all other ranks. If two ranks
 *    fail at once, the second one may leave while the first is still writing its reason. A rank
 *    that misses data of the second one waits for that reason. It waits at most 100 ms, because the
 *    first may have died while it wrote.
 */

import { addonOf, checkLayout } from '../base/addon.ts';
import { rangeError, stateError } from '../base/errors.ts';
import { BELL_WORDS, Bell } from './bell.ts';
import { enterWord } from './claim.ts';
import { LINE, type Place } from './memory.ts';
import { NOTE_WORDS, NOTE_WRITTEN, SharedNote } from './note.ts';

/**
 * States of a rank. The rank stores its own state, except `lost`, which native code stores when the
 * rank's thread ends. `open` changes once, to one of the three states after it.
 */
export const RankState = { absent: 0, open: 1, closed: 2, failed: 3, lost: 4 } as const;
export type RankState = (typeof RankState)[keyof typeof RankState];

/**
 * The number of different values that a half's word has for exchanges. After that many exchanges,
 * the values repeat. The number is even, so that the halves still alternate when the values repeat.
 */
const NUMBERS = 2 ** 30;

/**
 * Returns the size in bytes of the words for `ranks` ranks and `buffers` buffers. The words must
 * begin at a cache line.
 */
export function exchangeControlBytes(ranks: number, buffers: number): number {
  return 4 * (NOTE_WORDS + ranks * (LINE + BELL_WORDS) + buffers * LINE);
}

interface ExchangeFailure {
  /**
   * the rank that failed, or a negative number if another thread ended the exchange. `exchange` is
   * the exchange that the rank had begun, or 0 before its first one
   */
  rank: number;
  exchange: number;
  error: Error;
}

/**
 * The processes of an exchange's ranks. One thread of this process acts for all ranks of other
 * processes. All of these ranks share this thread's `bell`.
 */
export interface RanksElsewhere {
  /** the process of each rank */
  readonly process: readonly number[];
  /** the number of this process */
  readonly here: number;
  readonly bell: Int32Array;
}

interface Elsewhere {
  readonly layout: Readonly<Record<string, number>>;
  /**
   * Reads the word at `index` repeatedly for at most `ms` milliseconds, and does the work of MPI's
   * thread in between. Returns true as soon as the word differs from `count`
   */
  lookUntil(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
}

const elsewhere = addonOf<Elsewhere>('ranks');

/**
 * Milliseconds for which a thread does the work of MPI's thread before it sleeps. While a thread
 * does this work for at least this time, MPI's thread itself calls MPI less often
 * (native/ranks/thread.cpp).
 */
export const LOOK_ELSEWHERE_MS = 2;

/**
 * Receives data of other processes in this thread, for at most `ms` milliseconds, instead of in
 * MPI's thread. Returns true as soon as the bell's count differs from `count`.
 */
export function pollElsewhere(bell: Bell, count: number, ms: number): boolean {
  return elsewhere().lookUntil(bell.words, 0, count, ms) === true;
}

/**
 * Throws if native code was compiled with another layout of an exchange's words. Call it before
 * native code gets the words.
 */
export function checkElsewhere(): void {
  const { absent, open } = RankState;
  const ours = { line: LINE, absent, open, written: NOTE_WRITTEN, numbers: NUMBERS };
  checkLayout('ranks', 'the words of an exchange', ours, elsewhere().layout);
}

export class ExchangeControlBlock {
  readonly ranks: number;
  /** views of the words, for native code, which reads and writes them too */
  readonly views: Readonly<Record<'note' | 'states' | 'bells' | 'halves', Int32Array>>;
  readonly #elsewhere: RanksElsewhere | null;
  readonly #note: SharedNote;
  /** one cache line for each rank */
  readonly #states: Int32Array;
  readonly #bells: Int32Array;
  /** one cache line for each buffer, with the words of the buffer's two halves */
  readonly #halves: Int32Array;

  constructor(
    { memory, offset }: Place,
    ranks: number,
    buffers: number,
    elsewhere: RanksElsewhere | null = null,
  ) {
    this.ranks = ranks;
    this.#elsewhere = elsewhere;
    let at = offset;
    const take = (words: number) => {
      const view = new Int32Array(memory, at, words);
      at += words * 4;
      return view;
    };
    const note = take(NOTE_WORDS);
    this.#note = new SharedNote(note);
    this.#states = take(ranks * LINE);
    this.#bells = take(ranks * BELL_WORDS);
    this.#halves = take(buffers * LINE);
    this.views = { note, states: this.#states, bells: this.#bells, halves: this.#halves };
  }

  bell(rank: number): Bell {
    return this.isHere(rank)
      ? new Bell(this.#bells, rank)
      : new Bell((this.#elsewhere as RanksElsewhere).bell);
  }
  isHere(rank: number): boolean {
    return this.#elsewhere === null || this.#elsewhere.process[rank] === this.#elsewhere.here;
  }

  ringAll(): void {
    for (let rank = 0; rank < this.ranks; rank++) this.bell(rank).ring();
  }

  // ---- ranks ------------------------------------------------------------------------------------

  state(rank: number): RankState {
    return Atomics.load(this.#states, rank * LINE) as RankState;
  }

  /**
   * Takes a rank permanently. Returns its previous state, which is `absent` if the rank was free.
   * If the thread ends while the rank is `open`, the rank becomes `lost`.
   */
  claim(rank: number): RankState {
    const { absent, open, lost } = RankState;
    return enterWord(this.#states, rank * LINE, absent, open, lost) as RankState;
  }

  checkHere(rank: number): void {
    if (this.isHere(rank)) return;
    throw rangeError(
      `rank ${rank} is of process ${this.#elsewhere?.process[rank]}; a process can take only its own ranks`,
    );
  }

  /**
   * Stores `open` as the state of a rank of another process. The rank counts as open from the
   * start, until its process reports that the rank has left.
   */
  standIn(rank: number): void {
    Atomics.compareExchange(this.#states, rank * LINE, RankState.absent, RankState.open);
  }

  /**
   * Changes an open rank's state to `as` and rings all bells (Exchange-3). Does nothing if the rank
   * is not open. A reader that sees the new state also sees all data that the rank has sent
   * (Exchange-5).
   */
  leave(rank: number, as: typeof RankState.closed | typeof RankState.failed): void {
    const before = Atomics.compareExchange(this.#states, rank * LINE, RankState.open, as);
    if (before === RankState.open) this.ringAll();
  }

  // ---- halves of buffers ------------------------------------------------------------------------

  isEmpty(buffer: number, exchange: number): boolean {
    return Atomics.load(this.#halves, place(buffer, exchange)) === 0;
  }

  holds(buffer: number, exchange: number): boolean {
    return Atomics.load(this.#halves, place(buffer, exchange)) === numbered(exchange);
  }

  /**
   * Sender only. Stores the number of the exchange in the half's word. The receiver reads this word
   * to learn that all bytes of the half are written. The caller then rings the receiver's bell.
   */
  fill(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), numbered(exchange));
  }

  /**
   * Receiver only. Returns the half to the sender. Call it before this rank fills a buffer in its
   * next exchange. When data of that exchange arrives at the sender, the sender knows that the half
   * is empty (Exchange-2).
   */
  empty(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), 0);
  }

  // ---- the first failure ------------------------------------------------------------------------

  /**
   * Stores a failure, unless a failure is stored already (Exchange-6). A rank that dies while it
   * writes the failure leaves no note. In that case the rank's state becomes `lost`, which its
   * neighbors notice.
   */
  fail({ rank, exchange, error }: { rank: number; exchange: number; error: unknown }): void {
    this.#note.write([rank, exchange], error);
  }

  get failed(): boolean {
    return this.#note.written;
  }

  get failure(): ExchangeFailure | null {
    const note = this.#note.read();
    if (note === null) return null;
    const [rank, exchange] = note.facts as [number, number];
    return { rank, exchange, error: note.error };
  }
}

function place(buffer: number, exchange: number): number {
  return buffer * LINE + (exchange % 2);
}

function numbered(exchange: number): number {
  return ((exchange - 1) % NUMBERS) + 1;
}

/**
 * Throws ERR_HOTSLOT_STATE_BUSY unless `state` is `absent`. `who` and `of` are words for the
 * error's text: what has the rank, and what the program can share instead.
 */
export function checkFree(
  rank: number,
  state: RankState,
  who = 'HaloUpdater',
  of = 'exchange',
): void {
  if (state === RankState.absent) return;
  const now = state === RankState.open ? 'is in use' : 'was used';
  throw stateError(
    'BUSY',
    `rank ${rank} ${now} by another ${who}; each rank can be taken once, share another ${of}`,
  );
}
