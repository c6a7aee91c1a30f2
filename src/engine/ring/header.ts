/**
 * The ring's control words: requests of the client, answers of the actors, and the state of each
 * thread. They are Int32, touched with Atomics. Each word names its writer, which rings the thread
 * that may wait for the word after the store (Slot-4).
 */

import { Ending } from '../../shm/ending.ts';
import { LINE } from '../../shm/memory.ts';
import { type Hosting, type Hosts, MAX_THREADS, type RoleBells } from './role-bells.ts';
import { roles, SEQUENCE_MASK, sequenceDistance } from './slot.ts';

/** A line each where two threads would otherwise share it. */
const Word = {
  /** 1: every thread leaves, written by the opener before it rings every bell (Slot-6) */
  stop: 0 * LINE,
  /**
   * A bit set of AUTONOMOUS and of the reasons why no more requests are made (Pause). The client
   * sets AUTONOMOUS and clears bits, and a thread that stops something adds a bit.
   */
  mode: 1 * LINE,
  /** pauses ever asked for, increased before the mode by the thread that pauses */
  pauses: 1 * LINE + 1,
  /**
   * reason why the run ends (Ending), 0 while it goes on, written by the first thread that pauses
   * for an end and cleared by the client
   */
  ending: 1 * LINE + 3,
  /** 1: the run's end waits for no other learner any more, written by the client */
  alone: 1 * LINE + 4,
  /**
   * how often the client gave back requests after a group's end: every role then looks for its seat
   * again (SlotCursor)
   */
  rewinds: 1 * LINE + 2,
  /**
   * the client wants its bell when every sequence before this is over (wrapped), −1 for none,
   * written by the client
   */
  goal: 2 * LINE,
  /** what the requester waits for (Gate), written by the requester */
  gate: 3 * LINE,
  /**
   * which pause requester and replay have seen: each writes its own word, the client compares both
   * with `pauses`
   */
  pauseAcknowledged: 3 * LINE + 1,
  /**
   * every sequence before this (wrapped) is in the rate limiter's count, written by the native call
   * of pack's thread that counts it
   */
  counted: 3 * LINE + 4,
  /**
   * manual ticks: every sequence before this (wrapped) is asked for, written by the client after
   * the run fields
   */
  requested: 4 * LINE,
  /**
   * parameters of every sequence before this (wrapped) are averaged or need not be, written by poll
   * in a run and by the client before it
   */
  averaged: 4 * LINE + 2,
  /**
   * which of two places holds the exponent of importance weights, written by the client after that
   * place
   */
  beta: 4 * LINE + 1,
  /** ThreadState per thread */
  threads: 5 * LINE,
  /** thread that hosts each role, in manual ticks and then in runs, written at set-up */
  hosts: 6 * LINE,
  /**
   * which of these two tables holds (Hosting), written by the client before it asks for a tick or
   * begins a run
   */
  hosting: 7 * LINE,
  /**
   * the Hosting that each thread last read, written by that thread: it has let go of the roles that
   * this table gives to others (Slot-10)
   */
  hostingAcknowledged: 7 * LINE + 1,
} as const;
export const HEADER_WORDS = 8 * LINE;

/** The roles that answer a pause. */
const pausing = ['requester', 'replay'] as const;
type Pausing = (typeof pausing)[number];

export const Mode = { manual: 0, autonomous: 1, paused: 2 } as const;
export type Mode = (typeof Mode)[keyof typeof Mode];
const AUTONOMOUS = 1;
/**
 * Why no more requests are made. A save waits for the run to stand still, and releases it
 * afterwards. The end of a run is final.
 */
export const Pause = { hold: 2, end: 4 } as const;
export type Pause = (typeof Pause)[keyof typeof Pause];
/** The requester's gate: the reason why it does not make the next request, or `open`. */
export const Gate = {
  open: 0,
  limiter: 1,
  slots: 2,
  nothingAsked: 3,
  rows: 4,
  paused: 5,
} as const;
export type Gate = (typeof Gate)[keyof typeof Gate];
export type GateName = keyof typeof Gate;
export const gateNames = Object.keys(Gate) as GateName[];
/**
 * A thread's last word: it acknowledged the stop, its environment ended without one, or an actor
 * threw.
 */
