/**
 * The bounded history of finished ticks: poll writes a tick's record and scalars here before the slot becomes Free, and
 * statistics, traces and events read only this. A reader that falls behind by more than the capacity learns how many
 * entries it missed. One writer and any readers, as of spans and episodes too; test/model/journal.ts steps every order:
 * - J1: an entry that is read is whole.
 * - J2: each entry is read once, or counted as missed.
 */
import { allocateShared, type Place, secondLook } from '../../shm/memory.ts';
import { MOST_SCALARS, RECORD_FIELDS } from './slot.ts';

/** float64 per entry: the record, the slot, then the scalars */
const SLOT_AT = RECORD_FIELDS;
const SCALARS_AT = RECORD_FIELDS + 1;
const ENTRY = SCALARS_AT + MOST_SCALARS;
const HEAD = 0;
const CONTROL_BYTES = 64;

export interface JournalShare {
  readonly place: Place;
  readonly capacity: number;
}

/** A finished tick as the journal keeps it. */
export interface JournalEntry {
  /** by `Field` of src/engine/ring/slot.ts */
  record: Float64Array;
  slot: number;
  scalars: Float64Array;
}

export class Journal {
  readonly capacity: number;
  readonly #head: Int32Array;
  readonly #entries: Float64Array;

  constructor({ place, capacity }: JournalShare) {
    this.capacity = capacity;
    this.#head = new Int32Array(place.memory, place.offset, 1);
    this.#entries = new Float64Array(place.memory, place.offset + CONTROL_BYTES, capacity * ENTRY);
  }

  /** `capacity` is a power of two, so that the wrapping head stays in step. */
  static allocate(capacity: number): JournalShare {
    return { place: allocateShared('the journal', CONTROL_BYTES + capacity * ENTRY * 8, 64), capacity };
  }

  /** Entries ever written, wrapping at 2^32. */
  get head(): number {
    return Atomics.load(this.#head, HEAD) >>> 0;
  }

  /**
   * Poll only. The head moves after the entry is whole: it publishes the entry. A poll actor that died between this and
   * Free writes the same tick again; the sequence tells (readers skip what they have seen).
   */
  write(record: Float64Array, slot: number, scalars: Float32Array): void {
    // Loads the head: on arm64 the bytes could be seen before the last addition else.
    const at = (this.head % this.capacity) * ENTRY;
    for (let i = 0; i < RECORD_FIELDS; i++) this.#entries[at + i] = record[i] as number;
    this.#entries[at + SLOT_AT] = slot;
    for (let i = 0; i < MOST_SCALARS; i++) this.#entries[at + SCALARS_AT + i] = scalars[i] as number;
    Atomics.add(this.#head, HEAD, 1);
  }

  /** Calls `each` for entries from number `from` on, oldest first; returns the next number and how many were missed. */
  read(from: number, each: (entry: JournalEntry) => void): { next: number; missed: number } {
    const head = this.head;
    const behind = (head - from) >>> 0;
    // The oldest entry may be under poll's pen: keep one entry's distance, and look again after each copy.
    let missed = Math.max(0, behind - (this.capacity - 1));
    for (let n = (from + missed) >>> 0; n !== head; n = (n + 1) >>> 0) {
      const at = (n % this.capacity) * ENTRY;
      const copy = this.#entries.slice(at, at + ENTRY);
      if ((secondLook(this.#head, HEAD) - n) >>> 0 >= this.capacity) {
        missed++;
        continue;
      }
      each({
        record: copy.subarray(0, RECORD_FIELDS),
        slot: copy[SLOT_AT] as number,
        scalars: copy.subarray(SCALARS_AT),
      });
    }
    return { next: head, missed };
  }
}
