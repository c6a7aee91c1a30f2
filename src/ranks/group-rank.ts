/**
 * One rank of a learner group, in whichever thread of its process works for it: it tells its vector to all others, and takes theirs
 * once they are there. It waits for nothing. H1 to H6 of src/halo/exchange-words.ts hold; beside them:
 *
 * G1 Every rank sums the same vectors in the order of ranks, its own among them, in float64, and rounds once: all get the same bits.
 * G2 `begun` is stored before anything of an exchange is told, `over` when the caller has put its outcome away. A thread that finds
 *    them unequal comes after one that ended in between, and fails the group: what that one told cannot be told again.
 * G3 The letter before a vector says what it is. A rank that does something else than this one fails the group, and is named.
 */
import { loadAddon, ThreadEnding } from '../addon.ts';
import { type CodedError, type ErrorCode, stateError, typeError, unavailableError } from '../errors.ts';
import { type ExchangeWords, lookElsewhere, RankState } from '../halo/exchange-words.ts';
import { Deadline, LONGEST_PARK_MS } from '../wait/wait.ts';
import {
  checkGroup,
  countsOf,
  groupWords,
  LETTER_BYTES,
  routeOf,
  type SharedLearnerGroup,
  strideOf,
} from './group-shared.ts';

/** What an exchange is for, in words of errors. */
export const Purpose = { average: 1, broadcast: 2 } as const;
export type Purpose = (typeof Purpose)[keyof typeof Purpose];
const inWords = ['nothing', 'averages', 'broadcasts'];

/** How often learners make sure that they still are alike, in exchanges. */
const CHECKED_EVERY = 1000;

interface Means {
  /** in the order of the vectors, each as long as `to`, which may be one of them; summed in float64 */
  mean(to: Float32Array, vectors: readonly Float32Array[]): void;
}

interface Route {
  readonly rank: number;
  /** buffers: what this rank tells that one, and what it is told */
  readonly outgoing: number;
  readonly incoming: number;
  readonly out: readonly Half[];
  readonly in: readonly Half[];
}

interface Half {
  /** purpose, length, ticks between two averages, checksum of what was averaged before (NaN: not now) */
  readonly letter: Float64Array;
  readonly vector: Float32Array;
}

export class GroupRank {
  readonly rank: number;
  readonly ranks: number;
  readonly words: ExchangeWords;
  readonly #elsewhere: boolean;
  readonly #counts: Int32Array;
  readonly #routes: readonly Route[];
  #vector: Float32Array | null = null;
  #letter = [0, 0, 0, Number.NaN];
  #checksum = Number.NaN;
  #reasonUntil: Deadline | null = null;

