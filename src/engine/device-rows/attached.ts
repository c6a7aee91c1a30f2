/** Rows on the device as an actor's thread sees them: shared memory and handles, nothing owned. */

import type { Int64 } from '../../shm/int64.ts';
import type { Place } from '../../shm/memory.ts';
import {
  internalsOfBuffer,
  ReplayBuffer,
  type SharedReplayBuffer,
} from '../../store/rows/replay-buffer.ts';
import { DeviceRowsControl } from './control-block.ts';

/** The part of them that actors need. */
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

export class AttachedDeviceRows {
  readonly shared: SharedDeviceRows;
  readonly words: DeviceRowsControl;
  readonly buffer: ReplayBuffer;
  readonly #writers: { readonly reserved: Int64; readonly committed: Int64 };

  constructor(shared: SharedDeviceRows) {
    this.shared = shared;
    this.words = new DeviceRowsControl(shared.words);
    this.buffer = ReplayBuffer.attach(shared.buffer);
    this.#writers = internalsOfBuffer(this.buffer);
  }

  /** Rows that were ever committed. */
  get committed(): number {
    return this.#writers.committed.load();
  }
  /** A writer may be overwriting rows before it, or have overwritten them. */
  get lost(): number {
    return this.#writers.reserved.load() - this.buffer.capacity;
  }
}
