/** Submits a packed slot's copy and its `copied` event to the copy stream, through the transfer backend. Packed → Submitted. */

import { nowMs } from '../src/clock.ts';
import type { Ring } from '../src/ring/ring.ts';
import { Field, PARAMS_BYTES, SlotState } from '../src/ring/slot.ts';
import type { AttachedTransferBackend } from '../src/transfer/attached.ts';
import type { Actor } from './actor.ts';

export class SubmitActor implements Actor {
  readonly role = 'submit';
  slot: number;
  readonly #ring: Ring;
  readonly #backend: AttachedTransferBackend;
  readonly #batchBytes: number;

  constructor({ ring, backend, batchBytes }: { ring: Ring; backend: AttachedTransferBackend; batchBytes: number }) {
    this.#ring = ring;
    this.#backend = backend;
    this.#batchBytes = batchBytes;
    this.slot = ring.seatOf(SlotState.Packed);
  }

  work(): number {
    const ring = this.#ring;
    let submitted = 0;
    while (ring.state(this.slot) === SlotState.Packed) {
      const { slot } = this;
      const record = ring.record(slot);
      record[Field.submitBegin] = nowMs();
      // A copy that a dead actor enqueued may still run: the same bytes once more change nothing (I8).
      this.#backend.submitSlot(slot, PARAMS_BYTES + this.#batchBytes);
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
