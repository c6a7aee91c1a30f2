/**
 * Enqueues a packed slot's copy and its `copied` event on the copy stream, through the transfer
 * backend. Packed → Submitted.
 */

import { nowMs } from '../src/base/clock.ts';
import type { AttachedTransferBackend } from '../src/device/transfer/attached.ts';
import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field, SlotState } from '../src/engine/ring/slot.ts';
import { SlotCursor } from '../src/engine/ring/slot-cursor.ts';

export class SubmitActor implements Actor {
  readonly role = 'submit';
  readonly #cursor: SlotCursor;
  readonly #ring: Ring;
  readonly #backend: AttachedTransferBackend;
  readonly #hostBuffers: HostBuffers;

  constructor({
    ring,
    backend,
    hostBuffers,
  }: { ring: Ring; backend: AttachedTransferBackend; hostBuffers: HostBuffers }) {
    this.#ring = ring;
    this.#backend = backend;
    this.#hostBuffers = hostBuffers;
    this.#cursor = new SlotCursor(ring, SlotState.Packed);
  }

  get slot(): number {
    return this.#cursor.slot;
  }

  work(): number {
    const ring = this.#ring;
    let submitted = 0;
    while (this.#cursor.waits) {
      const { slot } = this.#cursor;
      const record = ring.record(slot);
      record[Field.submitBegin] = nowMs();
      const bytes = this.#hostBuffers.moves(slot);
      record[Field.moved] = bytes;
      // A copy that a dead actor enqueued may still run. Copying the same bytes again changes
      // nothing (Slot-8).
      this.#backend.submitSlot(slot, bytes);
      record[Field.submitEnd] = nowMs();
      ring.handOver(slot, SlotState.Submitted, 'poll');
      this.#cursor.next();
      submitted++;
    }
    return submitted;
  }

  close(): void {
    this.#backend.close();
  }
}
