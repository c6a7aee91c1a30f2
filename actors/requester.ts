/**
 * The small fifth role, always on pack's thread: moves what is asked for into the next Free slot.
 * Free → Requested. The only writer of a Free slot's record.
 */

import { nowMs } from '../src/base/clock.ts';
import type { Packer } from '../src/engine/pipeline/packer.ts';
import { Gate, Mode } from '../src/engine/ring/header.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field, SEQUENCE_MASK, SlotState } from '../src/engine/ring/slot.ts';
import { SlotCursor } from '../src/engine/ring/slot-cursor.ts';
import { internalsOfLimiter } from '../src/store/rate-limiter.ts';

export class Requester {
  readonly #ring: Ring;
  readonly #source: Pick<Packer, 'filled' | 'limiter' | 'bells'>;
  readonly #cursor: SlotCursor;

  constructor(ring: Ring, source: Pick<Packer, 'filled' | 'limiter' | 'bells'>) {
    this.#ring = ring;
    this.#source = source;
    this.#cursor = new SlotCursor(ring, SlotState.Free);
  }

  work(): number {
    const ring = this.#ring;
    let made = 0;
    while (this.#cursor.waits) {
      const { slot } = this.#cursor;
      const sequence = ring.sequence(slot);
      const { mode } = ring.header;
      // Asked for is a bound on the sequence, not a message: looking twice, or again after a death,
      // asks for nothing new.
      const gate = this.#gate(sequence, mode);
      ring.header.setGate(gate);
      if (gate !== Gate.open) return made;
      this.#request(slot, sequence, mode);
      ring.handOver(slot, SlotState.Requested, 'pack');
      this.#cursor.next();
      // Slot-9: read after the request was stored.
      if (!ring.header.mayRequest(mode) || ring.failure.set) {
        this.takeBack(slot);
        return made;
      }
      made++;
    }
    if (made === 0) {
      ring.header.setGate(Gate.slots);
      if (ring.header.mode === Mode.paused) ring.header.acknowledgePause('requester');
    }
    return made;
  }

  /**
   * Takes back the requests from the newest down to this slot's, which nobody has begun on: each
   * slot is Free again for the same sequence. The newest first, so that those that are left are
   * always the oldest. Pack's thread only, when requests are paused.
   */
  takeBack(slot: number): number {
    const ring = this.#ring;
    const { limiter, bells } = this.#source;
    let taken = 0;
    for (let last = -1; last !== slot; taken++) {
      this.#cursor.back();
      last = this.#cursor.slot;
      ring.takeBack(last);
      this.#giveBack(ring.sequence(last), ring.record(last)[Field.rows] as number);
    }
    // It is room for other pipelines that sample, and writers, which have less of it now, may not
    // come to ring them (Limiter-5).
    if (limiter) bells.ringAll();
    return taken;
  }

  /** The mode was read before the run fields that it publishes. */
  #gate(sequence: number, mode: Mode): Gate {
    const { header, run } = this.#ring;
    if (mode === Mode.paused) {
      // Gives back what a requester that died counted and did not request. All batches of a
      // pipeline are of one size.
      if (this.#giveBack(sequence, run.runRows || run.rows)) this.#source.bells.ringAll();
      header.acknowledgePause('requester');
      return Gate.paused;
    }
    if (mode === Mode.manual) {
      if (!header.requested(sequence)) return Gate.nothingAsked;
    } else {
      if (!run.holds(sequence)) return Gate.nothingAsked;
      // A run can be ended at any time, so its requests never wait for the first rows in a slot.
      if (!this.#source.filled()) return Gate.rows;
    }
    const { limiter } = this.#source;
    // Counted and not yet requested: the count of a requester that died in between stays valid.
    if (limiter === null || header.countedFrom(sequence) > 0) return Gate.open;
    const rows = mode === Mode.manual ? run.rows : run.runRows;
    const taken = internalsOfLimiter(limiter).take(
      rows,
      header.counted,
      (sequence + 1) & SEQUENCE_MASK,
    );
    return taken ? Gate.open : Gate.limiter;
  }

  /**
   * Gives back what the limiter counts from this sequence on, and returns whether there was any.
   */
  #giveBack(sequence: number, rows: number): boolean {
    const { limiter } = this.#source;
    const { header } = this.#ring;
    const sequences = limiter === null ? 0 : header.countedFrom(sequence);
    if (limiter === null || sequences === 0) return false;
    internalsOfLimiter(limiter).giveBack(
      rows * sequences,
      header.counted,
      sequence & SEQUENCE_MASK,
    );
    return true;
  }

  #request(slot: number, sequence: number, mode: Mode): void {
    const { run } = this.#ring;
    const record = this.#ring.record(slot);
    const manual = mode === Mode.manual;
    const tick = manual ? run.tick : run.tickOf(sequence);
    record[Field.sequence] = sequence;
    record[Field.tick] = tick;
    record[Field.rows] = manual ? run.rows : run.runRows;
    record[Field.seed] = run.seedOf(tick);
    record[Field.minPtr] = manual ? run.minPtr : 1;
    record[Field.publish] = !manual && run.publishes(sequence) ? 1 : 0;
    record[Field.version] = 0;
    record[Field.beta] = this.#ring.beta;
    record[Field.requestedAt] = nowMs();
  }
}
