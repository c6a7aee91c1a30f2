/** Which bell each role's thread waits on, and the client's. Every thread that attaches the ring has one of these. */
import { BELL_WORDS, type Bell, BellBoard } from '../wait/bell.ts';
import { type Role, roles } from './slot.ts';

/** threads that actors can have */
export const MOST_THREADS = roles.length;
/** index of the bell of the thread that opened the pipeline */
export const CLIENT = MOST_THREADS;
/** Int32 words that the bells take */
export const BELLS_WORDS = (MOST_THREADS + 1) * BELL_WORDS;

export class RoleBells {
  readonly board: BellBoard;
  readonly client: Bell;
  readonly #hosts: readonly number[];
  readonly #bells: Bell[];

  /** `hosts[i]` is the thread that hosts roles[i], or CLIENT. */
  constructor(words: Int32Array, hosts: readonly number[]) {
    this.board = new BellBoard(words, MOST_THREADS + 1);
    this.client = this.board.at(CLIENT);
    this.#hosts = hosts;
    this.#bells = hosts.map((thread) => this.board.at(thread));
  }

  of(role: Role): Bell {
    return this.#bells[roles.indexOf(role)] as Bell;
  }

  /**
   * Pack's bell lies in the replay buffer, where add() rings it. A thread has one bell, so all roles of pack's thread wait on that
   * one. A client that steps the actors itself keeps its own.
   */
  adoptPackBell(bell: Bell): void {
    const packs = this.#hosts[roles.indexOf('pack')];
    if (packs === CLIENT) return;
    for (const [i, thread] of this.#hosts.entries()) if (thread === packs) this.#bells[i] = bell;
  }

  ringAll(): void {
    for (const bell of this.#bells) bell.ring();
    this.client.ring();
  }
}
