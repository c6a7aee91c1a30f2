/**
 * A role's next place: the slot after the one that it passed on, until the client rewinds the ring.
 */
import type { Ring } from './ring.ts';
import type { SlotState } from './slot.ts';

export class SlotCursor {
  readonly #ring: Ring;
  readonly #state: SlotState;
  #rewinds: number;
  #slot: number;

  /**
   * Begins at the place of the role that passes slots on from `state`. A successor finds the same
   * slot as the actor that died (Slot-8).
   */
  constructor(ring: Ring, state: SlotState) {
    this.#ring = ring;
    this.#state = state;
    this.#rewinds = ring.header.rewinds;
    this.#slot = ring.nextSlotFor(state);
  }

  get slot(): number {
    return this.#slot;
  }

  /** Whether the slot at the seat waits for this role. */
  get waits(): boolean {
    const { header } = this.#ring;
    for (;;) {
      const waits = this.#ring.state(this.#slot) === this.#state;
      // After the state: a reader that sees a slot's state from after a rewind also sees that
      // rewind.
      const { rewinds } = header;
      if (rewinds === this.#rewinds) return waits;
      this.#rewinds = rewinds;
      this.#slot = this.#ring.nextSlotFor(this.#state);
    }
  }

  /** The slot was passed on. */
  next(): void {
    this.#slot = (this.#slot + 1) % this.#ring.depth;
  }
  /** The slot before this one was taken back. */
  back(): void {
    this.#slot = (this.#slot + this.#ring.depth - 1) % this.#ring.depth;
  }
}
