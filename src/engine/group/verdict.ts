/**
 * The fate of a learner group's latest decided exchange: all took it, or it was ended. A rank that
 * ends its wait cannot take back what it sent, and the last part may be arriving. So one word
 * decides for all ranks of a process.
 *
 * Group-4  A rank uses what came of exchange n only after the word says that n was taken. It ends
 *    its wait for n only after the word says that n was ended. The first change wins: a mean is
 *    used by every rank or by none.
 * Group-5  Every rank sends its part of every exchange, also of one that was ended (Exchange-1 and
 *    Exchange-2 rely on it). A rank that left one (`left`) has all parts of it before it starts the
 *    next.
 */
import { Ending } from '../../shm/ending.ts';
import { Int64 } from '../../shm/int64.ts';

/** Which rank ended an exchange, and why. */
export interface Ended {
  readonly rank: number;
  readonly why: Ending;
}

/** The outcome of an exchange, the same for every rank but for who ended it. */
export interface Outcome {
  /** the vectors of all ranks are averaged */
  readonly averages: boolean;
  /**
   * the rank that ends the run here, and why: this rank if it ends too, else the first that does
   */
  readonly ended: Ended | null;
}

/** A word is EXCHANGE × exchange + RANK × rank + reason, below 2^53. */
const EXCHANGE = 2 ** 12;
const RANK = 2 ** 4;
/**
 * In place of a reason: another process asked to end it, and says soon what all processes answered.
 */
const ASKED = 15;

/** int64 */
export const VERDICT_WORDS = 2;

interface Decision {
  readonly word: number;
  readonly exchange: number;
  readonly why: number;
  readonly ended: Ended | null;
}

export class Verdict {
  /** exchange, rank and reason of the latest one (a reason of 0 says that it was taken) */
  readonly #latest: Int64;
  /** what ended the exchange before */
  readonly #before: Int64;

  /**
   * Two words, of which the second keeps what ended the exchange before: another process may ask
   * about the next one before the rank here has looked. It asks about no later one before this rank
   * has sent its part of that (Group-5), so one is enough.
   */
  constructor(words: BigInt64Array) {
    this.#latest = new Int64(words, 0);
    this.#before = new Int64(words, 1);
  }

  /**
   * Takes an exchange of which all parts are there. Returns null when it is taken, 'asked' while
   * other processes decide, else what ended it.
   */
  take(exchange: number): Ended | 'asked' | null {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange);
      if (now.exchange === exchange) return now.why === ASKED ? 'asked' : now.ended;
      if (this.#move(now.word, exchange, 0, Ending.none)) return null;
    }
  }

  /** Ends it for everybody, unless it was taken. True when it is ended, by whomever. */
  end(exchange: number, { rank, why }: Ended): boolean {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange) !== null;
      if (now.exchange === exchange && now.why !== ASKED) return now.ended !== null;
      if (this.#move(now.word, exchange, rank, why)) return true;
    }
  }

  /** Returns what ended this exchange, or null if it was not ended. */
  endedBy(exchange: number): Ended | null {
    const now = decode(this.#latest.load());
    if (now.exchange > exchange) return this.#endedBefore(exchange);
    return now.exchange === exchange && now.why !== ASKED ? now.ended : null;
  }

  /**
   * Another process asks to end it: nobody here takes it until resume() or end(). False when it is
   * taken.
   */
  ask(exchange: number): boolean {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange) !== null;
      if (now.exchange === exchange) return now.why !== Ending.none;
      // Before the word that hides it: a rank that sees that one sees this one.
      if (now.ended !== null) this.#before.store(now.word);
      if (this.#move(now.word, exchange, 0, ASKED as Ending)) return true;
    }
  }
  isRequested(exchange: number): boolean {
    const now = decode(this.#latest.load());
    return now.exchange === exchange && now.why === ASKED;
  }
  /** All that was asked was answered: somebody had taken the exchange, so all take it. */
  resume(exchange: number): void {
    const now = decode(this.#latest.load());
    if (now.exchange === exchange && now.why === ASKED)
      this.#move(now.word, exchange, 0, Ending.none);
  }

  #endedBefore(exchange: number): Ended | null {
    const before = decode(this.#before.load());
    return before.exchange === exchange ? before.ended : null;
  }
  #move(from: number, exchange: number, rank: number, why: Ending): boolean {
    return this.#latest.move(from, exchange * EXCHANGE + rank * RANK + why);
  }
}

function decode(word: number): Decision {
  const why = word % RANK;
  const ended =
    why === Ending.none || why === ASKED
      ? null
      : { rank: Math.floor((word % EXCHANGE) / RANK), why: why as Ending };
  return { word, exchange: Math.floor(word / EXCHANGE), why, ended };
}
