/**
 * One rank of a learner group. Each thread that works for the rank has its own object, and only one
 * of these threads works at a time. The object sends the rank's vector to all other ranks, and uses
 * their vectors after these have arrived. Its methods never wait. These rules apply: Exchange-1 to
 * Exchange-6 of src/shm/exchange-control.ts, Group-4 and Group-5 of verdict.ts, and:
 *
 * Group-1  Every rank sums the same vectors, its own included, in the order of ranks, in float64,
 *     and rounds once. So all ranks get the same bits.
 * Group-2  `begun` is stored before any data of an exchange is sent, and `over` after the caller
 *     has stored the outcome. If start() finds that they differ and the rank did not leave the
 *     exchange, the thread that began the exchange died in it. The exchange cannot be repeated, so
 *     the group fails.
 * Group-3  The letter before a vector says what the sender does. If this rank does one thing and
 *     another rank does a different one, the group fails with an error that names that rank.
 * Group-6  A rank whose run ends writes this into its letter. Every rank has the same letters, so all
 *     runs end at that exchange. If one rank was due for a mean, all ranks take the mean, even
 *     ranks that are between two means.
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

/** Number of exchanges from one comparison of means to the next. */
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
   * writes the mean of the vectors to `to`, summed in float64 in their order. Each vector is as
   * long as `to`, and `to` may be one of the vectors
   */
  mean(to: Float32Array, vectors: readonly Float32Array[]): void;
}

interface Route {
  readonly rank: number;
  /**
   * indices of two buffers: the one in which this rank sends to `rank`, and the one in which it
   * receives from `rank`
   */
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
  /** bells of the other ranks */
  readonly #bells: readonly Bell[];
  #vector: Float32Array | null = null;
  readonly #letter = new Float64Array(Letter.count);
  /** for each half, the letters of all ranks in their order, including this rank's letter */
  readonly #letters: readonly (readonly Float64Array[])[];
  /** the latest exchange whose letters were checked */
  #checkedIn = 0;
  /** an exchange, and the checksum of its mean */
  #checksum = { exchange: 0, sum: Number.NaN };
  /** who ended the exchange in the last advance(), and why. Null if it was not ended */
  #ended: Ended | null = null;
  /** the exchange that this rank left and whose missing vectors settle() waits for */
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

