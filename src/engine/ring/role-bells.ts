/**
 * Which thread hosts each role, which bell that thread waits on, and the client's. Every thread
 * that attaches the ring has one of these.
 */
import { BELL_WORDS, type Bell, BellBoard } from '../../shm/bell.ts';
import { type Role, roles } from './slot.ts';

/** threads that actors can have */
export const MAX_THREADS = roles.length;
/** index of the bell of the thread that opened the pipeline */
export const CLIENT = MAX_THREADS;
/** Int32 words that the bells take */
export const BELLS_WORDS = (MAX_THREADS + 1) * BELL_WORDS;

/** Which of a pipeline's two tables says who hosts a role. */
export const Hosting = { manual: 0, run: 1 } as const;
export type Hosting = (typeof Hosting)[keyof typeof Hosting];
/**
 * By Hosting, then by role as `roles` lists them: the thread that hosts it, or CLIENT. Pack has one
 * thread in both.
 */
export type Hosts = readonly (readonly number[])[];

export class RoleBells {
  readonly client: Bell;
  /** threads that host a role at some time, each once */
  readonly threads: readonly number[];
  readonly #hosts: Hosts;
  /** by thread */
  readonly #bells: Bell[];
  readonly #hosting: Int32Array;

  /** `hosting` is the word that says which of the two tables holds. */
  constructor(words: Int32Array, hosts: Hosts, hosting: Int32Array) {
    const board = new BellBoard(words, MAX_THREADS + 1);
    this.client = board.at(CLIENT);
    this.#hosts = hosts;
    this.threads = [...new Set(hosts.flat())].sort();
    this.#bells = Array.from({ length: MAX_THREADS + 1 }, (_, thread) => board.at(thread));
    this.#hosting = hosting;
  }

  /**
   * Call this after the store that the role's thread is rung for. If the role has moved since, its
   * new thread looks by itself (Slot-10).
   */
  of(role: Role): Bell {
    const hosts = this.#hosts[Atomics.load(this.#hosting, 0)] as readonly number[];
    return this.ofThread(hosts[roles.indexOf(role)] as number);
  }
  ofThread(thread: number): Bell {
    return this.#bells[thread] as Bell;
  }

  /** The roles that a thread hosts under this table, in the order of a slot's life. */
  hostedBy(thread: number, hosting: Hosting): readonly Role[] {
    return roles.filter((_, i) => this.#hosts[hosting]?.[i] === thread);
  }
  /** Whether some role has another thread in manual ticks than in runs. */
  get moves(): boolean {
    return roles.some((_, i) => this.#hosts[Hosting.manual]?.[i] !== this.#hosts[Hosting.run]?.[i]);
  }

  /**
   * Pack's bell lies in the replay buffer, where add() rings it. A thread has one bell, so all
   * roles of pack's thread wait on that one. A client that steps the actors itself keeps its own.
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