export const ThreadState = { none: 0, running: 1, stopped: 2, dead: 3, threw: 4 } as const;
export type ThreadState = (typeof ThreadState)[keyof typeof ThreadState];

/**
 * Returns the thread of each role in both tables of the header. The opener passes `set` before any
 * other thread sees them.
 */
export function hostsOf(words: Int32Array, set?: Hosts): Hosts {
  const tables = [0, 1].map((hosting) => Word.hosts + hosting * roles.length);
  for (const [hosting, at] of tables.entries()) words.set(set?.[hosting] ?? [], at);
  return tables.map((at) => [...words.subarray(at, at + roles.length)]);
}
/** Returns the word that says which of the two tables holds. */
export function hostingOf(words: Int32Array): Int32Array {
  return words.subarray(Word.hosting, Word.hosting + 1);
}

export class Header {
  /** thread words, so that a native hook can write a thread's last word */
  readonly threads: Int32Array;
  /** for the native call that counts: sequences before its value (wrapped) are counted */
  readonly counted: Int32Array;
  readonly #words: Int32Array;
  readonly #bells: RoleBells;

  constructor(words: Int32Array, bells: RoleBells) {
    this.#words = words;
    this.#bells = bells;
    this.threads = words.subarray(Word.threads, Word.threads + MAX_THREADS);
    this.counted = words.subarray(Word.counted, Word.counted + 1);
  }

