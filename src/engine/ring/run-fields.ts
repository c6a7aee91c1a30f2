/**
 * The client's requests and the handles that its learner captured: float64 fields of the ring. The
 * client writes them while no tick is under way that reads them, before the word of the header that
 * publishes them. Requester and replay read them.
 */
import type { Ending } from '../../shm/ending.ts';

const Field = {
  /** the request that startPrepare left */
  tick: 0,
  rows: 1,
  minPtr: 2,
  /** the autonomous run: tick = firstTick + (sequence − firstSequence), for `ticks` ticks */
  firstTick: 3,
  firstSequence: 4,
  ticks: 5,
  runRows: 6,
  publishEvery: 7,
  baseSeed: 8,
  /** what the learner captured: handles (0 for none) and where its weights lie */
  weights: 9,
  weightsOffset: 10,
  weightsBytes: 11,
  mailbox: 12,
  /** how many of its scalars have names */
  scalars: 13,
  /**
   * The first named scalar that was NaN or infinite: its tick, and its place + 1 (0: none yet).
   * Poll writes both once, before the journal's head passes that tick, so that a reader that reads
   * the head first sees them whole. The client clears them with the learner.
   */
  nonFiniteTick: 14,
  nonFiniteScalar: 15,
  /**
   * The same of the weights that a tick was to publish: its tick, and the place of the first + 1.
   */
  nonFiniteWeightsTick: 16,
  nonFiniteWeight: 17,
  /** 1: non-finite weights are published too */
  publishNonFinite: 18,
  /** exponent of importance weights, two places: the header says which */
  beta: 19,
  /**
   * Means with a learner group: ticks of runs from one mean to the next (0: none), ticks of earlier
   * runs since the latest one, and the number of tensors. Then the handle, byte offset and bytes of
   * each tensor.
   */
  averageEvery: 21,
  averageCarried: 22,
  averagedTensors: 23,
  tensors: 24,
  /**
   * The end of a group's run: 1 + the first sequence that is not applied (0: it goes on), the rank
   * that ended it, and why (Ending). Poll writes them before it pauses the run, the client clears
   * them.
   */
  endsAt: 48,
  endedBy: 49,
  endedWhy: 50,
  /** one graph per slot from here on */
  graphs: 51,
} as const;
/** Tensors of a learner that can be averaged. */
export const MAX_AVERAGED = 8;
export const MAX_SLOTS = 64;
const WORD = 2 ** 32;

/** The tick that a manual request asks for. */
export interface TickRequest {
  tick: number;
  rows: number;
  /** pack waits until the buffer's ptr reaches it */
  minPtr: number;
}

/** An autonomous run. */
export interface RunRequest {
  firstSequence: number;
  firstTick: number;
  ticks: number;
  rows: number;
  /** publish the weights after every n-th tick, 0: never */
  publishEvery: number;
  /** ticks of earlier runs since the latest mean with a learner group */
  carried?: number;
}

/** A captured learner, as handles. */
export interface Learner {
  /** one per slot */
  graphs: readonly number[];
  /** how many scalars have names */
  scalars: number;
  /** weights that a tick can publish, and the mailbox for them, or null */
  published: {
    weights: number;
    weightsOffset: number;
    weightsBytes: number;
    mailbox: number;
  } | null;
  /** non-finite weights are published too */
  nonFinite: boolean;
  /** null: nothing is averaged */
  averages: Averages | null;
}

/** Tensors that are averaged with a learner group, and how often. */
export interface Averages {
  every: number;
  tensors: readonly { handle: number; byteOffset: number; bytes: number }[];
}

export class RunFields {
  static readonly count = Field.graphs + MAX_SLOTS;
  readonly #fields: Float64Array;
  readonly #depth: number;