  constructor(shared: SharedLearnerGroup, rank: number) {
    checkGroup('LearnerGroup', shared);
    const { ranks, parameters, data } = shared;
    this.rank = rank;
    this.ranks = ranks;
    this.words = groupWords(shared);
    this.#elsewhere = shared.elsewhere !== null;
    this.#counts = countsOf(shared, rank);
    const stride = strideOf(parameters);
    const halves = (route: number) =>
      [0, 1].map((half) => {
        const at = data.offset + (2 * route + half) * stride;
        return {
          letter: new Float64Array(data.memory, at, LETTER_BYTES / 8),
          vector: new Float32Array(data.memory, at + LETTER_BYTES, parameters),
        };
      });
    const others = Array.from({ length: ranks }, (_, other) => other).filter((other) => other !== rank);
    this.#routes = others.map((other) => {
      const [outgoing, incoming] = [routeOf(ranks, other, rank), routeOf(ranks, rank, other)];
      return { rank: other, outgoing, incoming, out: halves(outgoing), in: halves(incoming) };
    });
  }

  /** of the latest exchange that was begun; they count from 1 */
  get exchange(): number {
    return Atomics.load(this.#counts, 0);
  }
  /** an exchange was begun, and is not over; by whichever thread */
  get underWay(): boolean {
    return this.exchange !== Atomics.load(this.#counts, 1);
  }
  /** Tells everybody. `vector` is this rank's own until finish(). */
  start(purpose: Purpose, vector: Float32Array, every: number): void {
    this.check();
    const before = this.exchange;
    if (this.underWay)
      this.failing(() => {
        throw stateError('BUSY', `exchange ${before} of rank ${this.rank} is under way, or its thread ended in it`);
      });
    const exchange = before + 1;
    const half = exchange % 2;
    this.#vector = vector;
    this.#letter = [purpose, vector.length, every, exchange % CHECKED_EVERY === 0 ? this.#checksum : Number.NaN];
    Atomics.store(this.#counts, 0, exchange);
    for (const { out } of this.#routes) {
      (out[half] as Half).letter.set(this.#letter);
      (out[half] as Half).vector.set(vector);
    }
    // H1: what came before is read by now.
    if (exchange > 1) for (const { incoming } of this.#routes) this.words.empty(incoming, exchange - 1);
    for (const { outgoing } of this.#routes) this.words.fill(outgoing, exchange);
    // H3
    for (const { rank } of this.#routes) this.words.bell(rank).ring();
  }

  /** Ranks whose part is not there, of the exchange under way. */
  missing(): number[] {
    if (!this.underWay) return [];
    const { exchange } = this;
    return this.#routes.filter(({ incoming }) => !this.words.holds(incoming, exchange)).map(({ rank }) => rank);
  }
  /** Whether all parts are there, or anything else was told; looks for so long, where ranks are elsewhere for `elsewhereMs`. */
  lookFor(ms: number, elsewhereMs = ms): boolean {
    const bell = this.words.bell(this.rank);
    const seen = bell.read();
    if (this.missing().length === 0) return true;
    return this.#elsewhere ? lookElsewhere(bell, seen, elsewhereMs) : bell.look(seen, ms);
  }

  /** H4, H5: one look. True when all parts are there; throws what the group failed of when one will not come. */
  look(): boolean {
    const { failed } = this.words;
    return this.failing(() => {
      const { exchange } = this;
      let whole = true;
      for (const route of this.#routes) {
        // H5: the state first.
        const state = this.words.state(route.rank);
        if (this.words.holds(route.incoming, exchange)) continue;
        whole = false;
        if (state > RankState.open && !this.#mayExplain(state)) throw this.#missed(route.rank, state);
      }
      if (!whole && failed) throw this.failure();
      return whole;
    });
  }

  /** G1: the mean of all vectors, into `to`. */
  average(to: Float32Array): void {
    this.#checkLetters();
    const vectors = Array.from({ length: this.ranks }, (_, rank) => this.#vectorOf(rank).subarray(0, to.length));
    loadAddon<Means>('rows').mean(to, vectors);
    if (this.isCompared) this.compare(to);
  }

  /** The next exchange makes sure that all have the same of this one. */
  get isCompared(): boolean {
    return (this.exchange + 1) % CHECKED_EVERY === 0;
  }
  /** What this rank has of it. */
  compare(values: Float32Array): void {
    this.#checksum = checksum(values);
  }

  /** The vector of one rank. */
  take(rank: number, to: Float32Array): void {
    this.#checkLetters();
    to.set(this.#vectorOf(rank).subarray(0, to.length));
  }

  /** What came of it is put away (G2). */
  finish(): void {
    this.#vector = null;
    Atomics.store(this.#counts, 1, this.exchange);
  }

  /** This rank cannot go on; everybody learns why. */
  fail(error: unknown): void {
    this.words.fail({ rank: this.rank, exchange: this.exchange, error });
    this.words.leave(this.rank, RankState.failed);
  }

  /** What `fn` throws is the end of the group for every rank. */
  failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated is lost, which is found out without it.
      if (!(error instanceof ThreadEnding)) this.fail(error);
      throw error;
    }
  }

  /** Throws when the group has failed, or this rank has left it. */
  check(): void {
    if (this.words.failed) throw this.failure();
    if (this.words.state(this.rank) !== RankState.open)
      throw stateError('CLOSED', `rank ${this.rank} has left the learner group`);
  }

  failure(): CodedError {
    const { rank, exchange, error } = this.words.failure as NonNullable<ExchangeWords['failure']>;
    const { code } = error as { code?: unknown };
    const who =
      rank < 0
        ? 'the learner group was ended from outside'
        : `rank ${rank} of the learner group failed ${exchange === 0 ? 'before its first exchange' : `in exchange ${exchange}`}`;
    const ours = typeof code === 'string' && code.startsWith('ERR_HOTSLOT_');
    return unavailableError(`${who}: ${error.message}`, ours ? (code as ErrorCode) : 'ERR_HOTSLOT_STATE_CLOSED', error);
  }

  #vectorOf(rank: number): Float32Array {
    if (rank === this.rank) return this.#vector as Float32Array;
    const route = this.#routes[rank < this.rank ? rank : rank - 1] as Route;
    return (route.in[this.exchange % 2] as Half).vector;
  }

  /** G3, and every so often that what was averaged before is the same everywhere. */
  #checkLetters(): void {
    const { exchange } = this;
    this.failing(() => {
      const [purpose, length, every, sum] = this.#letter as [number, number, number, number];
      for (const { rank, in: halves } of this.#routes) {
        const { letter } = halves[exchange % 2] as Half;
        const said = (of: ArrayLike<number>) => `${inWords[of[0] as number]} ${of[1]} parameters every ${of[2]} ticks`;
        if (letter[0] !== purpose || letter[1] !== length || letter[2] !== every)
          throw typeError(
            `rank ${rank} ${said(letter)} where rank ${this.rank} ${said(this.#letter)}: learners of a group do the same, in one order`,
          );
        const there = letter[3] as number;
        if (!Number.isNaN(there) && !Number.isNaN(sum) && there !== sum)
          throw stateError(
            'CLOSED',
            `the mean before exchange ${exchange} was not the same for rank ${rank} as for rank ${this.rank}: what one of them was told, or has on its device, changed on the way`,
          );
      }
    });
  }

  /** H6: another thread is just writing down why a rank has failed. */
  #mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.words.failed) return false;
    this.#reasonUntil ??= new Deadline(LONGEST_PARK_MS);
    return this.#reasonUntil.left > 0;
  }

  #missed(rank: number, state: RankState): Error {
    if (this.words.failed) return this.failure();
    const what = `what exchange ${this.exchange} of rank ${this.rank} waits for`;
    const next = 'close every rank, and join a new group from a checkpoint or from what rank 0 has';
    if (state !== RankState.lost)
      return stateError('CLOSED', `rank ${rank} of the learner group left before it told ${what}: ${next}`);
    return unavailableError(
      `the thread of rank ${rank} of the learner group ended before it told ${what}: ${next}`,
      'ERR_HOTSLOT_THREAD_LOST',
    );
  }
}

/** Of all bits: two that differ in one differ. A whole number below 2^53. */
function checksum(values: Float32Array): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  let [low, high] = [1, 0];
  for (let i = 0; i < bits.length; i++) {
    low = (Math.imul(low, 31) + (bits[i] as number)) | 0;
    high = (high + Math.imul(low, 0x9e3779b1)) | 0;
  }
  return (low >>> 0) + (high & 0x1fffff) * 2 ** 32;
}
