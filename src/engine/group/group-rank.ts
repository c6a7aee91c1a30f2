/**
 * One rank of a learner group, in whichever thread of its process works for it: it sends its vector
 * to all others, and takes theirs once they are there. It waits for nothing. Exchange-1 to
 * Exchange-6 of src/shm/exchange-control.ts hold, Group-4 and Group-5 of verdict.ts, and:
 *
 * Group-1  Every rank sums the same vectors in the order of ranks, its own among them, in float64,
 *    and rounds once: all get the same bits.
 * Group-2  `begun` is stored before anything of an exchange is sent, `over` when the caller has put
 *    its outcome away. If they are unequal and the rank did not leave that exchange, the thread
 *    that worked for it died in between: the exchange cannot be replayed, and the group fails.
 * Group-3  The letter before a vector says what it is. A rank that does something else than this
 *    one fails the group, and is named.
 * Group-6  A rank whose run ends says so in a letter. Every rank has the same letters, so all runs
 *    end at that exchange. If one of them was due for a mean, all take it, in the middle between
 *    two means or not.
 */
import { loadAddon } from '../../base/addon.ts';
import { stateError } from '../../base/errors.ts';
import type { Bell } from '../../shm/bell.ts';
import { Ending } from '../../shm/ending.ts';
import { pollElsewhere, RankState } from '../../shm/exchange-control.ts';
import { ExchangeMember, type ExchangeTexts } from '../../shm/exchange-member.ts';
import {
  type Counts,
  checkGroup,
  countsOf,
  groupControlWords,
  LETTER_BYTES,
  routeOf,
  type SharedLearnerGroup,
  strideOf,
  verdictOf,
} from './group-shared.ts';
import { checkLetters, checksum, Letter, outcomeOf, type Purpose } from './letter.ts';
import type { Ended, Outcome, Verdict } from './verdict.ts';

/** Exchanges from one comparison of means to the next. */
const CHECKED_EVERY = 1000;

const texts: ExchangeTexts = {
  whole: 'the learner group',
  of: ' of the learner group',
  closed: 'left',
  failed: 'left',
  sent: 'told',
  next: 'close every rank, and join a new group with parameters from a checkpoint or of rank 0',
};

interface Means {
  /**
   * in the order of the vectors, each as long as `to`, which may be one of them, summed in float64
   */
  mean(to: Float32Array, vectors: readonly Float32Array[]): void;
}

interface Route {
  readonly rank: number;
  /** buffers: what this rank sends to that one, and what it receives */
  readonly outgoing: number;
  readonly incoming: number;
  readonly out: readonly Half[];
  readonly in: readonly Half[];
}

interface Half {
  readonly letter: Float64Array;
  readonly vector: Float32Array;
}

export class GroupRank extends ExchangeMember {
  readonly #elsewhere: boolean;
  readonly #counts: Counts;
  readonly #verdict: Verdict;
  readonly #routes: readonly Route[];
  /** of the others */
  readonly #bells: readonly Bell[];
  #vector: Float32Array | null = null;
  readonly #letter = new Float64Array(Letter.count);
  /** of each half, in the order of ranks, this rank's own among them */
  readonly #letters: readonly (readonly Float64Array[])[];
  /** the latest exchange whose letters were checked */
  #checkedIn = 0;
  /** of what was averaged in that exchange */
  #checksum = { exchange: 0, sum: Number.NaN };
  /** what ended the exchange that was looked at last, before its parts were there */
  #ended: Ended | null = null;
  /** the exchange that this object waits for because the rank left it */
  #settling = 0;

