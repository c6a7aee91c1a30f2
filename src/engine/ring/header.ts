/**
 * The ring's control words: requests of the client, answers of the actors, and the state of each
 * thread. Each word is an Int32 that is accessed with Atomics. The comment of each word names its
 * writer. After a store to a word, the writer rings the thread that may wait for this word
 * (Slot-4).
 */

import { Ending } from '../../shm/ending.ts';
import { LINE } from '../../shm/memory.ts';
import { type Hosting, type Hosts, MAX_THREADS, type RoleBells } from './role-bells.ts';
import { roles, SEQUENCE_MASK, sequenceDistance } from './slot.ts';

/**
 * Index of each word. LINE is the number of words of a cache line. Words that different threads
 * write often are on different cache lines, so that their writes do not slow each other down.
 */
const Word = {
  /**
   * 1 after the opener stopped the pipeline: every thread then ends its loop. The opener writes it
   * before it rings every bell (Slot-6)
   */
  stop: 0 * LINE,
  /**
   * A bit set of AUTONOMOUS and of the reasons why no more requests are made (Pause). The client
   * sets AUTONOMOUS and clears bits. A thread that pauses requests sets the bit of its reason.
   */
  mode: 1 * LINE,
  /**
   * number of pauses ever requested, increased by the thread that pauses, before it sets the bit in
   * `mode`
   */
  pauses: 1 * LINE + 1,
  /**
   * reason why the run ends (Ending), 0 while no end is set. The first thread that ends the run
   * writes it, and the client clears it
   */
  ending: 1 * LINE + 3,
  /**
   * 1 if the run's end no longer waits for other learners: poll then ends the run without a mean.
   * Written by the client
   */
  alone: 1 * LINE + 4,
  /**
   * number of times that the client took back requests after the end of a group's run. After each
   * time, every role must find its next slot again (SlotCursor)
   */
  rewinds: 1 * LINE + 2,
  /**
   * sequence (wrapped) that the client waits for: poll rings the client when all sequences before
   * it are over. −1 for none, written by the client
   */
  goal: 2 * LINE,
  /** reason why the requester makes no request now (Gate), written by the requester */
  gate: 3 * LINE,
  /**
   * number of the latest pause that the requester and replay have acknowledged, one word each. The
   * client compares both words with `pauses`
   */
  pauseAcknowledged: 3 * LINE + 1,
  /**
   * the rate limiter has counted every sequence before this one (wrapped). The native call of
   * pack's thread that counts a sequence writes it
   */
  counted: 3 * LINE + 4,
  /**
   * in manual ticks, the client has asked for every sequence before this one (wrapped). The client
   * writes it after the run fields
   */
  requested: 4 * LINE,
  /**
   * for every sequence before this one (wrapped), the parameters are averaged or need no mean. Poll
   * writes it in a run, and the client before the run
   */
  averaged: 4 * LINE + 2,
  /**
   * which of two fields contains the current exponent of importance weights, 0 or 1. The client
   * writes it after that field
   */
  beta: 4 * LINE + 1,
  /** ThreadState of each thread */
  threads: 5 * LINE,
  /**
   * index of the thread that hosts each role: a table for manual ticks, then a table for runs.
   * Written when the ring is created
   */
  hosts: 6 * LINE,
  /**
   * which of these two tables applies now (Hosting). The client writes it before it asks for a tick
   * or begins a run
   */
  hosting: 7 * LINE,
  /**
   * the Hosting that each thread last read, written by that thread. By then the thread has released
   * the roles that this table assigns to others (Slot-10)
   */
  hostingAcknowledged: 7 * LINE + 1,
} as const;
export const HEADER_WORDS = 8 * LINE;

/** The roles that acknowledge a pause, because they start work. */
const pausing = ['requester', 'replay'] as const;
type Pausing = (typeof pausing)[number];

export const Mode = { manual: 0, autonomous: 1, paused: 2 } as const;
export type Mode = (typeof Mode)[keyof typeof Mode];
const AUTONOMOUS = 1;
/**
 * Bits of `mode`, the reasons why no more requests are made. `hold`: a save needs a run without
 * ticks under way, and clears the bit afterwards. `end`: the run ends, which is final.
 */
export const Pause = { hold: 2, end: 4 } as const;
export type Pause = (typeof Pause)[keyof typeof Pause];
/** The reason why the requester does not make the next request, or `open` if it may. */
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
 * State of an actor's thread. `stopped`: it acknowledged the stop. `dead`: its environment ended
 * without an acknowledgement. `threw`: an actor threw.
 */
export const ThreadState = { none: 0, running: 1, stopped: 2, dead: 3, threw: 4 } as const;
export type ThreadState = (typeof ThreadState)[keyof typeof ThreadState];

/**
 * Returns the thread of each role in both tables of the header. With `set`, it first writes the
 * tables. The opener does that before any other thread sees the header.
 */
export function hostsOf(words: Int32Array, set?: Hosts): Hosts {
  const tables = [0, 1].map((hosting) => Word.hosts + hosting * roles.length);
  for (const [hosting, at] of tables.entries()) words.set(set?.[hosting] ?? [], at);
  return tables.map((at) => [...words.subarray(at, at + roles.length)]);
}
/** Returns the word whose value is the table that applies now. */
export function hostingOf(words: Int32Array): Int32Array {
  return words.subarray(Word.hosting, Word.hosting + 1);
}

