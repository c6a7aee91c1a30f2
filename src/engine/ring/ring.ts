/**
 * The ring in shared memory: the slots' words and records, and the header, bells, run fields, notes
 * and journal, which have a file each. It knows no device and no buffer. Actors and the pipeline
 * meet only here. Every control word is an Int32 touched with Atomics.
 */

import { allocateShared, LINE, type Place } from '../../shm/memory.ts';
import { type Failure, FailureNote } from './failure.ts';
import { HEADER_WORDS, Header, hostingOf, hostsOf } from './header.ts';
import { Journal, type JournalShare } from './journal.ts';
import { BELLS_WORDS, Hosting, type Hosts, RoleBells } from './role-bells.ts';
import { RunFields, type RunRequest, type TickRequest } from './run-fields.ts';
import {
  Field,
  packWord,
  RECORD_FIELDS,
  type Role,
  SEQUENCE_MASK,
  SlotState,
  sequenceDistance,
  sequenceOf,
  serves,
  stateOf,
} from './slot.ts';

/**
 * Beyond this many ticks the client does not ask to be rung at their end: a goal is a wrapped
 * sequence.
 */
const FARTHEST_GOAL = 2 ** 28;

export interface RingShare {
  readonly place: Place;
  readonly depth: number;
  readonly journal: JournalShare;
}

export class Ring {
  readonly depth: number;
  readonly header: Header;
  readonly bells: RoleBells;
  readonly run: RunFields;
  readonly journal: Journal;
  readonly failure: FailureNote;
  /** error that a restartable actor threw, read and cleared by the opener, which decides */
  readonly thrown: FailureNote;
  readonly #slots: Int32Array;
  readonly #records: Float64Array[];
  readonly #share: RingShare;

  /** `hosts` by the opener alone, see create(). */
  private constructor(share: RingShare, hosts?: Hosts) {
    const { place, depth } = share;
    let at = place.offset;
    const words = (count: number) => {
      const view = new Int32Array(place.memory, at, count);
      at += count * 4;
      return view;
    };
    const reals = (count: number) => {
      const view = new Float64Array(place.memory, at, count);
      at += count * 8;
      return view;
    };
    this.#share = share;
    this.depth = depth;
    const header = words(HEADER_WORDS);
    this.bells = new RoleBells(words(BELLS_WORDS), hostsOf(header, hosts), hostingOf(header));
    this.header = new Header(header, this.bells);
    this.failure = new FailureNote(words(FailureNote.text));
    this.thrown = new FailureNote(words(FailureNote.text));
    this.#slots = words(depth * LINE);
    this.run = new RunFields(reals(RunFields.count), depth);
    this.#records = Array.from({ length: depth }, () => reals(RECORD_FIELDS));
    this.journal = new Journal(share.journal);
  }

