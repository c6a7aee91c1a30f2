/**
 * The words that the ranks of a halo exchange share: who is there, what each buffer holds, a bell per rank, the first
 * failure. One buffer per receiving rank and edge; one rank writes it, one reads it. test/model/halo.ts checks these rules:
 *
 * H1 A buffer has two halves, taken in turn: exchange n is in half n mod 2. A half's word is 0 while it is empty, else the
 *    number of the exchange that fills it. The sender alone fills it, after its last byte; the receiver alone empties it,
 *    after its last byte is read and before it fills any buffer with its own next exchange.
 * H2 Starting never waits, because the half it packs into is empty. Neighbours are mutual, so a rank that starts n+1 has
 *    finished n; for that each neighbour had filled its own buffers with n; before that it had emptied its halves of n−1.
 * H3 Whoever fills a buffer rings its reader afterwards. Whoever leaves (closes, fails) says so first and then rings all.
 * H4 A waiter reads its bell, then looks for a failure, then for what has arrived, then parks on the count that it read.
 * H5 What was sent is received, whoever closed, failed or died since: a waiter reads the failure, and each sender's state,
 *    before it looks at the sender's word, and gives up only if something is missing then.
 * H6 The first failure wins and every rank throws it. A rank whose thread ended cannot tell: its environment stores `lost`
 *    and rings nobody, so no park is longer than 100 ms. Who misses a rank that is gone fails, and so tells all others. A rank
 *    that failed while another one was first is not missed before that one has said why, or for 100 ms if it died over it.
 */

import { isMainThread } from 'node:worker_threads';
import { answered } from '../../addon.ts';
import { native } from '../../device/native.ts';
import { decodeError, encodeError } from '../../shared-error.ts';
import type { Place } from '../../shared-memory.ts';
import { BELL_WORDS, Bell } from '../../wait/bell.ts';

/** Written by the rank itself, `lost` by its thread's environment: `open` becomes one of the three behind it, once. */
export const RankState = { absent: 0, open: 1, closed: 2, failed: 3, lost: 4 } as const;
export type RankState = (typeof RankState)[keyof typeof RankState];

const LINE = 16;
const Note = { none: 0, writing: 1, written: 2 } as const;
/** words of the note: state, rank, bytes of text; then the exchange as float64, then the error as JSON */
const NOTE_EXCHANGE_AT = 8;
const NOTE_TEXT_AT = 16;
const NOTE_TEXT_BYTES = 4032;
const NOTE_WORDS = NOTE_TEXT_AT + NOTE_TEXT_BYTES / 4;

/** A word has room for so many numbers; an even one, so that halves stay in turn. */
const NUMBERS = 2 ** 30;

/** Bytes for so many ranks and buffers, from a cache line's start on. */
export function exchangeWordsBytes(ranks: number, buffers: number): number {
  return 4 * (NOTE_WORDS + ranks * (LINE + BELL_WORDS) + buffers * LINE);
}

export interface ExchangeFailure {
  /** who failed, and in which exchange */
  rank: number;
  exchange: number;
  error: Error;
}

export class ExchangeWords {
  readonly ranks: number;
  readonly #note: Int32Array;
  readonly #noteExchange: Float64Array;
  readonly #noteText: Uint8Array;
  /** a line per rank */
  readonly #states: Int32Array;
  readonly #bells: Int32Array;
  /** a line per buffer: the words of its two halves */
  readonly #halves: Int32Array;

  constructor({ memory, offset }: Place, ranks: number, buffers: number) {
    this.ranks = ranks;
    let at = offset;
    const take = (words: number) => {
      const view = new Int32Array(memory, at, words);
      at += words * 4;
      return view;
    };
    this.#note = take(NOTE_WORDS);
    this.#noteExchange = new Float64Array(memory, offset + NOTE_EXCHANGE_AT * 4, 1);
    this.#noteText = new Uint8Array(memory, offset + NOTE_TEXT_AT * 4, NOTE_TEXT_BYTES);
    this.#states = take(ranks * LINE);
    this.#bells = take(ranks * BELL_WORDS);
    this.#halves = take(buffers * LINE);
  }

  bell(rank: number): Bell {
    return new Bell(this.#bells, rank);
  }

  ringAll(): void {
    for (let rank = 0; rank < this.ranks; rank++) this.bell(rank).ring();
  }

  // ---- ranks -----------------------------------------------------------------------------------------------------

  state(rank: number): RankState {
    return Atomics.load(this.#states, rank * LINE) as RankState;
  }

  /**
   * Takes a rank for good; what it was before. In a worker native code does it, and sets it to `lost` should the thread end while
   * it is `open`: a thread can be terminated between two lines. The main thread ends with the process.
   */
  claim(rank: number): RankState {
    const { absent, open, lost } = RankState;
    const before = isMainThread
      ? Atomics.compareExchange(this.#states, rank * LINE, absent, open)
      : answered(native().watchThread(this.#states, rank * LINE, absent, open, lost));
    return before as RankState;
  }

  /** An open rank leaves; H5: everything it sent is in its words by now. H3: tells everybody. */
  leave(rank: number, as: typeof RankState.closed | typeof RankState.failed): void {
    const before = Atomics.compareExchange(this.#states, rank * LINE, RankState.open, as);
    if (before === RankState.open) this.ringAll();
  }

  // ---- halves of buffers -----------------------------------------------------------------------------------------

  isEmpty(buffer: number, exchange: number): boolean {
    return Atomics.load(this.#halves, place(buffer, exchange)) === 0;
  }

  holds(buffer: number, exchange: number): boolean {
    return Atomics.load(this.#halves, place(buffer, exchange)) === numbered(exchange);
  }

  /** Sender only. Publishes the half's bytes to the receiver, who is to be rung next. */
  fill(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), numbered(exchange));
  }

  /** Receiver only. Gives the half's bytes back to the sender, who learns it from this rank's own next exchange (H2). */
  empty(buffer: number, exchange: number): void {
    Atomics.store(this.#halves, place(buffer, exchange), 0);
  }

  // ---- the first failure -----------------------------------------------------------------------------------------

  /** H6. A writer that dies with its pen in hand leaves no note, but it is lost, which its neighbours find out. */
  fail({ rank, exchange, error }: { rank: number; exchange: number; error: unknown }): void {
    const text = encodeError(error, NOTE_TEXT_BYTES);
    if (Atomics.compareExchange(this.#note, 0, Note.none, Note.writing) !== Note.none) return;
    this.#noteText.set(text);
    this.#noteExchange[0] = exchange;
    this.#note[1] = rank;
    this.#note[2] = text.length;
    // Publishes everything above to whoever reads `failed`.
    Atomics.store(this.#note, 0, Note.written);
  }

  get failed(): boolean {
    return Atomics.load(this.#note, 0) === Note.written;
  }

  get failure(): ExchangeFailure | null {
    if (!this.failed) return null;
    const [, rank = -1, length = 0] = this.#note;
    const error = decodeError(this.#noteText.subarray(0, length));
    return { rank, exchange: this.#noteExchange[0] as number, error };
  }
}

function place(buffer: number, exchange: number): number {
  return buffer * LINE + (exchange % 2);
}

function numbered(exchange: number): number {
  return ((exchange - 1) % NUMBERS) + 1;
}
