/**
 * What a thread did that brings rows from elsewhere: the newest spans of its time, in shared memory. One thread writes; whoever traces
 * reads, and learns how many went by. Writing costs two looks at the clock and a line of memory, so it goes on whether or not somebody
 * traces.
 */
import { allocateShared, type Place, secondLook } from '../../shm/memory.ts';

/** float64 per span: what, begin, end, messages, rows, bytes */
const ENTRY = 6;
const CAPACITY = 4096;
const CONTROL_BYTES = 64;

export const spanNames = ['remote/read', 'remote/commit'] as const;
export type SpanName = (typeof spanNames)[number];

export interface Span {
  readonly name: SpanName;
  /** by nowMs() */
  readonly beginMs: number;
  readonly endMs: number;
  readonly messages: number;
  readonly rows: number;
  readonly bytes: number;
}

export class Spans {
  readonly #head: Int32Array;
  readonly #entries: Float64Array;

  constructor(place: Place) {
    this.#head = new Int32Array(place.memory, place.offset, 1);
    this.#entries = new Float64Array(place.memory, place.offset + CONTROL_BYTES, CAPACITY * ENTRY);
  }

  static allocate(): Place {
    return allocateShared('spans of a trace', CONTROL_BYTES + CAPACITY * ENTRY * 8, 64);
  }

  /** Spans ever written, wrapping at 2^32. */
  get head(): number {
    return Atomics.load(this.#head, 0) >>> 0;
  }

  /** As a journal does (src/engine/ring/journal.ts). The head moves after the entry is whole; a successor of a thread that ended in between writes over it. */
  write({ name, beginMs, endMs, messages, rows, bytes }: Span): void {
    const at = (this.head % CAPACITY) * ENTRY;
    this.#entries[at] = spanNames.indexOf(name);
    this.#entries[at + 1] = beginMs;
    this.#entries[at + 2] = endMs;
    this.#entries[at + 3] = messages;
    this.#entries[at + 4] = rows;
    this.#entries[at + 5] = bytes;
    Atomics.add(this.#head, 0, 1);
  }

  /** Calls `each` for spans from number `from` on, oldest first; the next number, and how many were missed. */
  read(from: number, each: (span: Span) => void): { next: number; missed: number } {
    const { head } = this;
    // The oldest one may be under the pen: one span's distance, and another look behind each copy.
    let missed = Math.max(0, ((head - from) >>> 0) - (CAPACITY - 1));
    for (let n = (from + missed) >>> 0; n !== head; n = (n + 1) >>> 0) {
      const at = (n % CAPACITY) * ENTRY;
      const [what, beginMs, endMs, messages, rows, bytes] = this.#entries.slice(at, at + ENTRY) as unknown as number[];
      if ((secondLook(this.#head, 0) - n) >>> 0 >= CAPACITY) {
        missed++;
        continue;
      }
      each({
        ...{ name: spanNames[what as number] as SpanName, beginMs: beginMs as number, endMs: endMs as number },
        ...{ messages: messages as number, rows: rows as number, bytes: bytes as number },
      });
    }
    return { next: head, missed };
  }
}
