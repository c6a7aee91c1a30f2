/**
 * A rank as a member of an exchange. The member sends data, and reports its own failure to all
 * other ranks. It throws if another rank failed, or if another rank left before that rank had sent
 * its data. exchange-control.ts lists the rules Exchange-1 to Exchange-6.
 */
import { ThreadEnding } from '../base/addon.ts';
import { type ErrorCode, stateError, unavailableError } from '../base/errors.ts';
import type { Bell } from './bell.ts';
import { type ExchangeControlBlock, RankState } from './exchange-control.ts';
import { Deadline, MAX_PARK_MS } from './wait.ts';

/** Words for the error texts of one kind of exchange. */
export interface ExchangeTexts {
  readonly whole: string;
  /** text that follows a rank's number */
  readonly of: string;
  /** verbs for a rank that closed, for one that failed, and for one that sent its data */
  readonly closed: string;
  readonly failed: string;
  readonly sent: string;
  /** what the user can do next */
  readonly next: string;
}

export abstract class ExchangeMember {
  readonly words: ExchangeControlBlock;
  readonly rank: number;
  readonly #texts: ExchangeTexts;
  /**
   * time until which this rank waits for a failed rank to write its reason, or null before the wait
   * begins
   */
  #reasonUntil: Deadline | null = null;

  constructor(words: ExchangeControlBlock, rank: number, texts: ExchangeTexts) {
    this.words = words;
    this.rank = rank;
    this.#texts = texts;
  }

  /** the number of the latest exchange that was begun, counted from 1 */
  abstract get exchange(): number;

  /** Returns the exchange and the rank, for error texts. */
  where(): string {
    return `exchange ${this.exchange} of rank ${this.rank}`;
  }

  /**
   * Empties the halves that this rank received in the previous exchange. Then publishes the halves
   * that it has filled for this exchange, and rings the receivers' `bells`.
   */
  send(
    routes: readonly { readonly outgoing: number; readonly incoming: number }[],
    bells: readonly Bell[],
  ): void {
    const { words, exchange } = this;
    // Exchange-1: by now this rank, or its device, has read all data of the previous exchange. The
    // first exchange has no previous one.
    if (exchange > 1) for (const { incoming } of routes) words.empty(incoming, exchange - 1);
    for (const { outgoing } of routes) words.fill(outgoing, exchange);
    // Exchange-3
    for (const bell of bells) bell.ring();
  }

  /** Stores the error as the failure of the exchange, and marks this rank as failed. */
  fail(error: unknown): void {
    this.words.fail({ rank: this.rank, exchange: this.exchange, error });
    this.words.leave(this.rank, RankState.failed);
  }

  /**
   * Runs `fn` and returns its result. If `fn` throws, the error ends the exchange for every rank.
   */
  failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated becomes `lost`. Other ranks notice that without a report.
      if (!(error instanceof ThreadEnding)) this.fail(error);
      throw error;
    }
  }

  /** Throws the failure of the exchange, if there is one. */
  checkFailed(): void {
    const { failure } = this.words;
    if (failure === null) return;
    const { rank, exchange, error } = failure;
    const { code } = error as { code?: unknown };
    const { whole, of } = this.#texts;
    const when = exchange === 0 ? 'before its first exchange' : `in exchange ${exchange}`;
    const who =
      rank < 0 ? `${whole} was ended by another thread` : `rank ${rank}${of} failed ${when}`;
    const ours = typeof code === 'string' && code.startsWith('ERR_HOTSLOT_');
    throw unavailableError(
      `${who}: ${error.message}`,
      ours ? (code as ErrorCode) : 'ERR_HOTSLOT_STATE_CLOSED',
      error,
    );
  }

  /**
   * Throws if the sender left without sending its data. Returns if the sender is open, or if the
   * reason of a failure may still be written. The caller then continues to wait. Read the sender's
   * state, then look for the data, and call this if the data is missing (Exchange-5).
   */
  checkArrives(sender: number, state: RankState, edge?: string): void {
    if (state > RankState.open && !this.#mayExplain(state)) this.#miss(sender, state, edge);
  }

  /**
   * Returns whether another rank may still be writing the reason of a failure (Exchange-6). That
   * rank rings all bells after it has written the reason. Returns true for at most 100 ms from the
   * first call, because that rank may have died.
   */
  #mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.words.failed) return false;
    this.#reasonUntil ??= new Deadline(MAX_PARK_MS);
    return this.#reasonUntil.left > 0;
  }

  #miss(sender: number, state: RankState, edge: string | undefined): never {
    // If a failure is stored, throws it, because it says more than the errors below.
    this.checkFailed();
    const { of, closed, failed, sent, next } = this.#texts;
    const over = edge === undefined ? '' : ` over edge ${edge}`;
    const before = `before it ${sent} what ${this.where()} waits for${over}: ${next}`;
    if (state !== RankState.lost)
      throw stateError(
        'CLOSED',
        `rank ${sender}${of} ${state === RankState.closed ? closed : failed} ${before}`,
      );
    throw unavailableError(
      `the thread of rank ${sender}${of} ended ${before}`,
      'ERR_HOTSLOT_THREAD_LOST',
    );
  }
}
