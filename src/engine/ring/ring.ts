/**
 * The ring in shared memory: the slots' state words and records, and the header, bells, run fields,
 * notes and journal, each with its own file. The ring has no reference to a device or a replay
 * buffer. The pipeline and its actors coordinate only through it. Every control word is an Int32
 * that is accessed with Atomics.
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
 * The client sets a goal only if fewer ticks than this are left. A goal is a wrapped sequence, so a
 * goal too far ahead would compare as one that is already reached.
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
  /**
   * error that a restartable actor threw. The opener reads and clears it, and decides whether to
   * restart the actor
   */
  readonly thrown: FailureNote;
  readonly #slots: Int32Array;
  readonly #records: Float64Array[];
  readonly #share: RingShare;

  /**
   * Attaches the views to the memory of `share`. Only create() passes `hosts`, to write the tables
   * of hosts.
   */
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
    this.failure = new FailureNote(words(FailureNote.words));
    this.thrown = new FailureNote(words(FailureNote.words));
    this.#slots = words(depth * LINE);
    this.run = new RunFields(reals(RunFields.count), depth);
    this.#records = Array.from({ length: depth }, () => reals(RECORD_FIELDS));
    this.journal = new Journal(share.journal);
  }

  /**
   * Creates a ring. `hosts[i]` is the thread (0 … 3, or CLIENT for an inline pipeline) that hosts
   * `roles[i]` in runs. `manualHosts[i]` hosts the role in manual ticks, by default the same
   * thread. Pack always has the same thread in both. Sequences start at `firstSequence`, which
   * tests set near the wrap of the state word.
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
    const lines = HEADER_WORDS + BELLS_WORDS + 2 * FailureNote.words + depth * LINE;
    const bytes = lines * 4 + (RunFields.count + depth * RECORD_FIELDS) * 8;
    const place = allocateShared(`a ring of ${depth} slots`, bytes, 64);
    const ring = new Ring({ place, depth, journal: Journal.allocate(options.journalCapacity) }, [
      manualHosts,
      hosts,
    ]);
    for (let i = 0; i < depth; i++) {
      // At the start, slot = sequence mod depth. Each later sequence of a slot is the one before
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

  /**
   * Returns the state of a slot. A thread that reads a state here also sees all writes before the
   * handOver() that stored it.
   */
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
   * Returns the whole sequence number of a slot's tick, or of its next tick if the slot is Free.
   * The record contains the sequence that was last requested, and the state word contains the low
   * bits of the current sequence. So a hand-over needs only one store.
   */
  sequence(slot: number): number {
    return this.#sequenceOf(slot, this.word(slot));
  }
  #sequenceOf(slot: number, word: number): number {
    const known = this.record(slot)[Field.sequence] as number;
    return known + sequenceDistance(sequenceOf(word), known & SEQUENCE_MASK);
  }
  /**
   * Returns the next sequence that a role serving `state` will see in this slot. Reads the word
   * only once, because other threads write it.
   */
  #nextFor(state: SlotState, slot: number): number {
    const word = this.word(slot);
    // A slot whose state is after `state` is served again one round later.
    return this.#sequenceOf(slot, word) + (stateOf(word) > state ? this.depth : 0);
  }

  /**
   * Hands the slot over with one store, after all writes that this store publishes (Slot-2). Then
   * rings the next owner's bell (Slot-4).
   */
  handOver(slot: number, state: SlotState, to: Role): void {
    const sequence = this.sequence(slot) + (state === SlotState.Free ? this.depth : 0);
    Atomics.store(this.#slots, slot * LINE, packWord(sequence, state));
    this.bells.of(to).ring();
  }

  /**
   * Takes back a request: Requested → Free, for the same sequence. Rings the client, which may wait
   * until every slot is Free.
   */
  takeBack(slot: number): void {
    Atomics.store(this.#slots, slot * LINE, packWord(this.sequence(slot), SlotState.Free));
    this.bells.client.ring();
  }

  /**
   * Returns the slot that a role must serve next: the slot with the lowest sequence that has not
   * left `state`. An actor calls nextSlotFor() after any interruption (Slot-8). Slots are served in
   * sequence order, so afterwards the role simply continues with the following slots.
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

  /** The lowest sequence that is not over. A sequence is over after its slot has become Free. */
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
   * Sets the sequence of the next request, and of the requests after it in the following slots.
   *
   * Call it before any tick was asked for and while requests are paused. At that time only the
   * client reads the sequence of a Free slot, and no role's next slot changes.
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
   * True if every slot is Free or contains a batch after the end of the group's run. Such a batch
   * is never applied (Slot-9).
   */
  get settled(): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free && !this.isPastEnd(slot)) return false;
    return true;
  }
  isPastEnd(slot: number): boolean {
    return this.state(slot) === SlotState.Ready && this.sequence(slot) >= this.run.endsAt;
  }

  /** Returns true if no slot contains a later tick than this sequence. */
  isLast(sequence: number): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free && this.sequence(slot) > sequence) return false;
    return true;
  }

  /** True if every slot is Free. */
  get idle(): boolean {
    for (let slot = 0; slot < this.depth; slot++)
      if (this.state(slot) !== SlotState.Free) return false;
    return true;
  }

  // ---- requests of the client: fields, then the word that publishes them, then the bell ---------

  /** Asks for one manual tick, and thereby for every sequence up to this one. */
  askTick(request: TickRequest, sequence: number): void {
    this.header.host(Hosting.manual);
    this.run.setTick(request);
    this.header.ask(sequence + 1);
    this.bells.of('pack').ring();
  }

  /**
   * Sets the exponent of importance weights from the next request on. The client may call it at any
   * time.
   */
  setBeta(beta: number): void {
    // First stores the value in the field that no thread reads, then switches the word to that
    // field.
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
  /** Makes poll ring the client when every sequence before `end` is over. */
  aimAt(end: number): void {
    this.header.setGoal(end - this.finished < FARTHEST_GOAL ? end : null);
  }
  /**
   * Ends the run and begins manual ticks. Every sequence that was requested counts as asked for.
   */
  endRun(): void {
    this.header.setGoal(null);
    this.header.ask(this.next);
    this.header.endRun();
    this.bells.ringAll();
  }

  // ---- failures ---------------------------------------------------------------------------------

  /**
   * Returns a role's failure, with the slot and the tick that it worked on. Both are −1 if it had
   * no slot.
   */
  failureAt(role: Role, slot: number, error: unknown): Failure {
    return { role, slot, tick: slot < 0 ? -1 : (this.record(slot)[Field.tick] as number), error };
  }
  /**
   * Returns the slot that a role must serve next, or −1 if that slot has no tick. Reads only the
   * state words.
   */
  slotOf(role: Role): number {
    const slot = this.nextSlotFor(serves[role]);
    return this.state(slot) === SlotState.Free ? -1 : slot;
  }
  /**
   * Records a failure and wakes every waiter, which then throws it. The first failure wins
   * (Slot-7).
   */
  fail(failure: Failure, options?: { takeOver: boolean }): void {
    this.failure.write(failure, options);
    this.bells.ringAll();
  }
}