  /**
   * `hosts[i]` is the thread (0 … 3, or CLIENT for an inline pipeline) that hosts `roles[i]` in
   * runs. `manualHosts[i]` hosts the role in manual ticks: by default the same thread, and for pack
   * always the same. Sequences start at `firstSequence`, which tests set near the wrap of the state
   * word.
   */
  static create(options: {
    depth: number;
    hosts: readonly number[];
    manualHosts?: readonly number[];
    journalCapacity: number;
    baseSeed?: number;
    firstSequence?: number;
  }): Ring {
    const { depth, hosts, manualHosts = hosts, baseSeed = 0, firstSequence = 0 } = options;
    const lines = HEADER_WORDS + BELLS_WORDS + 2 * FailureNote.text + depth * LINE;
    const bytes = lines * 4 + (RunFields.count + depth * RECORD_FIELDS) * 8;
    const place = allocateShared(`a ring of ${depth} slots`, bytes, 64);
    const ring = new Ring({ place, depth, journal: Journal.allocate(options.journalCapacity) }, [
      manualHosts,
      hosts,
    ]);
    for (let i = 0; i < depth; i++) {
      // Slot = sequence mod depth at the start. From then on a slot's next sequence is its last
      // plus depth.
      const sequence = firstSequence + i;
      const slot = sequence % depth;
      ring.record(slot)[Field.sequence] = sequence;
      Atomics.store(ring.#slots, slot * LINE, packWord(sequence, SlotState.Free));
    }
    ring.run.setBaseSeed(baseSeed);
    ring.header.setGoal(null);
    ring.header.ask(firstSequence);
    return ring;
  }

  static attach(share: RingShare): Ring {
    return new Ring(share);
  }
  share(): RingShare {
    return this.#share;
  }

  // ---- slots and sequences ----------------------------------------------------------------------

  /** The state of a slot: a load that pairs with handOver's store. */
  state(slot: number): SlotState {
    return stateOf(Atomics.load(this.#slots, slot * LINE));
  }
  word(slot: number): number {
    return Atomics.load(this.#slots, slot * LINE);
  }

  /** Returns this slot's record, which only the slot's owner writes (Slot-1). */
  record(slot: number): Float64Array {
    return this.#records[slot] as Float64Array;
  }

  /**
   * Returns the whole sequence number the slot is in (its next one when Free). The record keeps the
   * sequence that the slot was last requested for. The word's low bits say how far the slot has
   * come since, so that no second store has to agree with the first.
   */
  sequence(slot: number): number {
    return this.#sequenceOf(slot, this.word(slot));
  }
  #sequenceOf(slot: number, word: number): number {
    const known = this.record(slot)[Field.sequence] as number;
    return known + sequenceDistance(sequenceOf(word), known & SEQUENCE_MASK);
  }
  /**
   * Returns the next sequence that a role serving `state` will see in this slot, from one look at
   * the word, which others write.
   */
  #nextFor(state: SlotState, slot: number): number {
    const word = this.word(slot);
    // A slot past `state` is served again one round later.
    return this.#sequenceOf(slot, word) + (stateOf(word) > state ? this.depth : 0);
  }

  /**
   * Hands the slot on with one store after every write it publishes (Slot-2), then rings the next
   * owner's bell (Slot-4).
   */
  handOver(slot: number, state: SlotState, to: Role): void {
    const sequence = this.sequence(slot) + (state === SlotState.Free ? this.depth : 0);
    Atomics.store(this.#slots, slot * LINE, packWord(sequence, state));
    this.bells.of(to).ring();
  }

  /**
   * Requested → Free for the same sequence: the request was never made. The client may wait for
   * every slot to be Free.
   */
  takeBack(slot: number): void {
    Atomics.store(this.#slots, slot * LINE, packWord(this.sequence(slot), SlotState.Free));
    this.bells.client.ring();
  }

  /**
   * Finds a role's place, whatever happened before (Slot-8): the slot of the lowest sequence that
   * has not left `state` yet. Slots go round in sequence order, so from there on the place is
   * simply the next slot.
   */
  nextSlotFor(state: SlotState): number {
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
    for (let slot = 0; slot < this.depth; slot++)
      lowest = Math.min(lowest, this.#nextFor(SlotState.Free, slot));
    return lowest;
  }

  /**
   * Sets the sequence from which requests go on, in the slots as they come. Callers have asked for
   * nothing yet, and requests are paused: only the client reads a Free slot's sequence then, and no
   * role's place moves.
   */
  startAt(sequence: number): void {
    Atomics.store(this.header.counted, 0, sequence & SEQUENCE_MASK);
    const first = this.nextSlotFor(SlotState.Free);
    for (let i = 0; i < this.depth; i++) {
      const slot = (first + i) % this.depth;
      this.record(slot)[Field.sequence] = sequence + i;
      Atomics.store(this.#slots, slot * LINE, packWord(sequence + i, SlotState.Free));
    }
  }

  /**
   * Whether every slot is Free, or holds a batch after the group's end, which is never applied
   * (Slot-9).
   */
  get settled(): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free && !this.isPastEnd(slot)) return false;
    return true;
  }
  isPastEnd(slot: number): boolean {
    return this.state(slot) === SlotState.Ready && this.sequence(slot) >= this.run.endsAt;
  }

  /** No slot holds a later tick. */
  isLast(sequence: number): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free && this.sequence(slot) > sequence) return false;
    return true;
  }

  /** Every slot is Free. */
  get idle(): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free) return false;
    return true;
  }

  // ---- requests of the client: fields, then the word that publishes them, then the bell ---------

  /** Asks for one manual tick, and with it for every sequence up to this one. */
  askTick(request: TickRequest, sequence: number): void {
    this.header.host(Hosting.manual);
    this.run.setTick(request);
    this.header.ask(sequence + 1);
    this.bells.of('pack').ring();
  }

  /** Sets beta of requests from the next one on. The client may call it at any time. */
  setBeta(beta: number): void {
    // The place that nobody reads, then the word that says which.
    const place = 1 - this.header.betaPlace;
    this.run.setBeta(place, beta);
    this.header.setBetaPlace(place);
  }
  get beta(): number {
    return this.run.beta(this.header.betaPlace);
  }

  startRun(run: RunRequest): void {
    this.header.host(Hosting.run);
    this.run.setRun(run);
    this.header.setAveraged(run.firstSequence);
    this.aimAt(run.firstSequence + run.ticks);
    this.header.beginRun();
    this.bells.ringAll();
  }
  /** Poll rings the client when every sequence before `end` is over. */
  aimAt(end: number): void {
    this.header.setGoal(end - this.finished < FARTHEST_GOAL ? end : null);
  }
  /** Begins manual ticks. Every sequence that was requested counts as asked for. */
  endRun(): void {
    this.header.setGoal(null);
    this.header.ask(this.next);
    this.header.endRun();
    this.bells.ringAll();
  }

  // ---- failures ---------------------------------------------------------------------------------

  /** Returns the failure of a role: its error, and the slot (−1: none) and tick that it was at. */
  failureAt(role: Role, slot: number, error: unknown): Failure {
    return { role, slot, tick: slot < 0 ? -1 : (this.record(slot)[Field.tick] as number), error };
  }
  /**
   * Returns the slot that a role is to work on, by the words, or −1 while that slot has no tick.
   */
  slotOf(role: Role): number {
    const slot = this.nextSlotFor(serves[role]);
    return this.state(slot) === SlotState.Free ? -1 : slot;
  }
  /** Records a failure and wakes every waiter to throw it. The first failure wins (Slot-7). */
  fail(failure: Failure, options?: { takeOver: boolean }): void {
    this.failure.write(failure, options);
    this.bells.ringAll();
  }
}
