/**
 * The newest time spans of a thread that brings rows of other machines, in shared memory. This
 * thread writes the spans. A trace reads the spans and learns how many of them it missed. A write
 * costs only two clock reads and one cache line. So the thread writes spans even if no trace reads
 * them.
 */
import { BroadcastRing, broadcastBytes } from '../../shm/broadcast.ts';
import { allocateShared, type Place } from '../../shm/memory.ts';

/** Float64 values per span: name, begin, end, messages, rows, bytes. */
const ENTRY = 6;
const CAPACITY = 4096;

export const spanNames = ['remote/read', 'remote/commit'] as const;
export type SpanName = (typeof spanNames)[number];

export interface Span {
  readonly name: SpanName;
  /** time of nowMs(), in milliseconds */
  readonly beginMs: number;
  readonly endMs: number;
  readonly messages: number;
  readonly rows: number;
  readonly bytes: number;
}

export class Spans extends BroadcastRing<Span> {
  constructor(place: Place) {
    super(place, CAPACITY, ENTRY);
  }

  static allocate(): Place {
    return allocateShared('spans of a trace', broadcastBytes(CAPACITY, ENTRY), 64);
  }

  write({ name, beginMs, endMs, messages, rows, bytes }: Span): void {
    const { values } = this;
    const at = this.begin();
    values[at] = spanNames.indexOf(name);
    values[at + 1] = beginMs;
    values[at + 2] = endMs;
    values[at + 3] = messages;
    values[at + 4] = rows;
    values[at + 5] = bytes;
    this.publish();
  }

  protected override entryOf(values: Float64Array): Span {
    const at = (field: number) => values[field] as number;
    const name = spanNames[at(0)] as SpanName;
    return { name, beginMs: at(1), endMs: at(2), messages: at(3), rows: at(4), bytes: at(5) };
  }
}
