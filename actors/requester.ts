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
      // The client asks by a bound on the sequence, not by a message. So reading it twice, or again
      // after a restart, requests nothing twice.
      const gate = this.#gate(sequence, mode);
      ring.header.setGate(gate);
      if (gate !== Gate.open) return made;
      this.#request(slot, sequence, mode);
      ring.handOver(slot, SlotState.Requested, 'pack');
      this.#cursor.next();
      // Slot-9: the mode, the stop word and the failure are read after the request was stored.
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
   * Takes back requests from the newest one down to this slot's, none of which pack has begun. Each
   * slot becomes Free for the same sequence. The newest request goes first, so that the remaining
   * requests are always the oldest. Only pack's thread calls it, while requests are paused. Returns
   * the number of requests.
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
    // Other pipelines may sample the rows that were given back. Only this thread rings them:
    // writers have less room now and may not ring (Limiter-5).
    if (limiter) bells.ringAll();
    return taken;
  }

  /**
   * Returns the gate of the next request. The caller reads the mode before this function reads the
   * run fields that the mode publishes.
   */
  #gate(sequence: number, mode: Mode): Gate {
    const { header, run } = this.#ring;
    if (mode === Mode.paused) {
      // A requester that died may have counted a sequence that it did not request. Its rows are
      // given back. All batches of a pipeline have the same number of rows.
      if (this.#giveBack(sequence, run.runRows || run.rows)) this.#source.bells.ringAll();
      header.acknowledgePause('requester');
      return Gate.paused;
    }
    if (mode === Mode.manual) {
      if (!header.requested(sequence)) return Gate.nothingAsked;
    } else {
      if (!run.holds(sequence)) return Gate.nothingAsked;
      // A run requests a tick only after the buffer has rows. Otherwise the request would wait for
      // them in a slot, and a run may end at any time.
      if (!this.#source.filled()) return Gate.rows;
    }
    const { limiter } = this.#source;
    // If a requester died after it counted this sequence and before it requested the tick, the
    // count stays valid.
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
   * Gives back the rows that the limiter has counted for this sequence and later ones. Returns true
   * if there were any.
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
