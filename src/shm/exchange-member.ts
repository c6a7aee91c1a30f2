/**
 * A rank as a member of an exchange. It sends, reports its failure to all others, and throws if
 * another one failed, or left before it sent its part. The rules Exchange-1 to Exchange-6 stand in
 * exchange-control.ts.
 */
import { ThreadEnding } from '../base/addon.ts';
import { type ErrorCode, stateError, unavailableError } from '../base/errors.ts';
import type { Bell } from './bell.ts';
import { type ExchangeControlBlock, RankState } from './exchange-control.ts';
import { Deadline, MAX_PARK_MS } from './wait.ts';

/** The words of errors for this kind of exchange. */
export interface ExchangeTexts {
  readonly whole: string;
  /** follows a rank's number */
  readonly of: string;
  /** verbs, for a rank that closed, one that failed, and one that sent its part */
  readonly closed: string;
  readonly failed: string;
  readonly sent: string;
  /** what the user does next */
  readonly next: string;
}

export abstract class ExchangeMember {
  readonly words: ExchangeControlBlock;
  readonly rank: number;
  readonly #texts: ExchangeTexts;
  /** if a rank failed but has not written why, the moment after which its reason is not awaited */
  #reasonUntil: Deadline | null = null;

  constructor(words: ExchangeControlBlock, rank: number, texts: ExchangeTexts) {
    this.words = words;
    this.rank = rank;
    this.#texts = texts;
  }

  /** the number of the latest exchange that was begun, counted from 1 */
  abstract get exchange(): number;

  /** in errors */
  where(): string {
    return `exchange ${this.exchange} of rank ${this.rank}`;
  }

  /**
   * Hands the halves of buffers with everything that this rank sends in the exchange to their
   * readers, and rings their bells.
   */
  send(
    routes: readonly { readonly outgoing: number; readonly incoming: number }[],
    bells: readonly Bell[],
  ): void {
    const { words, exchange } = this;
    // Exchange-1: by now everything of the previous exchange is read, on a device too. The first
    // has none before it.
    if (exchange > 1) for (const { incoming } of routes) words.empty(incoming, exchange - 1);
    for (const { outgoing } of routes) words.fill(outgoing, exchange);
    // Exchange-3
    for (const bell of bells) bell.ring();
  }

  /** Ends this rank as failed. All ranks learn why. */
  fail(error: unknown): void {
    this.words.fail({ rank: this.rank, exchange: this.exchange, error });
    this.words.leave(this.rank, RankState.failed);
  }

  /** Runs `fn`. An error from it ends the exchange for every rank. */
  failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated is lost, which others find out without it.
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
   * Throws if a part will not come. Call it if the part was missing after a look at its sender's
   * state (Exchange-5).
   */
  checkArrives(sender: number, state: RankState, edge?: string): void {
    if (state > RankState.open && !this.#mayExplain(state)) this.#miss(sender, state, edge);
  }

  /**
   * Exchange-6: returns whether another thread may still be writing why a rank has failed. It rings
   * then.
   */
  #mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.words.failed) return false;
    this.#reasonUntil ??= new Deadline(MAX_PARK_MS);
    return this.#reasonUntil.left > 0;
  }

  #miss(sender: number, state: RankState, edge: string | undefined): never {
    // The sender wrote why before it left.
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
