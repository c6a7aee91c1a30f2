/**
 * The small fifth role, always on pack's thread: moves what is asked for into the next Free slot. Free → Requested.
 * The only writer of a Free slot's record.
 */
import { answered } from '../src/addon.ts';
import type { ReplayBuffer } from '../src/buffer/replay-buffer.ts';
import { native } from '../src/device/native.ts';
import { Gate, Mode, type Ring, Run } from '../src/ring/ring.ts';
import { Field, SlotState } from '../src/ring/slot.ts';

const WORD = 2 ** 32;

export class Requester {
  readonly #ring: Ring;
  readonly #buffer: ReplayBuffer;
  /** rows were seen: a buffer never becomes empty again */
  #filled = false;
  #slot: number;

  constructor(ring: Ring, buffer: ReplayBuffer) {
    this.#ring = ring;
    this.#buffer = buffer;
    this.#slot = ring.place(SlotState.Free);
  }

  work(): number {
    const ring = this.#ring;
    let made = 0;
    while (ring.state(this.#slot) === SlotState.Free) {
      const sequence = ring.sequence(this.#slot);
      // Asked for is a bound on the sequence, not a message: looking twice, or again after a death, asks for nothing new.
      const gate = this.#gate(sequence);
      ring.setGate(gate);
      if (gate !== Gate.open) return made;
      this.#request(sequence);
      ring.handOver(this.#slot, SlotState.Requested, 'pack');
      this.#slot = (this.#slot + 1) % ring.depth;
      made++;
    }
    if (made === 0) {
      ring.setGate(Gate.slots);
      if (ring.mode === Mode.paused) ring.acknowledgePause('requester');
    }
    return made;
  }

  #gate(sequence: number): Gate {
    const ring = this.#ring;
    // The mode is read before the run fields it publishes.
    const mode = ring.mode;
    if (mode === Mode.paused) {
      ring.acknowledgePause('requester');
      return Gate.paused;
    }
    let rows: number;
    if (mode === Mode.manual) {
      if (!ring.asked(sequence)) return Gate.nothingAsked;
      rows = ring.run[Run.rows] as number;
    } else {
      const place = sequence - (ring.run[Run.firstSequence] as number);
      if (place >= (ring.run[Run.ticks] as number)) return Gate.nothingAsked;
      // A run can be ended at any time, so its requests never wait for the first rows in a slot.
      this.#filled ||= this.#buffer.ptr > 0;
      if (!this.#filled) return Gate.rows;
      rows = ring.run[Run.runRows] as number;
    }
    const { limiter } = this.#buffer;
    return limiter === null || limiter.takeSamples(rows) ? Gate.open : Gate.limiter;
  }

  #request(sequence: number): void {
    const { run } = this.#ring;
    const record = this.#ring.record(this.#slot);
    const manual = this.#ring.mode === Mode.manual;
    const place = sequence - (run[Run.firstSequence] as number);
    const tick = manual ? (run[Run.tick] as number) : (run[Run.firstTick] as number) + place;
    const every = run[Run.publishEvery] as number;
    record[Field.sequence] = sequence;
    record[Field.tick] = tick;
    record[Field.rows] = run[manual ? Run.rows : Run.runRows] as number;
    record[Field.seed] = ((run[Run.baseSeed] as number) + (tick % WORD)) % WORD;
    record[Field.leastPtr] = manual ? (run[Run.leastPtr] as number) : 1;
    record[Field.publish] = !manual && every > 0 && (place + 1) % every === 0 ? 1 : 0;
    record[Field.version] = 0;
    record[Field.requestedAt] = answered(native().nowMs());
  }
}
