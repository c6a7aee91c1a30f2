/**
 * The ring in shared memory: header, bells, slots' words and records. It knows no device and no buffer; actors and the
 * pipeline meet only here. Every control word is an Int32 touched with Atomics.
 */

import { allocateShared, type Place } from '../shared-memory.ts';
import { BELL_WORDS, type Bell, BellBoard } from '../wait/bell.ts';
import { type Failure, FailureNote } from './failure.ts';
import { Journal, type JournalShare } from './journal.ts';
import {
  Field,
  packWord,
  RECORD_FIELDS,
  type Role,
  roles,
  SEQUENCE_MASK,
  SlotState,
  sequenceDistance,
  sequenceOf,
  stateOf,
} from './slot.ts';

/** Int32 words of one cache line */
const LINE = 16;
export const MOST_THREADS = 4;
/** index of the bell of the thread that opened the pipeline */
export const CLIENT = MOST_THREADS;

/** Header words, one line each where two threads would otherwise share it. */
const Header = {
  /** 1: everybody leaves; written by the opener, before it rings every bell (I6) */
  stop: 0 * LINE,
  /** see Mode; written by the opener while no tick is under way */
  mode: 1 * LINE,
  /** the client wants its bell when every sequence before this is over (wrapped), −1 for none; written by the client */
  goal: 2 * LINE,
  /** what the requester waits for (Gate); written by the requester */
  gate: 3 * LINE,
  /** which pause requester and replay have seen; each writes its own, the client compares them with `pauses` */
  pauseSeen: 3 * LINE + 1,
  /** pauses ever asked for; written by the client before the mode */
  pauses: 1 * LINE + 1,
  /** manual ticks: every sequence before this (wrapped) is asked for; written by the client, after the run fields */
  asked: 4 * LINE,
  /** ThreadState per thread */
  threads: 5 * LINE,
  /** which thread hosts a role; written at set-up */
  hosts: 6 * LINE,
} as const;
const HEADER_WORDS = 7 * LINE;

/** who answers a pause */
const Pausing = ['requester', 'replay'] as const;

export const Mode = { manual: 0, autonomous: 1, paused: 2 } as const;
export type Mode = (typeof Mode)[keyof typeof Mode];
/** What keeps the requester from making the next request. */
export const Gate = { open: 0, limiter: 1, slots: 2, nothingAsked: 3, rows: 4, paused: 5 } as const;
export type Gate = (typeof Gate)[keyof typeof Gate];
/** A thread's last word: it acknowledged the stop, its environment ended without one, or an actor threw. */
export const ThreadState = { none: 0, running: 1, stopped: 2, dead: 3, threw: 4 } as const;
export type ThreadState = (typeof ThreadState)[keyof typeof ThreadState];

/** Float64 fields of the header, written by the client before the word that publishes them. */
export const Run = {
  /** the request that startPrepare left */
  tick: 0,
  rows: 1,
  leastPtr: 2,
  seed: 3,
  /** the autonomous run: tick = firstTick + (sequence − firstSequence), for `ticks` ticks */
  firstTick: 4,
  firstSequence: 5,
  ticks: 6,
  runRows: 7,
  publishEvery: 8,
  baseSeed: 9,
  /** what the learner captured: handles (0 for none) and where its weights lie */
  weights: 10,
  weightsOffset: 11,
  weightsBytes: 12,
  mailbox: 13,
  /** one graph per slot from here on */
  graphs: 16,
} as const;
export const MOST_SLOTS = 64;
const RUN_FIELDS = Run.graphs + MOST_SLOTS;

export interface RingShare {
  readonly place: Place;
  readonly depth: number;
  readonly journal: JournalShare;
}

export class Ring {
  readonly depth: number;
  readonly journal: Journal;
  readonly failure: FailureNote;
  /** what a restartable actor threw; read and cleared by the opener, who decides */
  readonly thrown: FailureNote;
  readonly bells: BellBoard;
  /** thread words, so that a native hook can write a thread's last word */
  readonly threads: Int32Array;
  readonly run: Float64Array;
  readonly records: Float64Array;
  readonly #header: Int32Array;
  readonly #slots: Int32Array;
  readonly #records: Float64Array[];
  readonly #share: RingShare;
  /** the bell each role's thread waits on; set by whoever knows the placement */
  readonly #roleBells: Bell[] = [];

