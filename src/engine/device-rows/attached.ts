/** Rows on the device as an actor's thread sees them: shared memory and handles, nothing owned. */

import type { Place } from '../../shm/memory.ts';
import { insideOfBuffer, ReplayBuffer, type SharedReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { DeviceRowsWords } from './words.ts';

/** What actors need of them. */
export interface SharedDeviceRows {
  readonly words: Place;
  readonly buffer: SharedReplayBuffer;
  readonly stream: number;
  /** one for every span that can be on the way */
  readonly events: readonly number[];
  readonly ring: number;
  readonly host: number;
  readonly places: number;
  readonly guard: number;
  /** of one span, at most */
  readonly rowsPerSpan: number;
  /** bytes from a row to the next, on both sides */
  readonly stride: number;
  /** bytes from the registered memory's start to row 0 */
  readonly rowsAt: number;
  readonly baseSeed: number;
}

/** Where the buffer's header says how far writers are, in words of 32 bits; native/rows/rows.hpp draws it. */
const Counter = { reserved: 16, committed: 32 } as const;

export class AttachedDeviceRows {
  readonly shared: SharedDeviceRows;
  readonly words: DeviceRowsWords;
  readonly buffer: ReplayBuffer;
  readonly #counters: Int32Array;

  constructor(shared: SharedDeviceRows) {
    this.shared = shared;
    this.words = new DeviceRowsWords(shared.words);
    this.buffer = ReplayBuffer.attach(shared.buffer);
    const { memory } = insideOfBuffer(this.buffer);
    this.#counters = new Int32Array(memory.buffer, memory.byteOffset, Counter.committed + 2);
  }

  /** Rows that were ever committed. */
  get committed(): number {
    return this.#counted(Counter.committed);
  }
  /** Rows before it may be under a writer's pen, or overwritten. */
  get lost(): number {
    return this.#counted(Counter.reserved) - this.buffer.capacity;
  }

  /** A count of 64 bits that only grows, in two halves: a big integer would be allocated in every look. */
  #counted(at: number): number {
    for (;;) {
      const upper = Atomics.load(this.#counters, at + 1);
      const lower = Atomics.load(this.#counters, at) >>> 0;
      if (Atomics.load(this.#counters, at + 1) === upper) return (upper >>> 0) * 2 ** 32 + lower;
    }
  }
}
