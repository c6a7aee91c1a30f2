/**
 * Creates and closes the actors of one thread, according to the table of hosts that the client
 * chose. See Slot-10 in src/engine/ring/slot.ts.
 */

import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import type { Hosting } from '../src/engine/ring/role-bells.ts';
import { type Role, roles } from '../src/engine/ring/slot.ts';
import type { PollActor } from './poll.ts';

export class Hosted {
  /** actors in the order of a slot's life. The array is replaced when the thread's roles change */
  actors: readonly Actor[] = [];
  /** the actor that works now or worked last, undefined before the first work */
  working: Actor | undefined;
  readonly #longPack: boolean;
  readonly #ring: Ring;
  readonly #thread: number;
  readonly #make: (hosted: readonly Role[]) => Actor[];
  /** the table that was read last, null before the first read */
  #hosting: Hosting | null = null;
  #missing: readonly Role[] = [];

  /**
   * `make` creates the actors of the given roles. Each actor finds its next slot from the ring
   * (Slot-8). `longPack` is true if packing a batch takes longer than waking a thread of the CPU
   * device's pool.
   */
  constructor(
    ring: Ring,
    { thread, longPack }: { thread: number; longPack: boolean },
    make: (hosted: readonly Role[]) => Actor[],
  ) {
    this.#ring = ring;
    this.#thread = thread;
    this.#longPack = longPack;
    this.#make = make;
  }

  /**
   * Roles that the table assigns to this thread and whose actors do not exist yet. Other threads
   * may still host them.
   */
  get missing(): readonly Role[] {
    return this.#missing;
  }

  get poll(): PollActor | undefined {
    return this.actors.find((actor): actor is PollActor => actor.role === 'poll');
  }
  /** True if an actor waits for something that rings no bell. */
  get waitsUnrung(): boolean {
    return this.actors.some(({ waitsUnrung }) => waitsUnrung);
  }

  /**
   * Calls work() of each actor once, in the order of a slot's life. Returns the number of actions
   * of all of them.
   */
  work(): number {
    let done = 0;
    for (const actor of this.actors) {
      this.working = actor;
      // The CPU device may rely on poll's thread to run its work. During a long pack this thread
      // cannot do that, so away() makes the device use other threads. Otherwise the work would wait
      // until the pack ends.
      const poll = this.#longPack && actor.role === 'pack' ? this.poll : undefined;
      poll?.away();
      done += actor.work();
      poll?.back();
    }
    return done;
  }

  /**
   * Closes the actors of roles that the table assigns to other threads. Creates the actors of this
   * thread's new roles if all threads have released the roles that moved. Otherwise a later call
   * creates them.
   */
  follow(): void {
    this.working = undefined;
    const { header, bells } = this.#ring;
    const { hosting } = header;
    if (hosting !== this.#hosting) {
      const hosted = bells.hostedBy(this.#thread, hosting);
      const kept = this.actors.filter(({ role }) => hosted.includes(role));
      for (const actor of this.actors) if (!kept.includes(actor)) actor.close();
      this.actors = kept;
      this.#missing = hosted.filter((role) => !kept.some((actor) => actor.role === role));
      this.#hosting = hosting;
      header.seeHosting(this.#thread, hosting);
    }
    if (this.#missing.length === 0 || !header.isAcknowledged(hosting)) return;
    const made = [...this.actors, ...this.#make(this.#missing)];
    this.#missing = [];
    this.actors = made.sort((a, b) => roles.indexOf(a.role) - roles.indexOf(b.role));
  }

  close(): void {
    for (const actor of this.actors) actor.close();
    this.actors = [];
  }
}