  private constructor(share: RingShare) {
    const { place, depth } = share;
    let at = place.offset;
    const words = (count: number) => {
      const view = new Int32Array(place.memory, at, count);
      at += count * 4;
      return view;
    };
    this.#share = share;
    this.depth = depth;
    this.#header = words(HEADER_WORDS);
    this.threads = this.#header.subarray(Header.threads, Header.threads + MOST_THREADS);
    this.bells = new BellBoard(words((MOST_THREADS + 1) * BELL_WORDS), MOST_THREADS + 1);
    this.failure = new FailureNote(words(FailureNote.words));
    this.thrown = new FailureNote(words(FailureNote.words));
    this.#slots = words(depth * LINE);
    this.run = new Float64Array(place.memory, at, RUN_FIELDS);
    this.records = new Float64Array(place.memory, at + RUN_FIELDS * 8, depth * RECORD_FIELDS);
    this.#records = Array.from({ length: depth }, (_, i) =>
      this.records.subarray(i * RECORD_FIELDS, (i + 1) * RECORD_FIELDS),
    );
    this.journal = new Journal(share.journal);
    for (const role of roles)
      this.#roleBells.push(this.bells.at(Atomics.load(this.#header, Header.hosts + roles.indexOf(role))));
  }

  /**
   * `hosts[i]` is the thread (0 … 3, or CLIENT for an inline pipeline) that hosts roles[i]. Sequences start at
   * `firstSequence`, which tests set near the wrap of the state word.
   */
  static create(options: {
    depth: number;
    hosts: readonly number[];
    journalCapacity: number;
    firstSequence?: number;
  }): Ring {
    const { depth, hosts, firstSequence = 0 } = options;
    const lines = HEADER_WORDS + (MOST_THREADS + 1) * BELL_WORDS + 2 * FailureNote.words + depth * LINE;
    const bytes = lines * 4 + (RUN_FIELDS + depth * RECORD_FIELDS) * 8;
    const share: RingShare = {
      place: allocateShared(`a ring of ${depth} slots`, bytes, 64),
      depth,
      journal: Journal.allocate(options.journalCapacity),
    };
    const header = new Int32Array(share.place.memory, share.place.offset, HEADER_WORDS);
    hosts.forEach((thread, i) => {
      header[Header.hosts + i] = thread;
    });
    const ring = new Ring(share);
    for (let i = 0; i < depth; i++) {
      // Slot = sequence mod depth at the start; from then on a slot's next sequence is its last plus depth.
      const sequence = firstSequence + i;
      const slot = sequence % depth;
      ring.record(slot)[Field.sequence] = sequence;
      Atomics.store(ring.#slots, slot * LINE, packWord(sequence, SlotState.Free));
    }
    ring.setGoal(null);
    Atomics.store(ring.#header, Header.asked, firstSequence & SEQUENCE_MASK);
    return ring;
  }

  static attach(share: RingShare): Ring {
    return new Ring(share);
  }
  share(): RingShare {
    return this.#share;
  }

  /** The state of a slot: a load that pairs with handOver's store. */
  state(slot: number): SlotState {
    return stateOf(Atomics.load(this.#slots, slot * LINE));
  }
  word(slot: number): number {
    return Atomics.load(this.#slots, slot * LINE);
  }

  /** This slot's record; only the slot's owner writes it (I1). */
  record(slot: number): Float64Array {
    return this.#records[slot] as Float64Array;
  }

  /**
   * The whole sequence number the slot is in (its next one when Free). The record keeps the one it was last requested
   * for; the word's low bits say how far the slot has come since, so that no second store has to agree with the first.
   */
  sequence(slot: number): number {
    return this.#sequenceOf(slot, this.word(slot));
  }
  #sequenceOf(slot: number, word: number): number {
    const known = this.record(slot)[Field.sequence] as number;
    return known + sequenceDistance(sequenceOf(word), known & SEQUENCE_MASK);
  }
  /** The next sequence that a role serving `state` will see in this slot; of one look at the word, which others write. */
  #nextFor(state: SlotState, slot: number): number {
    const word = this.word(slot);
    // A slot past `state` is served again one round later.
    return this.#sequenceOf(slot, word) + (stateOf(word) > state ? this.depth : 0);
  }

  /** One store hands the slot on, after every write it publishes (I2); then the next owner's bell (I4). */
  handOver(slot: number, state: SlotState, to: Role): void {
    const sequence = this.sequence(slot) + (state === SlotState.Free ? this.depth : 0);
    Atomics.store(this.#slots, slot * LINE, packWord(sequence, state));
    (this.#roleBells[roles.indexOf(to)] as Bell).ring();
  }

  /**
   * Where a role finds its place, whatever happened before it (I8): the slot of the lowest sequence that has not left
   * `state` yet. Slots go round in sequence order, so from there on it is simply the next slot.
   */
  place(state: SlotState): number {
    let best = 0;
    let lowest = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.depth; slot++) {
      const next = this.#nextFor(state, slot);
      if (next < lowest) {
        best = slot;
        lowest = next;
      }
    }
    return best;
  }

  /** Every sequence before this one is over: its slot was Free after it. */
  get finished(): number {
    let lowest = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.depth; slot++) lowest = Math.min(lowest, this.sequence(slot));
    return lowest;
  }

  /** The sequence that will be requested next. */
  get next(): number {
    let lowest = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.depth; slot++) lowest = Math.min(lowest, this.#nextFor(SlotState.Free, slot));
    return lowest;
  }

  hostOf(role: Role): number {
    return Atomics.load(this.#header, Header.hosts + roles.indexOf(role));
  }
  /** Puts a role's thread on another bell (pack's lies in the replay buffer, so that add() rings it). */
  setBell(role: Role, bell: Bell): void {
    this.#roleBells[roles.indexOf(role)] = bell;
  }
  bellOf(role: Role): Bell {
    return this.#roleBells[roles.indexOf(role)] as Bell;
  }
  get client(): Bell {
    return this.bells.at(CLIENT);
  }
  ringAll(): void {
    for (const bell of this.#roleBells) bell.ring();
    this.client.ring();
  }

  get stopping(): boolean {
    return Atomics.load(this.#header, Header.stop) !== 0;
  }
  /** Stop word first, bells after: whoever reads its bell before checking stop cannot sleep through it (I6). */
  stop(): void {
    Atomics.store(this.#header, Header.stop, 1);
    this.ringAll();
  }

  get mode(): Mode {
    return Atomics.load(this.#header, Header.mode) as Mode;
  }
  setMode(mode: Mode): void {
    Atomics.store(this.#header, Header.mode, mode);
  }

  /**
   * Client: no more requests. Numbered, so that an answer to an earlier pause is not taken for this one. Once `paused`, the
   * requester is not on its way to a request and replay has let go of its graphs: run fields and graphs may change.
   */
  pause(): void {
    Atomics.add(this.#header, Header.pauses, 1);
    this.setMode(Mode.paused);
    this.bellOf('pack').ring();
    this.bellOf('replay').ring();
  }
  get paused(): boolean {
    const pauses = Atomics.load(this.#header, Header.pauses);
    return Pausing.every((_, i) => Atomics.load(this.#header, Header.pauseSeen + i) === pauses);
  }
  /** Requester and replay, having read the mode as paused and before they do anything else. */
  acknowledgePause(who: (typeof Pausing)[number]): void {
    const seen = Atomics.load(this.#header, Header.pauses);
    const before = Atomics.exchange(this.#header, Header.pauseSeen + Pausing.indexOf(who), seen);
    if (before !== seen) this.client.ring();
  }
  /** Replay, when it takes up graphs again while a pause waits: its answer was early. */
  withdrawPause(who: (typeof Pausing)[number]): void {
    Atomics.store(this.#header, Header.pauseSeen + Pausing.indexOf(who), Atomics.load(this.#header, Header.pauses) - 1);
  }
  /** Every slot is Free. */
  get idle(): boolean {
    for (let slot = 0; slot < this.depth; slot++) if (this.state(slot) !== SlotState.Free) return false;
    return true;
  }

  get gate(): Gate {
    return Atomics.load(this.#header, Header.gate) as Gate;
  }
  setGate(gate: Gate): void {
    if (Atomics.load(this.#header, Header.gate) !== gate) Atomics.store(this.#header, Header.gate, gate);
  }

  /** Requester: whether the client asked for this sequence. */
  asked(sequence: number): boolean {
    return sequenceDistance(Atomics.load(this.#header, Header.asked), sequence & SEQUENCE_MASK) > 0;
  }
  /** Client: asks for every sequence before `sequence`; publishes the run fields it wrote, and rings pack's thread. */
  ask(sequence: number): void {
    Atomics.store(this.#header, Header.asked, sequence & SEQUENCE_MASK);
    this.bellOf('pack').ring();
  }

  /** Client: wants its bell when every sequence before `sequence` is over; it looks at `finished` after this. */
  setGoal(sequence: number | null): void {
    Atomics.store(this.#header, Header.goal, sequence === null ? -1 : sequence & SEQUENCE_MASK);
  }
  /** Poll, after a slot became Free: every sequence before `sequence` is over. */
  reached(sequence: number): void {
    const goal = Atomics.load(this.#header, Header.goal);
    if (goal >= 0 && sequenceDistance(sequence & SEQUENCE_MASK, goal) >= 0) this.client.ring();
  }

  threadState(thread: number): ThreadState {
    return Atomics.load(this.threads, thread) as ThreadState;
  }
  setThreadState(thread: number, state: ThreadState): void {
    Atomics.store(this.threads, thread, state);
    this.client.ring();
  }

  /** First failure wins (I7); everyone is woken to throw it. */
  fail(failure: Failure, options?: { takeOver: boolean }): void {
    this.failure.write(failure, options);
    this.ringAll();
  }
}
