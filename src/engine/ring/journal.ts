/**
 * The bounded history of finished ticks: poll writes a tick's record and scalars here before the
 * slot becomes Free, and statistics, traces and events read only this.
 */
import { BroadcastRing, broadcastBytes } from '../../shm/broadcast.ts';
import { allocateShared, type Place } from '../../shm/memory.ts';
import { MAX_SCALARS, RECORD_FIELDS } from './slot.ts';

/** float64 per entry: the record, the slot, then the scalars */
const SLOT_AT = RECORD_FIELDS;
const SCALARS_AT = RECORD_FIELDS + 1;
const ENTRY = SCALARS_AT + MAX_SCALARS;

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

export class Journal extends BroadcastRing<JournalEntry> {
  constructor({ place, capacity }: JournalShare) {
    super(place, capacity, ENTRY);
  }

  /** `capacity` is a power of two. */
  static allocate(capacity: number): JournalShare {
    return { place: allocateShared('the journal', broadcastBytes(capacity, ENTRY), 64), capacity };
  }

  /**
   * Poll only. The successor of a poll actor that died between this and Free writes the same tick
   * again. Readers skip a sequence that they have seen.
   */
  write(record: Float64Array, slot: number, scalars: Float32Array): void {
    const { values } = this;
    const at = this.begin();
    for (let i = 0; i < RECORD_FIELDS; i++) values[at + i] = record[i] as number;
    values[at + SLOT_AT] = slot;
    for (let i = 0; i < MAX_SCALARS; i++) values[at + SCALARS_AT + i] = scalars[i] as number;
    this.publish();
  }

  protected override entryOf(values: Float64Array): JournalEntry {
    const [record, scalars] = [values.subarray(0, RECORD_FIELDS), values.subarray(SCALARS_AT)];
    return { record, slot: values[SLOT_AT] as number, scalars };
  }
}
