/** Submits a packed slot's copy and its `copied` event to the copy stream, through the transfer backend. Packed → Submitted. */

import { nowMs } from '../src/clock.ts';
import type { HostHalves } from '../src/ring/host-halves.ts';
import type { Ring } from '../src/ring/ring.ts';
import { Field, SlotState } from '../src/ring/slot.ts';
import type { AttachedTransferBackend } from '../src/transfer/attached.ts';
import type { Actor } from './actor.ts';

export class SubmitActor implements Actor {
  readonly role = 'submit';
  slot: number;
  readonly #ring: Ring;
  readonly #backend: AttachedTransferBackend;
  readonly #halves: HostHalves;

  constructor({ ring, backend, halves }: { ring: Ring; backend: AttachedTransferBackend; halves: HostHalves }) {
    this.#ring = ring;
    this.#backend = backend;
    this.#halves = halves;
    this.slot = ring.seatOf(SlotState.Packed);
  }

  work(): number {
    const ring = this.#ring;
    let submitted = 0;
    while (ring.state(this.slot) === SlotState.Packed) {
      const { slot } = this;
      const record = ring.record(slot);
      record[Field.submitBegin] = nowMs();
      const bytes = this.#halves.moves(slot);
      record[Field.moved] = bytes;
      // A copy that a dead actor enqueued may still run: the same bytes once more change nothing (I8).
      this.#backend.submitSlot(slot, bytes);
      record[Field.submitEnd] = nowMs();
      ring.handOver(slot, SlotState.Submitted, 'poll');
      this.slot = (slot + 1) % ring.depth;
      submitted++;
    }
    return submitted;
  }

  close(): void {
    this.#backend.close();
  }
}
