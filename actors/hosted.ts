/** The roles that one thread hosts now. They follow the table that the client chose: see I10 in src/engine/ring/slot.ts. */

import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import type { Hosting } from '../src/engine/ring/role-bells.ts';
import { type Role, roles } from '../src/engine/ring/slot.ts';

export class Hosted {
  /** in the order of a slot's life; another array when other roles are hosted */
  actors: readonly Actor[] = [];
  readonly #ring: Ring;
  readonly #thread: number;
  readonly #make: (hosted: readonly Role[]) => Actor[];
  /** the table that was read last; null before any was */
  #hosting: Hosting | null = null;
  /** what it gives to this thread, and other threads may still have */
  #missing: readonly Role[] = [];

  /** `make` makes actors that find their place in the ring by themselves (I8). */
  constructor(ring: Ring, thread: number, make: (hosted: readonly Role[]) => Actor[]) {
    this.#ring = ring;
    this.#thread = thread;
    this.#make = make;
  }

  /** Lets go of what other threads host from now on, and takes up what is this thread's once they all have let go. */
  follow(): void {
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
    if (this.#missing.length === 0 || !header.isSeen(hosting)) return;
    const made = [...this.actors, ...this.#make(this.#missing)];
    this.#missing = [];
    this.actors = made.sort((a, b) => roles.indexOf(a.role) - roles.indexOf(b.role));
  }

  close(): void {
    for (const actor of this.actors) actor.close();
    this.actors = [];
  }
}
