/** A broadcast ring in which all values of an entry are the same number. */
import { BroadcastRing, broadcastBytes } from '../../src/shm/broadcast.ts';
import { allocateShared, type Place } from '../../src/shm/memory.ts';

const WIDTH = 64;

export class NumbersRing extends BroadcastRing<number[]> {
  constructor(place: Place, capacity: number) {
    super(place, capacity, WIDTH);
  }

  static allocate(capacity: number): Place {
    return allocateShared('a ring', broadcastBytes(capacity, WIDTH), 64);
  }

  write(n: number): void {
    const at = this.begin();
    for (let i = 0; i < WIDTH; i++) this.values[at + i] = n;
    this.publish();
  }

  /** Returns the distinct values of the entry: one, unless the entry is torn. */
  protected override entryOf(values: Float64Array): number[] {
    return [...new Set(values)];
  }
}
