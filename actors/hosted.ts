/**
 * The roles that one thread hosts now. They follow the table that the client chose: see Slot-10 in
 * src/engine/ring/slot.ts.
 */

import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import type { Hosting } from '../src/engine/ring/role-bells.ts';
import { type Role, roles } from '../src/engine/ring/slot.ts';
import type { PollActor } from './poll.ts';

export class Hosted {
  /** in the order of a slot's life, another array when other roles are hosted */
  actors: readonly Actor[] = [];
  /** the actor that works, or did last, undefined before one does */
  working: Actor | undefined;
  readonly #longPack: boolean;
  readonly #ring: Ring;
  readonly #thread: number;
  readonly #make: (hosted: readonly Role[]) => Actor[];
  /** the table that was read last, null before any was */
  #hosting: Hosting | null = null;
  #missing: readonly Role[] = [];

  /**
   * `make` makes actors that find their place in the ring by themselves (Slot-8). `longPack`:
   * packing takes longer than a thread of the host device's pool takes to wake.
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

  /** what the table gives to this thread, and other threads may still have */
  get missing(): readonly Role[] {
    return this.#missing;
  }

  get poll(): PollActor | undefined {
    return this.actors.find((actor): actor is PollActor => actor.role === 'poll');
  }
  /** An actor waits for something that rings no bell. */
  get waitsUnrung(): boolean {
    return this.actors.some(({ waitsUnrung }) => waitsUnrung);
  }

  /** Lets each actor work once, in the order of a slot's life. Returns how much they did. */
  work(): number {
    let done = 0;
    for (const actor of this.actors) {
      this.working = actor;
      // The host device does not count on a thread that packs for long: the caller's work would
      // wait for that.
      const poll = this.#longPack && actor.role === 'pack' ? this.poll : undefined;
      poll?.away();
      done += actor.work();
      poll?.back();
    }
    return done;
  }

  /**
   * Lets go of what other threads host from now on, and takes up what is this thread's once they
   * all have let go.
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
