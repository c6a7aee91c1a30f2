/**
 * Requests the next tick in the next Free slot. Free → Requested. It is the small fifth role,
 * always runs on pack's thread, and is the only writer of a Free slot's record.
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
      // The client asks for ticks by storing a bound: all sequences below it may be requested. So a
      // requester that reads the bound again, for example after a restart, requests no sequence
      // twice.
      const gate = this.#gate(sequence, mode);
      ring.header.setGate(gate);
      if (gate !== Gate.open) return made;
      this.#request(slot, sequence, mode);
      ring.handOver(slot, SlotState.Requested, 'pack');
      this.#cursor.next();
      // Slot-9: the mode, the stop word and the failure are read after the request was stored. If
      // one of them stops requests, the requester takes this request back.
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
   * Takes back requests that pack has not begun, from the newest request down to the request in
   * this slot. Each slot becomes Free for the same sequence. The newest request is taken back
   * first, so that the remaining requests are always the oldest.
   *
   * Only pack's thread calls it, while requests are paused. Returns the number of requests that it
   * took back.
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
    // The limiter may now let other pipelines sample these rows, so this thread wakes them. Writers
    // cannot be relied on to wake them: they have less room now, and may never add again
    // (Limiter-5).
    if (limiter) bells.ringAll();
    return taken;
  }

  /**
   * Returns the reason why the next request is not made now, or Gate.open. The caller reads the
   * mode before this function reads the run fields, because the mode publishes them.
   */
  #gate(sequence: number, mode: Mode): Gate {
    const { header, run } = this.#ring;
    if (mode === Mode.paused) {
      // A requester that died may have let the limiter count a sequence, and then not requested it.
      // The limiter gets the rows of that sequence back. Their number is known, because all batches
      // of a pipeline have the same number of rows.
      if (this.#giveBack(sequence, run.runRows || run.rows)) this.#source.bells.ringAll();
      header.acknowledgePause('requester');
      return Gate.paused;
    }
    if (mode === Mode.manual) {
      if (!header.requested(sequence)) return Gate.nothingAsked;
    } else {
      if (!run.holds(sequence)) return Gate.nothingAsked;
      // During a run, a tick is requested only if the buffer has rows to draw. Otherwise the
      // request would wait in a slot, and the run may end before rows are added.
      if (!this.#source.filled()) return Gate.rows;
    }
    const { limiter } = this.#source;
    // countedFrom() is positive if a requester died after the limiter counted this sequence and
    // before it requested the tick. That count is still valid, so the limiter does not count the
    // sequence again.
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
   * Gives back to the limiter what it counted for this sequence and later ones. `rows` is the
   * number of rows of one batch. Returns true if the limiter had counted any.
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
