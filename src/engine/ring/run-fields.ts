/**
 * The client's requests and the handles of the learner that it captured, as float64 fields of the
 * ring. The client writes a field while no tick that reads the field is under way. The client then
 * writes the word of the header that publishes the field. Requester, replay and poll read the
 * fields.
 */
import type { Ending } from '../../shm/ending.ts';

const Field = {
  /** the manual tick that startPrepare() requested */
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
  /**
   * of the captured learner: handles of the weights and the mailbox (0 for none), and the offset
   * and bytes of the weights
   */
  weights: 9,
  weightsOffset: 10,
  weightsBytes: 11,
  mailbox: 12,
  /** number of the learner's scalars that have names */
  scalars: 13,
  /**
   * The first named scalar that was NaN or infinite: its tick, and its index + 1 (0 for none). Poll
   * writes both values once, before the journal's head passes that tick. So a reader that reads the
   * head first sees both values whole. The client clears them when a learner is captured.
   */
  nonFiniteTick: 14,
  nonFiniteScalar: 15,
  /**
   * The same for the weights that a tick was about to publish: the tick, and the index + 1 of the
   * first non-finite weight.
   */
  nonFiniteWeightsTick: 16,
  nonFiniteWeight: 17,
  /** 1 if non-finite weights are published too */
  publishNonFinite: 18,
  /** exponent of importance weights: two fields, and a word of the header says which one applies */
  beta: 19,
  /**
   * Means with a learner group. First the ticks of runs between two means (0: no means), the ticks
   * of earlier runs since the latest mean, and the number of tensors. Then the handle, byte offset
   * and bytes of each tensor.
   */
  averageEvery: 21,
  averageCarried: 22,
  averagedTensors: 23,
  tensors: 24,
  /**
   * The end of a group's run. First 1 + the first sequence that is not applied (0: none), then the
   * rank that ended the run, then the reason (Ending). Poll writes these fields before it pauses
   * the run. The client clears them.
   */
  endsAt: 48,
  endedBy: 49,
  endedWhy: 50,
  /** handle of the graph of each slot, from this index on */
  graphs: 51,
} as const;
/** Maximum number of a learner's tensors that are averaged. */
export const MAX_AVERAGED = 8;
export const MAX_SLOTS = 64;
const WORD = 2 ** 32;

/** The tick that a manual request asks for. */
export interface TickRequest {
  tick: number;
  rows: number;
  /** pack waits until the buffer's ptr reaches this value */
  minPtr: number;
}

/** An autonomous run. */
export interface RunRequest {
  firstSequence: number;
  firstTick: number;
  ticks: number;
  rows: number;
  /** the weights are published after every n-th tick, 0 for never */
  publishEvery: number;
  /** ticks of earlier runs since the latest mean with a learner group */
  carried?: number;
}

/** A captured learner, described by handles. */
export interface Learner {
  /** the graph of each slot */
  graphs: readonly number[];
  /** number of scalars that have names */
  scalars: number;
  /** the weights that a tick can publish and their mailbox, or null */
  published: {
    weights: number;
    weightsOffset: number;
    weightsBytes: number;
    mailbox: number;
  } | null;
  /** whether non-finite weights are published too */
  nonFinite: boolean;
  /** null without a learner group */
  averages: Averages | null;
}

/** Tensors that are averaged with a learner group, every `every` ticks. */
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
  /** Returns the index of a sequence among the ticks of the run, from 0. */
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
  /** Returns true if the run publishes the weights after this tick. */
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
   * Returns true if the parameters are averaged after this tick. Only ticks of runs count, not
   * manual ticks.
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

  /**
   * Poll, before it pauses the run: ends the run before `sequence`. Batches of that sequence and
   * later ones are taken back.
   */
  endAt(sequence: number, rank: number, why: number): void {
    this.#fields[Field.endedBy] = rank;
    this.#fields[Field.endedWhy] = why;
    this.#fields[Field.endsAt] = sequence + 1;
  }
  get endsAt(): number {
    return this.#at(Field.endsAt) === 0 ? Number.POSITIVE_INFINITY : this.#at(Field.endsAt) - 1;
  }
  /** The rank that ended the run and its reason, or null if the group did not end it. */
  get endedBy(): { rank: number; why: Ending } | null {
    return this.#at(Field.endsAt) === 0
      ? null
      : { rank: this.#at(Field.endedBy), why: this.#at(Field.endedWhy) as Ending };
  }

  // ---- what poll has seen -----------------------------------------------------------------------

  /**
   * Poll only: stores the first of the learner's named scalars that is not finite, if none is
   * stored yet.
   */
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
  /** Tick and index of the first scalar that was not finite, or null. */
  get firstNonFiniteScalar(): { tick: number; scalar: number } | null {
    const place = this.#at(Field.nonFiniteScalar);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteTick), scalar: place - 1 };
  }

  /**
   * Poll only: stores the tick and index of the first non-finite weight, if none is stored yet.
   * `place` is −1 if all weights are finite. Returns true if the weights may be published.
   *
   * After a refusal no later version is published. A later version would skip a version
   * (Mailbox-2), and its weights would hardly be better.
   */
  noteWeights(tick: number, place: number): boolean {
    if (place >= 0 && this.#at(Field.nonFiniteWeight) === 0) {
      this.#fields[Field.nonFiniteWeightsTick] = tick;
      this.#fields[Field.nonFiniteWeight] = place + 1;
    }
    return this.mayPublish;
  }
  /**
   * False after the first non-finite weights, until a learner is captured. Always true if the
   * client asked to publish non-finite weights.
   */
  get mayPublish(): boolean {
    return this.#at(Field.nonFiniteWeight) === 0 || this.#at(Field.publishNonFinite) === 1;
  }
  /** Tick and index of the first weight that was not finite, or null. */
  get firstNonFiniteWeight(): { tick: number; place: number } | null {
    const place = this.#at(Field.nonFiniteWeight);
    return place === 0 ? null : { tick: this.#at(Field.nonFiniteWeightsTick), place: place - 1 };
  }
}