export class Header {
  /** state words of the threads, for a native hook that writes a thread's last state */
  readonly threads: Int32Array;
  /** the word `counted`, for the native call that counts sequences */
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
   * Stops all threads. The stop word is stored before the bells ring. A thread reads its bell's
   * count before the stop word. So it either sees the stop, or the ring wakes it (Slot-6).
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
   * Client: assigns the roles as this table says, and does not wait until they have moved. Each
   * thread first releases roles that moved away. After all threads have done so, each creates the
   * actors of its new roles (Slot-10).
   */
  host(hosting: Hosting): void {
    if (this.hosting === hosting || !this.#bells.moves) return;
    Atomics.store(this.#words, Word.hosting, hosting);
    this.#bells.ringAll();
  }
  /** Records that a thread has released every role that `hosting` assigns to another thread. */
  seeHosting(thread: number, hosting: Hosting): void {
    const before = Atomics.exchange(this.#words, Word.hostingAcknowledged + thread, hosting);
    if (before !== hosting) this.#bells.ringAll();
  }
  /**
   * Returns true if every thread has released the roles that `hosting` assigns to another thread.
   */
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
  /**
   * Client: begins autonomous ticks. This store publishes the run fields that the client wrote
   * before. A pause that was requested before stays in force.
   */
  beginRun(): void {
    Atomics.or(this.#words, Word.mode, AUTONOMOUS);
  }
  /** Client, when no tick is under way: begins manual ticks and ends every pause. */
  endRun(): void {
    Atomics.store(this.#words, Word.ending, Ending.none);
    Atomics.store(this.#words, Word.alone, 0);
    Atomics.store(this.#words, Word.mode, 0);
  }

  /**
   * Any thread: allows no more requests from this store on (Slot-9), and then rings. The number of
   * this pause distinguishes its acknowledgements from those of earlier pauses.
   *
   * Once `paused` is true, the requester makes no request and replay has released its graphs. Run
   * fields and graphs may change then.
   */
  pause(why: Pause = Pause.end): void {
    Atomics.add(this.#words, Word.pauses, 1);
    Atomics.or(this.#words, Word.mode, why);
    this.#bells.of('pack').ring();
    this.#bells.of('replay').ring();
  }
  /** Any thread: ends the run, which is final. The first reason stays. */
  end(why: Ending): void {
    Atomics.compareExchange(this.#words, Word.ending, Ending.none, why);
    this.pause(Pause.end);
  }
  /** Client: makes poll wait no longer for other learners of the group. */
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
  /** Client: clears the hold bit after a save. */
  release(): void {
    Atomics.and(this.#words, Word.mode, ~Pause.hold);
    this.#bells.ringAll();
  }
  /**
   * Requester: call it after a request was stored in this mode. Returns true if the request may
   * stay. If it returns false, a pause or a stop may have been stored before the request. The
   * requester must then take the request back (Slot-9).
   */
  mayRequest(mode: Mode): boolean {
    return this.mode === mode && !this.stopping;
  }

  get rewinds(): number {
    return Atomics.load(this.#words, Word.rewinds);
  }
  /**
   * Client: makes every role find its next slot again. Call it when every slot is Free and requests
   * are paused.
   */
  rewind(): void {
    Atomics.add(this.#words, Word.rewinds, 1);
  }

  get paused(): boolean {
    const pauses = Atomics.load(this.#words, Word.pauses);
    return pausing.every(
      (_, i) => Atomics.load(this.#words, Word.pauseAcknowledged + i) === pauses,
    );
  }
  /**
   * Requester and replay: acknowledge the pause. They call it after they read the mode as paused,
   * and before they do anything else. After both have called it, `paused` is true.
   */
  acknowledgePause(by: Pausing): void {
    const count = Atomics.load(this.#words, Word.pauses);
    const before = Atomics.exchange(
      this.#words,
      Word.pauseAcknowledged + pausing.indexOf(by),
      count,
    );
    if (before !== count) this.#bells.client.ring();
  }
  /**
   * Replay: withdraws its acknowledgement of the pause, because it acknowledged too early. Replay
   * does this if it finds a Ready slot after it acknowledged. It then needs its graphs again.
   */
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

  /** Returns true if the client asked for this sequence. */
  requested(sequence: number): boolean {
    return (
      sequenceDistance(Atomics.load(this.#words, Word.requested), sequence & SEQUENCE_MASK) > 0
    );
  }
  /**
   * Client: asks for every sequence before `sequence`, and so publishes the run fields that it
   * wrote. The caller then rings pack's thread.
   */
  ask(sequence: number): void {
    Atomics.store(this.#words, Word.requested, sequence & SEQUENCE_MASK);
  }

  /**
   * Returns the number of sequences, from this one on, that the limiter has counted already. A
   * requester that counted them died before it requested them.
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
   * Client: asks poll to ring when every sequence before `sequence` is over. If `sequence` is null,
   * asks for no ring. The client must read `finished` after this call, because sequences that were
   * over before the call cause no ring.
   */
  setGoal(sequence: number | null): void {
    Atomics.store(this.#words, Word.goal, sequence === null ? -1 : sequence & SEQUENCE_MASK);
  }
  /**
   * Poll, after a slot became Free: rings the client if its goal is reached. Every sequence before
   * `sequence` is over.
   */
  reached(sequence: number): void {
    const goal = Atomics.load(this.#words, Word.goal);
    if (goal >= 0 && sequenceDistance(sequence & SEQUENCE_MASK, goal) >= 0)
      this.#bells.client.ring();
  }
}
