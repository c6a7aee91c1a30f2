/**
 * The verdict about a learner group's latest exchange: either all ranks take its result, or it is
 * ended for all. A rank that ends its wait cannot take back the parameters that it sent. The last
 * missing parameters of other ranks may be arriving at that moment. So one word in shared memory
 * decides for all ranks of a process.
 *
 * Group-4  A rank uses the result of exchange n only after the word says that n was taken. It ends
 *     its wait for n only after the word says that n was ended. The first change of the word wins:
 *     a mean is used by every rank or by none.
 * Group-5  Every rank sends its vector in every exchange, even in an exchange that was ended
 *     (Exchange-1 and Exchange-2 rely on it). A rank that left an exchange (`left`) receives all
 *     vectors of that exchange before it starts the next.
 */
import { Ending } from '../../shm/ending.ts';
import { Int64 } from '../../shm/int64.ts';

/** Which rank ended an exchange, and why. */
export interface Ended {
  readonly rank: number;
  readonly why: Ending;
}

/**
 * The outcome of an exchange. It is the same for every rank, except that `ended` may name another
 * rank.
 */
export interface Outcome {
  /** whether the vectors of all ranks are averaged */
  readonly averages: boolean;
  /**
   * the rank that ends the run with this exchange and its reason: this rank if it ends its run,
   * else the first that does. Null if the run continues
   */
  readonly ended: Ended | null;
}

/** Factors of a word, which is EXCHANGE × exchange + RANK × rank + reason, below 2^53. */
const EXCHANGE = 2 ** 12;
const RANK = 2 ** 4;
/**
 * Value in place of a reason while the processes decide whether an exchange ends. A process has
 * asked the others to end it, and will send the decision.
 */
const ASKED = 15;

/** Number of int64 words of a verdict. */
export const VERDICT_WORDS = 2;

interface Decision {
  readonly word: number;
  readonly exchange: number;
  readonly why: number;
  readonly ended: Ended | null;
}

export class Verdict {
  /** exchange, rank and reason of the latest verdict. Reason 0 means that the exchange was taken */
  readonly #latest: Int64;
  /** the verdict about the exchange before, if that exchange was ended */
  readonly #before: Int64;

  /**
   * Attaches the two words. The second word keeps the verdict about the previous exchange. Another
   * process may ask about the next exchange before the rank here has read the previous verdict.
   *
   * One earlier verdict suffices. The other process asks about a later exchange only after the rank
   * here has sent its vector for the exchange before it (Group-5).
   */
  constructor(words: BigInt64Array) {
    this.#latest = new Int64(words, 0);
    this.#before = new Int64(words, 1);
  }

  /**
   * Takes an exchange whose vectors have all arrived. Returns null if the exchange is taken,
   * 'asked' while processes decide, or who ended the exchange and why.
   */
  take(exchange: number): Ended | 'asked' | null {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange);
      if (now.exchange === exchange) return now.why === ASKED ? 'asked' : now.ended;
      if (this.#move(now.word, exchange, 0, Ending.none)) return null;
    }
  }

  /**
   * Ends an exchange for all ranks, unless it was taken. Returns true if it is ended, by this call
   * or an earlier one.
   */
  end(exchange: number, { rank, why }: Ended): boolean {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange) !== null;
      if (now.exchange === exchange && now.why !== ASKED) return now.ended !== null;
      if (this.#move(now.word, exchange, rank, why)) return true;
    }
  }

  /** Returns who ended this exchange and why, or null if it was not ended. */
  endedBy(exchange: number): Ended | null {
    const now = decode(this.#latest.load());
    if (now.exchange > exchange) return this.#endedBefore(exchange);
    return now.exchange === exchange && now.why !== ASKED ? now.ended : null;
  }

  /**
   * Records that a process asks to end an exchange. No rank here takes the exchange until resume()
   * or end(). Returns false if it is already taken.
   */
  ask(exchange: number): boolean {
    for (;;) {
      const now = decode(this.#latest.load());
      if (now.exchange > exchange) return this.#endedBefore(exchange) !== null;
      if (now.exchange === exchange) return now.why !== Ending.none;
      // The verdict about the previous exchange is stored in the second word before the first word
      // changes. So a rank that reads the new first word also finds that verdict.
      if (now.ended !== null) this.#before.store(now.word);
      if (this.#move(now.word, exchange, 0, ASKED as Ending)) return true;
    }
  }
  isRequested(exchange: number): boolean {
    const now = decode(this.#latest.load());
    return now.exchange === exchange && now.why === ASKED;
  }
  /**
   * Takes an exchange for which a process had asked to end it, because another process had already
   * taken it.
   */
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