  constructor(fields: Float64Array, depth: number) {
    this.#fields = fields;
    this.#depth = depth;
  }
  #at(field: number): number {
    return this.#fields[field] as number;
  }

  // ---- the client's -----------------------------------------------------------------------------

  setBaseSeed(seed: number): void {
    this.#fields[Field.baseSeed] = seed % WORD;
  }
  setBeta(place: number, beta: number): void {
    this.#fields[Field.beta + place] = beta;
  }
  setTick({ tick, rows, minPtr }: TickRequest): void {
    this.#fields[Field.tick] = tick;
    this.#fields[Field.rows] = rows;
    this.#fields[Field.minPtr] = minPtr;
  }
  setRun({ firstSequence, firstTick, ticks, rows, publishEvery, carried = 0 }: RunRequest): void {
    this.#fields[Field.firstSequence] = firstSequence;
    this.#fields[Field.firstTick] = firstTick;
    this.#fields[Field.ticks] = ticks;
    this.#fields[Field.runRows] = rows;
    this.#fields[Field.publishEvery] = publishEvery;
    this.#fields[Field.averageCarried] = carried;
    this.#fields[Field.endsAt] = 0;
  }
  setLearner({ graphs, scalars, published, nonFinite, averages }: Learner): void {
    this.#fields[Field.scalars] = scalars;
    this.#fields[Field.nonFiniteScalar] = 0;
    this.#fields[Field.nonFiniteWeight] = 0;
    this.#fields[Field.publishNonFinite] = nonFinite ? 1 : 0;
    this.#fields[Field.weights] = published?.weights ?? 0;
    this.#fields[Field.weightsOffset] = published?.weightsOffset ?? 0;
    this.#fields[Field.weightsBytes] = published?.weightsBytes ?? 0;
    this.#fields[Field.mailbox] = published?.mailbox ?? 0;
    this.#fields[Field.averageEvery] = averages?.every ?? 0;
    this.#fields[Field.averagedTensors] = averages?.tensors.length ?? 0;
    for (const [i, { handle, byteOffset, bytes }] of (averages?.tensors ?? []).entries())
      this.#fields.set([handle, byteOffset, bytes], Field.tensors + 3 * i);
    this.#fields.set(graphs, Field.graphs);
  }

  // ---- the manual request -----------------------------------------------------------------------

  get tick(): number {
    return this.#at(Field.tick);
  }
  get rows(): number {
    return this.#at(Field.rows);
  }
  get minPtr(): number {
    return this.#at(Field.minPtr);
  }

  // ---- the run ----------------------------------------------------------------------------------

  get runRows(): number {
    return this.#at(Field.runRows);
  }
  /** Returns the index of a sequence among the run's ticks, counted from 0. */
  nthOf(sequence: number): number {
    return sequence - this.#at(Field.firstSequence);
  }
  holds(sequence: number): boolean {
    return this.nthOf(sequence) < this.#at(Field.ticks);
  }
  isLast(sequence: number): boolean {
    return this.nthOf(sequence) + 1 === this.#at(Field.ticks);
  }
  tickOf(sequence: number): number {
    return this.#at(Field.firstTick) + this.nthOf(sequence);
  }
  /** Whether the run publishes the weights after this tick. */
  publishes(sequence: number): boolean {
    const every = this.#at(Field.publishEvery);
    return every > 0 && (this.nthOf(sequence) + 1) % every === 0;
  }
  beta(place: number): number {
    return this.#at(Field.beta + place);
  }
  seedOf(tick: number): number {
    return (this.#at(Field.baseSeed) + (tick % WORD)) % WORD;
  }

  // ---- the learner ------------------------------------------------------------------------------

  get hasWeights(): boolean {
    return this.#at(Field.weights) !== 0;
  }
  get learner(): Omit<Learner, 'averages'> {
    const graphs = [...this.#fields.subarray(Field.graphs, Field.graphs + this.#depth)];
    const published = {
      weights: this.#at(Field.weights),
      weightsOffset: this.#at(Field.weightsOffset),
      weightsBytes: this.#at(Field.weightsBytes),
      mailbox: this.#at(Field.mailbox),
    };
    const nonFinite = this.#at(Field.publishNonFinite) === 1;
    return {
      graphs,
      scalars: this.#at(Field.scalars),
      published: this.hasWeights ? published : null,
      nonFinite,
    };
  }

  get averageEvery(): number {
    return this.#at(Field.averageEvery);
  }
  /**
   * Whether this is a tick of the run after which the parameters are averaged. Ticks of runs count,
   * manual ones do not.
   */
  averages(sequence: number): boolean {
    const every = this.averageEvery;
    const nth = this.nthOf(sequence);
    return every > 0 && nth >= 0 && (this.#at(Field.averageCarried) + nth + 1) % every === 0;
  }
  get averagedTensors(): Pick<Averages, 'tensors'> {
    const tensors = Array.from({ length: this.#at(Field.averagedTensors) }, (_, i) => {
      const [handle, byteOffset, bytes] = this.#fields.subarray(
        Field.tensors + 3 * i,
      ) as unknown as [number, number, number];
      return { handle, byteOffset, bytes };
    });
    return { tensors };
  }
  // ---- the end of a group's run -----------------------------------------------------------------

  /** Poll, before it pauses the run: sequences from `sequence` on are given back. */
  endAt(sequence: number, rank: number, why: number): void {
    this.#fields[Field.endedBy] = rank;
    this.#fields[Field.endedWhy] = why;
    this.#fields[Field.endsAt] = sequence + 1;
  }
  get endsAt(): number {
    return this.#at(Field.endsAt) === 0 ? Number.POSITIVE_INFINITY : this.#at(Field.endsAt) - 1;
  }
  /** Null if the group did not end the run. */
  get endedBy(): { rank: number; why: Ending } | null {
    return this.#at(Field.endsAt) === 0
      ? null
      : { rank: this.#at(Field.endedBy), why: this.#at(Field.endedWhy) as Ending };
  }

  // ---- what poll has seen -----------------------------------------------------------------------

  /** Poll only: remembers the first of the learner's scalars that is not finite. */
  noteScalars(tick: number, scalars: Float32Array): void {
    if (this.#at(Field.nonFiniteScalar) !== 0) return;
    const named = this.#at(Field.scalars);
    for (let i = 0; i < named; i++)
      if (!Number.isFinite(scalars[i])) {
        this.#fields[Field.nonFiniteTick] = tick;
        this.#fields[Field.nonFiniteScalar] = i + 1;
        return;
      }
  }
  /** Place and tick of the first scalar that was not finite, or null. */
  get firstNonFiniteScalar(): { tick: number; scalar: number } | null {
    const place = this.#at(Field.nonFiniteScalar);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteTick), scalar: place - 1 };
  }

  /**
   * Poll only: remembers that a tick's weights hold a non-finite number at `place` (−1: all are
   * finite). Returns true if they may be published. After a refusal no later version is published:
   * it would skip one (Mailbox-2), and would hardly be better.
   */
  noteWeights(tick: number, place: number): boolean {
    if (place >= 0 && this.#at(Field.nonFiniteWeight) === 0) {
      this.#fields[Field.nonFiniteWeightsTick] = tick;
      this.#fields[Field.nonFiniteWeight] = place + 1;
    }
    return this.mayPublish;
  }
  /**
   * False from the first non-finite weights until a learner is captured, unless non-finite weights
   * are asked for.
   */
  get mayPublish(): boolean {
    return this.#at(Field.nonFiniteWeight) === 0 || this.#at(Field.publishNonFinite) === 1;
  }
  /** Tick and place of the first weight that was not finite, or null. */
  get firstNonFiniteWeight(): { tick: number; place: number } | null {
    const place = this.#at(Field.nonFiniteWeight);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteWeightsTick), place: place - 1 };
  }
}