  get stopping(): boolean {
    return Atomics.load(this.#words, Word.stop) !== 0;
  }
  /**
   * Stop word first, bells after: a thread that reads its bell before it checks stop cannot sleep
   * through it (Slot-6).
   */
  stop(): void {
    Atomics.store(this.#words, Word.stop, 1);
    this.#bells.ringAll();
  }

  threadState(thread: number): ThreadState {
    return Atomics.load(this.threads, thread) as ThreadState;
  }
  setThreadState(thread: number, state: ThreadState): void {
    Atomics.store(this.threads, thread, state);
    this.#bells.client.ring();
  }

  get hosting(): Hosting {
    return Atomics.load(this.#words, Word.hosting) as Hosting;
  }
  /**
   * Client: gives roles to the threads of this table. Each thread lets go of its roles when it next
   * looks, and takes up others when all have looked (Slot-10). The client does not wait for that.
   */
  host(hosting: Hosting): void {
    if (this.hosting === hosting || !this.#bells.moves) return;
    Atomics.store(this.#words, Word.hosting, hosting);
    this.#bells.ringAll();
  }
  /** Records that a thread has let go of every role that `hosting` gives to another one. */
  seeHosting(thread: number, hosting: Hosting): void {
    const before = Atomics.exchange(this.#words, Word.hostingAcknowledged + thread, hosting);
    if (before !== hosting) this.#bells.ringAll();
  }
  /** Whether every thread has let go of the roles that have another host. */
  isAcknowledged(hosting: Hosting): boolean {
    return this.#bells.threads.every(
      (thread) => Atomics.load(this.#words, Word.hostingAcknowledged + thread) === hosting,
    );
  }

  get mode(): Mode {
    const word = Atomics.load(this.#words, Word.mode);
    if (word === 0) return Mode.manual;
    return word === AUTONOMOUS ? Mode.autonomous : Mode.paused;
  }
  /** Client: publishes the run fields it wrote. A pause that was asked for before stays. */
  beginRun(): void {
    Atomics.or(this.#words, Word.mode, AUTONOMOUS);
  }
  /** Client, when nothing is under way: manual ticks from here on, and no pause. */
  endRun(): void {
    Atomics.store(this.#words, Word.ending, Ending.none);
    Atomics.store(this.#words, Word.alone, 0);
    Atomics.store(this.#words, Word.mode, 0);
  }

  /**
   * Any thread: allows no more requests, from this store on (Slot-9), and then rings the bells.
   * Pauses are numbered, so that an answer to an earlier pause is not taken for this one. Once
   * `paused`, the requester is not on its way to a request and replay has let go of its graphs: run
   * fields and graphs may change.
   */
  pause(why: Pause = Pause.end): void {
    Atomics.add(this.#words, Word.pauses, 1);
    Atomics.or(this.#words, Word.mode, why);
    this.#bells.of('pack').ring();
    this.#bells.of('replay').ring();
  }
  /** Any thread: ends the run for good. The first reason stays. */
  end(why: Ending): void {
    Atomics.compareExchange(this.#words, Word.ending, Ending.none, why);
    this.pause(Pause.end);
  }
  /** Client: poll waits for no other learner of the group any more. */
  leaveOthers(): void {
    Atomics.store(this.#words, Word.alone, 1);
  }
  get alone(): boolean {
    return Atomics.load(this.#words, Word.alone) === 1;
  }
  get ending(): Ending {
    return Atomics.load(this.#words, Word.ending) as Ending;
  }
  isPaused(why: Pause): boolean {
    return (Atomics.load(this.#words, Word.mode) & why) !== 0;
  }
  /** Client: the save that held the run is over. */
  release(): void {
    Atomics.and(this.#words, Word.mode, ~Pause.hold);
    this.#bells.ringAll();
  }
  /**
   * Requester, after the store of a request that it made in this mode: false if that store came
   * after a stop's, and the request must be taken back (Slot-9).
   */
  mayRequest(mode: Mode): boolean {
    return this.mode === mode && !this.stopping;
  }

  get rewinds(): number {
    return Atomics.load(this.#words, Word.rewinds);
  }
  /** Client, when every slot is Free and requests are paused. */
  rewind(): void {
    Atomics.add(this.#words, Word.rewinds, 1);
  }

  get paused(): boolean {
    const pauses = Atomics.load(this.#words, Word.pauses);
    return pausing.every(
      (_, i) => Atomics.load(this.#words, Word.pauseAcknowledged + i) === pauses,
    );
  }
  /** Requester and replay, having read the mode as paused and before they do anything else. */
  acknowledgePause(by: Pausing): void {
    const count = Atomics.load(this.#words, Word.pauses);
    const before = Atomics.exchange(
      this.#words,
      Word.pauseAcknowledged + pausing.indexOf(by),
      count,
    );
    if (before !== count) this.#bells.client.ring();
  }
  /** Replay, when it takes up graphs again while a pause waits: its answer was early. */
  withdrawPause(by: Pausing): void {
    Atomics.store(
      this.#words,
      Word.pauseAcknowledged + pausing.indexOf(by),
      Atomics.load(this.#words, Word.pauses) - 1,
    );
  }

  get gate(): Gate {
    return Atomics.load(this.#words, Word.gate) as Gate;
  }
  setGate(gate: Gate): void {
    if (Atomics.load(this.#words, Word.gate) !== gate) Atomics.store(this.#words, Word.gate, gate);
  }

  /** Requester: whether the client asked for this sequence. */
  requested(sequence: number): boolean {
    return (
      sequenceDistance(Atomics.load(this.#words, Word.requested), sequence & SEQUENCE_MASK) > 0
    );
  }
  /**
   * Client: asks for every sequence before `sequence`, and publishes the run fields it wrote. The
   * caller rings pack's thread.
   */
  ask(sequence: number): void {
    Atomics.store(this.#words, Word.requested, sequence & SEQUENCE_MASK);
  }

  /**
   * Returns how many sequences from this one on the limiter counts already: a requester counted
   * them and died before it requested them.
   */
  countedFrom(sequence: number): number {
    return Math.max(0, sequenceDistance(Atomics.load(this.counted, 0), sequence & SEQUENCE_MASK));
  }

  isAveraged(sequence: number): boolean {
    return sequenceDistance(Atomics.load(this.#words, Word.averaged), sequence & SEQUENCE_MASK) > 0;
  }
  setAveraged(before: number): void {
    Atomics.store(this.#words, Word.averaged, before & SEQUENCE_MASK);
  }

  get betaPlace(): number {
    return Atomics.load(this.#words, Word.beta);
  }
  setBetaPlace(place: number): void {
    Atomics.store(this.#words, Word.beta, place);
  }

  /**
   * Client: wants its bell when every sequence before `sequence` is over. It looks at `finished`
   * after this call.
   */
  setGoal(sequence: number | null): void {
    Atomics.store(this.#words, Word.goal, sequence === null ? -1 : sequence & SEQUENCE_MASK);
  }
  /** Poll, after a slot became Free: every sequence before `sequence` is over. */
  reached(sequence: number): void {
    const goal = Atomics.load(this.#words, Word.goal);
    if (goal >= 0 && sequenceDistance(sequence & SEQUENCE_MASK, goal) >= 0)
      this.#bells.client.ring();
  }
}
