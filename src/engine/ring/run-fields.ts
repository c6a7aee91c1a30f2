/**
 * What the client asks for and what its learner captured: float64 fields of the ring. The client
 * writes them while no tick is under way that reads them, before the word of the header that
 * publishes them; requester and replay read.
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
   * Poll writes them once, before the journal's head passes that tick; whoever reads the head first
   * sees them whole. The client clears them with the learner.
   */
  nonFiniteTick: 14,
  nonFiniteScalar: 15,
  /**
   * The same of the weights that a tick was to publish: its tick, and the place of the first + 1.
   */
  nonFiniteWeightsTick: 16,
  nonFiniteWeight: 17,
  /** 1: weights are published also when they are no finite numbers */
  publishNonFinite: 18,
  /** exponent of importance weights, two places: the header says which */
  beta: 19,
  /**
   * Means with a learner group: ticks of runs from one to the next (0: none), ticks of earlier runs
   * since the latest one, how many tensors, and of each its handle, byte offset and bytes.
   */
  averageEvery: 21,
  averageCarried: 22,
  averagedTensors: 23,
  tensors: 24,
  /**
   * Where a group's run ended: 1 + the first sequence that is not applied (0: it goes on), which
   * rank ended it, and why (Ending). Poll writes them before it pauses the run, the client clears
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
  /** publish the weights behind every n-th tick; 0: never */
  publishEvery: number;
  /** ticks of earlier runs since the latest mean with a learner group */
  carried?: number;
}

/** What the learner captured, as handles. */
export interface Learner {
  /** one per slot */
  graphs: readonly number[];
  /** how many scalars have names */
  scalars: number;
  /** what a tick can publish, and where to; null: nothing */
  published: {
    weights: number;
    weightsOffset: number;
    weightsBytes: number;
    mailbox: number;
  } | null;
  /** weights are published also when they are no finite numbers */
  nonFinite: boolean;
  /** null: nothing is averaged */
  averages: Averages | null;
}

/** What is averaged with a learner group, and when. */
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
  /** Of the run's ticks, counted from 0. */
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
  /** Whether the run publishes the weights behind this tick. */
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
  /** Null where the group did not end the run. */
  get endedBy(): { rank: number; why: Ending } | null {
    return this.#at(Field.endsAt) === 0
      ? null
      : { rank: this.#at(Field.endedBy), why: this.#at(Field.endedWhy) as Ending };
  }

  // ---- what poll has seen -----------------------------------------------------------------------

  /** Poll only: remembers the first of the learner's scalars that is no finite number. */
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
  /**
   * The first scalar that was no finite number, by its place, and the tick; null while there was
   * none.
   */
  get firstNonFiniteScalar(): { tick: number; scalar: number } | null {
    const place = this.#at(Field.nonFiniteScalar);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteTick), scalar: place - 1 };
  }

  /**
   * Poll only: remembers that a tick's weights hold a number that is none, at `place` (−1: they
   * hold none). True when they may be published. Once they may not, no later version is: it would
   * skip one (Mailbox-2), and would hardly be better.
   */
  noteWeights(tick: number, place: number): boolean {
    if (place >= 0 && this.#at(Field.nonFiniteWeight) === 0) {
      this.#fields[Field.nonFiniteWeightsTick] = tick;
      this.#fields[Field.nonFiniteWeight] = place + 1;
    }
    return this.mayPublish;
  }
  /**
   * False from the first weights on that were no finite numbers, unless such ones are asked for,
   * until a learner is captured.
   */
  get mayPublish(): boolean {
    return this.#at(Field.nonFiniteWeight) === 0 || this.#at(Field.publishNonFinite) === 1;
  }
  /** The first weights that were no finite numbers; null while there were none. */
  get firstNonFiniteWeight(): { tick: number; place: number } | null {
    const place = this.#at(Field.nonFiniteWeight);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteWeightsTick), place: place - 1 };
  }
}
