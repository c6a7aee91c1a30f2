/**
 * A rank as a member of an exchange: it sends, tells all others what it failed of, and throws what
 * another one failed of, or that one left before it sent its part. The rules Exchange-1 to
 * Exchange-6 stand in exchange-control.ts.
 */
import { ThreadEnding } from '../base/addon.ts';
import { type ErrorCode, stateError, unavailableError } from '../base/errors.ts';
import type { Bell } from './bell.ts';
import { type ExchangeControlBlock, RankState } from './exchange-control.ts';
import { Deadline, MAX_PARK_MS } from './wait.ts';

/** What errors say of this kind of exchange. */
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
  /** a rank failed but has not written why; after this moment its reason is no longer waited for */
  #reasonUntil: Deadline | null = null;

  constructor(words: ExchangeControlBlock, rank: number, texts: ExchangeTexts) {
    this.words = words;
    this.rank = rank;
    this.#texts = texts;
  }

  /** of the latest exchange that was begun; they count from 1 */
  abstract get exchange(): number;

  /** in errors */
  where(): string {
    return `exchange ${this.exchange} of rank ${this.rank}`;
  }

  /**
   * Everything of the exchange that this rank sends lies in its buffers' halves: these are the
   * readers' now, whom the bells ring.
   */
  send(
    routes: readonly { readonly outgoing: number; readonly incoming: number }[],
    bells: readonly Bell[],
  ): void {
    const { words, exchange } = this;
    // Exchange-1: by now everything of the exchange before is read, on a device too. Before the
    // first, there was none.
    if (exchange > 1) for (const { incoming } of routes) words.empty(incoming, exchange - 1);
    for (const { outgoing } of routes) words.fill(outgoing, exchange);
    // Exchange-3
    for (const bell of bells) bell.ring();
  }

  /** This rank cannot go on; everybody learns why. */
  fail(error: unknown): void {
    this.words.fail({ rank: this.rank, exchange: this.exchange, error });
    this.words.leave(this.rank, RankState.failed);
  }

  /** What `fn` throws is the end of the exchange for every rank. */
  failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated is lost, which is found out without it.
      if (!(error instanceof ThreadEnding)) this.fail(error);
      throw error;
    }
  }

  /** Throws what the exchange failed of, if it did. */
  checkFailed(): void {
    const { failure } = this.words;
    if (failure === null) return;
    const { rank, exchange, error } = failure;
    const { code } = error as { code?: unknown };
    const { whole, of } = this.#texts;
    const when = exchange === 0 ? 'before its first exchange' : `in exchange ${exchange}`;
    const who = rank < 0 ? `${whole} was ended from outside` : `rank ${rank}${of} failed ${when}`;
    const ours = typeof code === 'string' && code.startsWith('ERR_HOTSLOT_');
    throw unavailableError(
      `${who}: ${error.message}`,
      ours ? (code as ErrorCode) : 'ERR_HOTSLOT_STATE_CLOSED',
      error,
    );
  }

  /**
   * Of a part that was not there behind a look at its sender's state (Exchange-5). Throws when it
   * will not come.
   */
  checkComes(sender: number, state: RankState, edge?: string): void {
    if (state > RankState.open && !this.#mayExplain(state)) this.#miss(sender, state, edge);
  }

  /** Exchange-6: another thread is just writing down why a rank has failed, and rings then. */
  #mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.words.failed) return false;
    this.#reasonUntil ??= new Deadline(MAX_PARK_MS);
    return this.#reasonUntil.left > 0;
  }

  #miss(sender: number, state: RankState, edge: string | undefined): never {
    // It said why before it left.
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