  constructor(shared: SharedLearnerGroup, rank: number) {
    checkGroup('LearnerGroup', shared);
    const { ranks, parameters, data } = shared;
    super(groupControlWords(shared), rank, texts);
    this.#elsewhere = shared.elsewhere !== null;
    this.#counts = countsOf(shared, rank);
    this.#verdict = verdictOf(shared);
    const stride = strideOf(parameters);
    const halves = (route: number) =>
      [0, 1].map((half) => {
        const at = data.offset + (2 * route + half) * stride;
        return {
          letter: new Float64Array(data.memory, at, LETTER_BYTES / 8),
          vector: new Float32Array(data.memory, at + LETTER_BYTES, parameters),
        };
      });
    const others = Array.from({ length: ranks }, (_, other) => other).filter(
      (other) => other !== rank,
    );
    this.#routes = others.map((other) => {
      const [outgoing, incoming] = [routeOf(ranks, other, rank), routeOf(ranks, rank, other)];
      return { rank: other, outgoing, incoming, out: halves(outgoing), in: halves(incoming) };
    });
    this.#bells = others.map((other) => this.words.bell(other));
    const letters = (half: number) => this.#routes.map((route) => (route.in[half] as Half).letter);
    this.#letters = [0, 1].map((half) => letters(half).toSpliced(rank, 0, this.#letter));
  }

  /** This rank has left the group. */
  get hasLeft(): boolean {
    return this.words.state(this.rank) === RankState.closed;
  }
  /** Throws when the group has failed, or this rank has left it. */
  check(): void {
    this.checkFailed();
    if (this.words.state(this.rank) !== RankState.open)
      throw stateError('CLOSED', `rank ${this.rank} has left the learner group`);
  }
  /** Throws too when another rank has left. */
  checkWhole(): void {
    this.check();
    for (let rank = 0; rank < this.words.ranks; rank++)
      if (this.words.state(rank) > RankState.open)
        throw stateError(
          'CLOSED',
          `rank ${rank} has left the learner group: close every rank, and join a new group`,
        );
  }

  /**
   * In a run another thread may close the group between any two words: look() finds it, and the run
   * ends without a mean.
   */
  #checkMay(inRun: boolean): void {
    if (inRun) this.checkFailed();
    else this.check();
  }

  /** number of the latest exchange that was begun, counted from 1, below 2^41 */
  override get exchange(): number {
    return this.#counts.begun.load();
  }
  /** an exchange was begun, is not over, and was not left, by whichever thread */
  get underWay(): boolean {
    return this.exchange !== this.#counts.over.load() && !this.#isLeft;
  }
  get #isLeft(): boolean {
    return this.exchange !== this.#counts.over.load() && this.#counts.left.load() === 1;
  }

  /**
   * Group-5: call this before start(). Returns true when nothing is open any more, and what ended
   * the run when a rank has left the group. Returns false while parts of an exchange that this rank
   * left are missing.
   */
  settle(inRun: boolean): boolean | Ended {
    if (inRun && this.hasLeft) return { rank: this.rank, why: Ending.stopped };
    this.#checkMay(inRun);
    if (this.#isLeft) {
      this.#settling = this.exchange;
      this.#counts.left.store(0);
    }
    if (!this.underWay || this.#settling !== this.exchange) return true;
    return this.failing(() => {
      for (const route of this.#routes) {
        const state = this.words.state(route.rank);
        if (this.words.holds(route.incoming, this.exchange)) continue;
        if (state === RankState.closed && inRun) return { rank: route.rank, why: Ending.stopped };
        this.checkArrives(route.rank, state);
        this.checkFailed();
        return false;
      }
      this.finish();
      return true;
    });
  }

  /**
   * Sends this rank's part to everybody. `vector` is this rank's own until finish(). `ends`: this
   * rank's run ends with this exchange.
   */
  start(purpose: Purpose, vector: Float32Array, every: number, ends: Ending = Ending.none): void {
    this.#checkMay(every !== 0);
    const before = this.exchange;
    if (before !== this.#counts.over.load())
      this.failing(() => {
        throw stateError('BUSY', `${this.where()} is under way, or its thread ended in it`);
      });
    const exchange = before + 1;
    const half = exchange % 2;
    this.#vector = vector;
    const compares = exchange % CHECKED_EVERY === 0 && this.#checksum.exchange === before;
    this.#letter.set([
      purpose,
      vector.length,
      every,
      compares ? this.#checksum.sum : Number.NaN,
      ends,
    ]);
    this.#counts.left.store(0);
    this.#counts.begun.store(exchange);
    for (const { out } of this.#routes) {
      (out[half] as Half).letter.set(this.#letter);
      (out[half] as Half).vector.set(vector);
    }
    this.send(this.#routes, this.#bells);
  }

  /** Ranks whose part is not there, of the exchange that this rank waits for. */
  missing(): number[] {
    if (!this.underWay) return [];
    const { exchange } = this;
    return this.#routes
      .filter(({ incoming }) => !this.words.holds(incoming, exchange))
      .map(({ rank }) => rank);
  }
  /**
   * Whether all parts are there, or anything else has arrived. Looks for `ms`, or for `elsewhereMs`
   * if ranks are elsewhere.
   */
  spin(ms: number, elsewhereMs = ms): boolean {
    const bell = this.words.bell(this.rank);
    const knownCount = bell.read();
    if (this.missing().length === 0) return true;
    return this.#elsewhere
      ? pollElsewhere(bell, knownCount, elsewhereMs)
      : bell.spin(knownCount, ms);
  }

  /**
   * Exchange-4, Exchange-5: one look. True once it is decided what the exchange came to: see
   * outcome(). False while parts are missing or other processes decide. Throws the group's failure
   * when a part will not come.
   */
  advance(): boolean {
    return this.failing(() => {
      const { exchange } = this;
      this.#ended = null;
      let whole = true;
      for (const route of this.#routes) {
        // Exchange-5: the state first.
        const state = this.words.state(route.rank);
        if (this.words.holds(route.incoming, exchange)) continue;
        whole = false;
        if (state === RankState.closed && this.#inRun)
          return this.#end({ rank: route.rank, why: Ending.stopped });
        this.checkArrives(route.rank, state);
      }
      if (whole) {
        const ended = this.#verdict.take(exchange);
        if (ended === 'asked') return false;
        if (ended !== null && !this.#inRun)
          throw stateError('CLOSED', `rank ${ended.rank} of the learner group ended a run here`);
        this.#ended = ended;
        return true;
      }
      this.checkFailed();
      if (this.hasLeft && this.#inRun) return this.#end({ rank: this.rank, why: Ending.stopped });
      this.#ended = this.#verdict.endedBy(exchange);
      return this.#ended !== null;
    });
  }
  get #inRun(): boolean {
    return this.#letter[Letter.every] !== 0;
  }
  /** Group-4: false if a rank took the exchange, whose parts are then all on their way. */
  #end(by: Ended): boolean {
    const ends = this.#verdict.end(this.exchange, by);
    if (ends) this.#ended = this.#verdict.endedBy(this.exchange);
    return ends;
  }

  /**
   * Group-6: what the exchange came to, once look() has said that it is decided. Throws for a rank
   * that does something else (Group-3).
   */
  outcome(): Outcome {
    if (this.#ended !== null) return { averages: false, ended: this.#ended };
    return outcomeOf(this.#checked(), this.rank);
  }

  /**
   * Ends the exchange under way for every rank, unless one of them has taken it. In that case it
   * returns false, and the outcome comes soon. Call it in the process of all ranks. Between
   * processes questions.ts asks first.
   */
  endExchange(exchange: number, why: Ending): boolean {
    const ended = this.#verdict.end(exchange, { rank: this.rank, why });
    if (ended) this.words.ringAll();
    return ended;
  }

  /** The exchange under way was ended for every rank. */
  get isEnded(): boolean {
    return this.#verdict.endedBy(this.exchange) !== null;
  }

  /**
   * Leaves the exchange under way without an outcome: the parts that are missing are waited for
   * before the next one (Group-5).
   */
  leave(): void {
    this.#vector = null;
    this.#counts.left.store(1);
  }

  /** Group-1: the mean of all vectors, into `to`. */
  average(to: Float32Array): void {
    this.#checked();
    const vectors = Array.from({ length: this.words.ranks }, (_, rank) =>
      this.#vectorOf(rank).subarray(0, to.length),
    );
    loadAddon<Means>('rows').mean(to, vectors);
    if (this.isCompared) this.compare(to);
  }

  /** The next exchange makes sure that all have the same of this one. */
  get isCompared(): boolean {
    return (this.exchange + 1) % CHECKED_EVERY === 0;
  }
  /** Keeps the checksum of this rank's values of it. */
  compare(values: Float32Array): void {
    this.#checksum = { exchange: this.exchange, sum: checksum(values) };
  }

  /** The vector of one rank. */
  take(rank: number, to: Float32Array): void {
    this.#checked();
    to.set(this.#vectorOf(rank).subarray(0, to.length));
  }

  /** Records that the outcome is put away (Group-2). */
  finish(): void {
    this.#vector = null;
    this.#counts.over.store(this.exchange);
  }

  /**
   * A rank's run goes on: it is to come to the next exchange. Unknown for ranks of other processes.
   */
  get runs(): boolean {
    return this.#counts.runs.load() === 1;
  }
  setRuns(runs: boolean): void {
    this.#counts.runs.store(Number(runs));
  }

  #vectorOf(rank: number): Float32Array {
    if (rank === this.rank) return this.#vector as Float32Array;
    const route = this.#routes[rank < this.rank ? rank : rank - 1] as Route;
    return (route.in[this.exchange % 2] as Half).vector;
  }

  /** Group-3: the letters of all ranks, in their order, checked once in each exchange. */
  #checked(): readonly Float64Array[] {
    const letters = this.#letters[this.exchange % 2] as readonly Float64Array[];
    if (this.#checkedIn !== this.exchange)
      this.failing(() => checkLetters(letters, this.rank, this.exchange));
    this.#checkedIn = this.exchange;
    return letters;
  }
}