  /** True if this rank has left the group. */
  get hasLeft(): boolean {
    return this.words.state(this.rank) === RankState.closed;
  }
  /** Throws if the group has failed or this rank has left it. */
  check(): void {
    this.checkFailed();
    if (this.words.state(this.rank) !== RankState.open)
      throw stateError('CLOSED', `rank ${this.rank} has left the learner group`);
  }
  /** Throws if the group has failed or any rank has left it. */
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
   * Throws if the group has failed. Outside a run, also throws if this rank has left the group.
   * During a run (`inRun`), another thread may close the group at any time. advance() detects this,
   * and the run then ends without a mean.
   */
  #checkMay(inRun: boolean): void {
    if (inRun) this.checkFailed();
    else this.check();
  }

  /** Number of the latest exchange that this rank began, counted from 1, below 2^41. */
  override get exchange(): number {
    return this.#counts.begun.load();
  }
  /**
   * True if this rank began an exchange that is not over and that it has not left, in any thread.
   */
  get underWay(): boolean {
    return this.exchange !== this.#counts.over.load() && !this.#isLeft;
  }
  get #isLeft(): boolean {
    return this.exchange !== this.#counts.over.load() && this.#counts.left.load() === 1;
  }

  /**
   * Group-5: completes an exchange that this rank left. Call it before start(). Returns true if no
   * exchange is open, and false while vectors of that exchange are missing. If a rank has left the
   * group during a run, settle() returns who ended the run and why.
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
   * Begins an exchange: sends a letter and `vector` to all ranks. `vector` must not change until
   * finish(). `every` is the number of ticks from one mean to the next, or 0 outside runs. If this
   * rank's run ends with this exchange, `ends` is the reason.
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

  /** Returns the ranks whose vectors have not arrived in the exchange under way. */
  missing(): number[] {
    if (!this.underWay) return [];
    const { exchange } = this;
    return this.#routes
      .filter(({ incoming }) => !this.words.holds(incoming, exchange))
      .map(({ rank }) => rank);
  }
  /**
   * Spins for `ms`, or for `elsewhereMs` if ranks are in other processes. Returns true if all
   * vectors have arrived or the bell has rung.
   */
  spin(ms: number, elsewhereMs = ms): boolean {
    const bell = this.words.bell(this.rank);
    const count = bell.read();
    if (this.missing().length === 0) return true;
    return this.#elsewhere ? pollElsewhere(bell, count, elsewhereMs) : bell.spin(count, ms);
  }

  /**
   * Exchange-4, Exchange-5: checks once whether the exchange is decided. Returns true if all
   * vectors have arrived or the exchange was ended, and outcome() then returns the result. Returns
   * false if vectors are missing or processes still decide, and the caller must call it again.
   * Throws the group's failure if a vector will not arrive.
   */
  advance(): boolean {
    return this.failing(() => {
      const { exchange } = this;
      this.#ended = null;
      let whole = true;
      for (const route of this.#routes) {
        // Exchange-5: the sender's state is read before the word of its vector. A sender stores the
        // word before it leaves, so a vector that it sent is not missed.
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
  /**
   * Group-4: ends the exchange. Returns false if a rank has already taken the exchange. In that
   * case, all vectors of the exchange will arrive.
   */
  #end(by: Ended): boolean {
    const ends = this.#verdict.end(this.exchange, by);
    if (ends) this.#ended = this.#verdict.endedBy(this.exchange);
    return ends;
  }

  /**
   * Group-6: returns the outcome of the exchange. Call it after advance() returned true. Throws if
   * a rank does something else (Group-3).
   */
  outcome(): Outcome {
    if (this.#ended !== null) return { averages: false, ended: this.#ended };
    return outcomeOf(this.#checked(), this.rank);
  }

  /**
   * Ends the exchange under way for every rank, unless a rank has already taken it. If a rank has
   * taken it, endExchange() returns false, and advance() will soon return true.
   *
   * Call it only if all ranks are in this process. Between processes, questions.ts asks first.
   */
  endExchange(exchange: number, why: Ending): boolean {
    const ended = this.#verdict.end(exchange, { rank: this.rank, why });
    if (ended) this.words.ringAll();
    return ended;
  }

  /** True if the exchange under way was ended for every rank. */
  get isEnded(): boolean {
    return this.#verdict.endedBy(this.exchange) !== null;
  }

  /**
   * Leaves the exchange under way without an outcome. Before the next exchange, settle() waits for
   * its missing vectors (Group-5).
   */
  leave(): void {
    this.#vector = null;
    this.#counts.left.store(1);
  }

  /** Group-1: writes the mean of all vectors to `to`. */
  average(to: Float32Array): void {
    this.#checked();
    const vectors = Array.from({ length: this.words.ranks }, (_, rank) =>
      this.#vectorOf(rank).subarray(0, to.length),
    );
    loadAddon<Means>('rows').mean(to, vectors);
    if (this.isCompared) this.compare(to);
  }

  /** True if the next exchange compares the mean of this one between the ranks. */
  get isCompared(): boolean {
    return (this.exchange + 1) % CHECKED_EVERY === 0;
  }
  /** Stores the checksum of this rank's mean, which the next exchange sends in its letter. */
  compare(values: Float32Array): void {
    this.#checksum = { exchange: this.exchange, sum: checksum(values) };
  }

  /** Copies the vector of `rank` to `to`. */
  take(rank: number, to: Float32Array): void {
    this.#checked();
    to.set(this.#vectorOf(rank).subarray(0, to.length));
  }

  /** Records that the caller has stored the outcome (Group-2). */
  finish(): void {
    this.#vector = null;
    this.#counts.over.store(this.exchange);
  }

  /**
   * True if this rank is in a run, so that it will reach the next exchange. Unknown for ranks of
   * other processes.
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

  /** Group-3: returns the letters of all ranks in their order. Checks them once per exchange. */
  #checked(): readonly Float64Array[] {
    const letters = this.#letters[this.exchange % 2] as readonly Float64Array[];
    if (this.#checkedIn !== this.exchange)
      this.failing(() => checkLetters(letters, this.rank, this.exchange));
    this.#checkedIn = this.exchange;
    return letters;
  }
}
