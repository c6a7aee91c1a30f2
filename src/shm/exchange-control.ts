/**
 * The words that the ranks of a halo exchange share: which ranks are there, what each buffer holds,
 * a bell per rank, the first failure. There is one buffer per receiving rank and edge, which one
 * rank writes and one reads. test/model/halo.ts checks these rules:
 *
 * Exchange-1  A buffer has two halves, taken in turn: exchange n is in half n mod 2. A half's word
 *    is 0 while it is empty, else the number of the exchange that fills it. The sender alone fills
 *    it, after its last byte. The receiver alone empties it, after its last byte is read and
 *    before it fills any buffer with its own next exchange.
 * Exchange-2  Starting never waits, because the half it packs into is empty. Neighbors are mutual,
 *    so a rank that starts n+1 has finished n. For that each neighbor had filled its own buffers
 *    with n, and before that it had emptied its halves of n−1.
 * Exchange-3  A rank that fills a buffer rings its reader afterwards. A rank that leaves (closes,
 *    fails) says so first, then rings all.
 * Exchange-4  A waiter reads its bell, then looks for a failure, then for what has arrived, then
 *    parks on the count that it read.
 * Exchange-5  Sent parts are received, whichever rank closed, failed or died since. A waiter reads
 *    the failure and each sender's state before it looks at the sender's word, and gives up only
 *    if a part is missing then.
 * Exchange-6  The first failure wins and every rank throws it. A rank whose thread ended cannot
 *    report it: its environment stores `lost` and rings no bell, so no park is longer than 100 ms.
 *    A rank that misses one that is gone fails, and so informs all others. A rank that failed
 *    while another was first is not missed before that one has written why, or for 100 ms if it
 *    died while it wrote.
 */

import { addonOf, checkLayout } from '../base/addon.ts';
import { rangeError, stateError } from '../base/errors.ts';
import { BELL_WORDS, Bell } from './bell.ts';
import { enterWord } from './claim.ts';
import { LINE, type Place } from './memory.ts';
import { NOTE_WORDS, NOTE_WRITTEN, SharedNote } from './note.ts';

/**
 * Written by the rank itself, `lost` by its thread's environment. `open` becomes one of the three
 * after it, once.
 */
export const RankState = { absent: 0, open: 1, closed: 2, failed: 3, lost: 4 } as const;
export type RankState = (typeof RankState)[keyof typeof RankState];

/** The count of numbers in a word. It is even, so that halves stay in turn. */
const NUMBERS = 2 ** 30;

/** Returns the bytes for `ranks` ranks and `buffers` buffers, from a cache line's start on. */
export function exchangeControlBytes(ranks: number, buffers: number): number {
  return 4 * (NOTE_WORDS + ranks * (LINE + BELL_WORDS) + buffers * LINE);
}

interface ExchangeFailure {
  /** the rank that failed, and its exchange then */
  rank: number;
  exchange: number;
  error: Error;
}

/**
 * Ranks of an exchange that are in other processes: one thread here stands in for all of them, and
 * has one bell.
 */
export interface RanksElsewhere {
  /** of each rank */
  readonly process: readonly number[];
  /** this one */
  readonly here: number;
  readonly bell: Int32Array;
}

interface Elsewhere {
  readonly layout: Readonly<Record<string, number>>;
  /**
   * Looks at that word for at most `ms`, and does the work of MPI's thread meanwhile. Returns true
   * when the word is not `seen`
   */
  lookUntil(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
}

const elsewhere = addonOf<Elsewhere>('ranks');

/**
 * How long a thread that can wait looks: MPI's thread stands back for one that helps this long
 * (native/ranks/thread.cpp).
 */
export const LOOK_ELSEWHERE_MS = 2;

/**
 * Lets this thread itself bring what comes from other processes, for at most `ms`. Returns true
 * when the bell has rung.
 */
export function pollElsewhere(bell: Bell, count: number, ms: number): boolean {
  return elsewhere().lookUntil(bell.words, 0, count, ms) === true;
}

/**
 * Throws unless native code was compiled with the same words. Call it before native code gets an
 * exchange's words.
 */
export function checkElsewhere(): void {
  const { absent, open } = RankState;
  const ours = { line: LINE, absent, open, written: NOTE_WRITTEN, numbers: NUMBERS };
  checkLayout('ranks', 'the words of an exchange', ours, elsewhere().layout);
}

export class ExchangeControlBlock {
  readonly ranks: number;
  /** the words that native code reads and writes too */
  readonly views: Readonly<Record<'note' | 'states' | 'bells' | 'halves', Int32Array>>;
  readonly #elsewhere: RanksElsewhere | null;
  readonly #note: SharedNote;
  /** a line per rank */
  readonly #states: Int32Array;
  readonly #bells: Int32Array;
  /** a line per buffer: the words of its two halves */
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
   * Takes a rank permanently, and returns what it was before. It becomes `lost` if the thread ends
   * while it is `open`.
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

  /** Opens a rank elsewhere, which is open from the start and leaves as its process says. */
  standIn(rank: number): void {
    Atomics.compareExchange(this.#states, rank * LINE, RankState.absent, RankState.open);
  }

  /**
   * Lets an open rank leave. Exchange-5: everything it sent is in its words by now. Exchange-3:
   * rings all.
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

  /** Sender only. Publishes the half's bytes to the receiver, which is rung next. */
  fill(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), numbered(exchange));
  }

  /**
   * Receiver only. Gives the half's bytes back to the sender, which learns it from this rank's own
   * next exchange (Exchange-2).
   */
  empty(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), 0);
  }

  // ---- the first failure ------------------------------------------------------------------------

  /**
   * Exchange-6. A writer that dies meanwhile leaves no note, but it is lost, which its neighbors
   * find out.
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

/** Throws ERR_HOTSLOT_STATE_BUSY unless the rank was free. `who` takes ranks of `of`. */
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
