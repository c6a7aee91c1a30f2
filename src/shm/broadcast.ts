/**
 * A ring in shared memory that one thread writes and any threads read, each at its own pace: the
 * newest entries of a history, each of them `width` float64. The writer never waits. A reader that
 * lags by more than the capacity learns how many entries it missed.
 * test/model/broadcast.ts steps every order:
 * Broadcast-1  an entry that is read is whole.
 * Broadcast-2  each entry is read once, or counted as missed.
 */
import { LINE, type Place, secondLook } from './memory.ts';

/** bytes: the head has a line of its own before the entries */
const ENTRIES_AT = LINE * 4;
export const broadcastBytes = (capacity: number, width: number): number =>
  ENTRIES_AT + capacity * width * 8;

export abstract class BroadcastRing<Entry> {
  readonly capacity: number;
  /** of all entries */
  readonly values: Float64Array;
  readonly #width: number;
  readonly #head: Int32Array;

  /**
   * The place has broadcastBytes(), unless the entries lie elsewhere than after the word that
   * counts them. `capacity` is a power of two, so that the wrapping count stays in step.
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

  /** Entries ever written, wrapping at 2^32. */
  get head(): number {
    return Atomics.load(this.#head, 0) >>> 0;
  }
  /**
   * Sets how many entries were written, before another thread has the ring. The newest are in
   * `values`.
   */
  restore(head: number): void {
    Atomics.store(this.#head, 0, head | 0);
  }

  /** Returns where entry `n` begins in `values`. */
  at(n: number): number {
    return (n % this.capacity) * this.#width;
  }
  /**
   * Returns where the next entry begins in `values`. The writer alone calls this, stores the
   * entry's values there, then calls publish(). If it dies in between, its successor begins the
   * same entry.
   */
  begin(): number {
    // Loads the head, because otherwise the values could be seen before the last addition on arm64.
    return this.at(this.head);
  }
  publish(): void {
    Atomics.add(this.#head, 0, 1);
  }

  /**
   * Calls `each` for entries from number `from` on, the newest `most` of them, oldest first, with
   * how many were missed before. Returns the next number and how many were missed.
   */
  read(
    from: number,
    each: (entry: Entry, missed: number) => void,
    most = this.capacity,
  ): { next: number; missed: number } {
    const { head } = this;
    // The writer may be in the oldest entry: keep one entry's distance, and look again after each
    // copy.
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
