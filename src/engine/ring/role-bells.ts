/**
 * Which thread hosts each role, which bell each thread waits on, and the client's bell. Every
 * thread that attaches the ring has such an object.
 */
import { BELL_WORDS, type Bell, BellBoard } from '../../shm/bell.ts';
import { type Role, roles } from './slot.ts';

/** The maximum number of threads for actors. */
export const MAX_THREADS = roles.length;
/** Index of the bell of the thread that opened the pipeline. */
export const CLIENT = MAX_THREADS;
/** Int32 words of all bells. */
export const BELLS_WORDS = (MAX_THREADS + 1) * BELL_WORDS;

/** The two tables of hosts of a pipeline: one applies in manual ticks, the other in runs. */
export const Hosting = { manual: 0, run: 1 } as const;
export type Hosting = (typeof Hosting)[keyof typeof Hosting];
/**
 * The thread that hosts each role, or CLIENT. The first index is a Hosting, the second a role in
 * the order of `roles`. Pack has the same thread in both tables.
 */
export type Hosts = readonly (readonly number[])[];

export class RoleBells {
  readonly client: Bell;
  /** threads that host a role in any table, each once */
  readonly threads: readonly number[];
  readonly #hosts: Hosts;
  /** the bell of each thread, by its index */
  readonly #bells: Bell[];
  readonly #hosting: Int32Array;

  /** `hosting` is the word whose value is the table that applies now. */
  constructor(words: Int32Array, hosts: Hosts, hosting: Int32Array) {
    const board = new BellBoard(words, MAX_THREADS + 1);
    this.client = board.at(CLIENT);
    this.#hosts = hosts;
    this.threads = [...new Set(hosts.flat())].sort();
    this.#bells = Array.from({ length: MAX_THREADS + 1 }, (_, thread) => board.at(thread));
    this.#hosting = hosting;
  }

  /**
   * Returns the bell of the thread that hosts the role now. Ring it after the store for which the
   * thread may wait. If the role moves to another thread meanwhile, that thread checks for work
   * when it creates the role's actor (Slot-10).
   */
  of(role: Role): Bell {
    const hosts = this.#hosts[Atomics.load(this.#hosting, 0)] as readonly number[];
    return this.ofThread(hosts[roles.indexOf(role)] as number);
  }
  ofThread(thread: number): Bell {
    return this.#bells[thread] as Bell;
  }

  /** Returns the roles that a thread hosts in this table, in the order of a slot's life. */
  hostedBy(thread: number, hosting: Hosting): readonly Role[] {
    return roles.filter((_, i) => this.#hosts[hosting]?.[i] === thread);
  }
  /** True if a role has another thread in manual ticks than in runs. */
  get moves(): boolean {
    return roles.some((_, i) => this.#hosts[Hosting.manual]?.[i] !== this.#hosts[Hosting.run]?.[i]);
  }

  /**
   * Makes pack's thread use a bell of the replay buffer, because add() rings that bell. A thread
   * has one bell, so all roles of pack's thread wait on it. A client that steps the actors inline
   * keeps its own bell.
   */
  adoptPackBell(bell: Bell): void {
    const packs = this.#hosts[Hosting.run]?.[roles.indexOf('pack')] as number;
    if (packs !== CLIENT) this.#bells[packs] = bell;
  }

  ringAll(): void {
    for (const thread of this.threads) this.ofThread(thread).ring();
    this.client.ring();
  }
}
