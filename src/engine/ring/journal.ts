/**
 * The bounded history of finished ticks. Poll writes a tick's record and scalars to the journal
 * before the slot becomes Free. Statistics, traces and events read finished ticks only from here.
 */
import { BroadcastRing, broadcastBytes } from '../../shm/broadcast.ts';
import { allocateShared, type Place } from '../../shm/memory.ts';
import { MAX_SCALARS, RECORD_FIELDS } from './slot.ts';

/** Indices in an entry, whose float64 values are the record, the slot, then the scalars. */
const SLOT_AT = RECORD_FIELDS;
const SCALARS_AT = RECORD_FIELDS + 1;
const ENTRY = SCALARS_AT + MAX_SCALARS;

export interface JournalShare {
  readonly place: Place;
  readonly capacity: number;
}

/** A finished tick as read from the journal. */
export interface JournalEntry {
  /** fields by `Field` of src/engine/ring/slot.ts */
  record: Float64Array;
  slot: number;
  scalars: Float64Array;
}

export class Journal extends BroadcastRing<JournalEntry> {
  constructor({ place, capacity }: JournalShare) {
    super(place, capacity, ENTRY);
  }

  /** Allocates a journal of `capacity` entries, a power of two. */
  static allocate(capacity: number): JournalShare {
    return { place: allocateShared('the journal', broadcastBytes(capacity, ENTRY), 64), capacity };
  }

  /**
   * Writes the entry of a finished tick. Only poll calls it. If a poll actor dies after this call
   * and before the slot is Free, its successor writes the same tick again. So readers skip a
   * sequence that they have already read.
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
