/**
 * A ring in shared memory that one thread writes and any threads read, each at its own pace. It
 * contains the newest entries of a history, each of them `width` float64 values. The writer never
 * waits. A reader that lags by more than the capacity learns how many entries it missed.
 * test/model/broadcast.ts checks these rules in every order of the threads' steps:
 * Broadcast-1  A reader never gets an entry that is partly overwritten.
 * Broadcast-2  A reader gets each entry once, or counts it as missed.
 */
import { LINE, type Place, secondLook } from './memory.ts';

/** offset of the entries in bytes, after the cache line of the head */
const ENTRIES_AT = LINE * 4;
export const broadcastBytes = (capacity: number, width: number): number =>
  ENTRIES_AT + capacity * width * 8;

export abstract class BroadcastRing<Entry> {
  readonly capacity: number;
  /** the values of all entries, `width` for each */
  readonly values: Float64Array;
  readonly #width: number;
  readonly #head: Int32Array;

  /**
   * `memory` has broadcastBytes() bytes from `offset` on. If `entriesAt` is given, the entries
   * begin there instead of after the head. The capacity must be a power of two. Entry n is stored
   * at n mod capacity, which stays in order when n wraps from 2^32 − 1 to 0.
   */
  constructor(
    { memory, offset }: Place,
    capacity: number,
    width: number,
    entriesAt = offset + ENTRIES_AT,
  ) {
    this.capacity = capacity;
    this.values = new Float64Array(memory, entriesAt, capacity * width);
    this.#width = width;
    this.#head = new Int32Array(memory, offset, 1);
  }

  /** Returns the entry that these values describe. */
  protected abstract entryOf(values: Float64Array): Entry;

  /** The number of entries ever written, modulo 2^32. */
  get head(): number {
    return Atomics.load(this.#head, 0) >>> 0;
  }
  /**
   * Sets the number of entries ever written. Call it before another thread gets the ring. Also
   * store the newest entries in `values`, each at its index (at()).
   */
  restore(head: number): void {
    Atomics.store(this.#head, 0, head | 0);
  }

  /** Returns the index in `values` at which entry `n` begins. */
  at(n: number): number {
    return (n % this.capacity) * this.#width;
  }
  /**
   * Returns the index in `values` at which the next entry begins. Only the writer calls begin().
   * The writer then stores the entry's values from this index on and calls publish(). If the writer
   * dies before publish(), its successor writes the same entry.
   */
  begin(): number {
    // Loads the head atomically. Otherwise, on arm64, a reader could see the new values before the
    // last addition to the head. It would then accept an entry that is partly overwritten
    // (Broadcast-1).
    return this.at(this.head);
  }
  publish(): void {
    Atomics.add(this.#head, 0, 1);
  }

  /**
   * Calls `each` for the entries from number `from` on, oldest first, but only for the newest
   * `most` of them. `each` also gets the number of entries that were missed so far. Returns the
   * number of the next entry, and how many entries were missed in all.
   */
  read(
    from: number,
    each: (entry: Entry, missed: number) => void,
    most = this.capacity,
  ): { next: number; missed: number } {
    const { head } = this;
    // The writer may be overwriting the oldest entry, so the reader skips that entry. The writer
    // may also overwrite an entry while the reader copies it. So the reader reads the head again
    // after each copy, and counts the entry as missed if it may be overwritten.
    let missed = Math.max(0, ((head - from) >>> 0) - Math.min(most, this.capacity - 1));
    for (let n = (from + missed) >>> 0; n !== head; n = (n + 1) >>> 0) {
      const at = this.at(n);
      const copy = this.values.slice(at, at + this.#width);
      if ((secondLook(this.#head, 0) - n) >>> 0 >= this.capacity) missed++;
      else each(this.entryOf(copy), missed);
    }
    return { next: head, missed };
  }
}
