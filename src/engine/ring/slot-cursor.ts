/**
 * Tracks the slot that a role serves next. That is the slot after the one that it handed over,
 * unless the client rewound the ring.
 */
import type { Ring } from './ring.ts';
import type { SlotState } from './slot.ts';

export class SlotCursor {
  readonly #ring: Ring;
  readonly #state: SlotState;
  #rewinds: number;
  #slot: number;

  /**
   * Begins at the slot that is next for the role that serves `state`. A successor of a dead actor
   * finds the same slot (Slot-8).
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

  /**
   * True if the current slot waits for this role. If the client has rewound the ring, the getter
   * finds the new slot first.
   */
  get waits(): boolean {
    const { header } = this.#ring;
    for (;;) {
      const waits = this.#ring.state(this.#slot) === this.#state;
      // The rewinds are read after the state. If another thread stored this state after a rewind,
      // the cursor therefore sees that rewind and finds its slot again.
      const { rewinds } = header;
      if (rewinds === this.#rewinds) return waits;
      this.#rewinds = rewinds;
      this.#slot = this.#ring.nextSlotFor(this.#state);
    }
  }

  /** Moves to the next slot, after this one was handed over. */
  next(): void {
    this.#slot = (this.#slot + 1) % this.#ring.depth;
  }
  /** Moves to the slot before, whose request is taken back. */
  back(): void {
    this.#slot = (this.#slot + this.#ring.depth - 1) % this.#ring.depth;
  }
}
