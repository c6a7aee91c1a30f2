/** Rows on the device for an actor's thread: shared memory and handles, none of which it owns. */

import type { Int64 } from '../../shm/int64.ts';
import type { Place } from '../../shm/memory.ts';
import {
  internalsOfBuffer,
  ReplayBuffer,
  type SharedReplayBuffer,
} from '../../store/rows/replay-buffer.ts';
import { DeviceRowsControl } from './control-block.ts';

/** The data about rows on the device that actors need. */
export interface SharedDeviceRows {
  readonly words: Place;
  readonly buffer: SharedReplayBuffer;
  readonly stream: number;
  /** one event for each span that can be in flight */
  readonly events: readonly number[];
  readonly ring: number;
  readonly host: number;
  readonly places: number;
  readonly guard: number;
  /** maximum rows of one span */
  readonly rowsPerSpan: number;
  /** bytes from one row to the next, on the host and on the device */
  readonly stride: number;
  /** bytes from the start of the registered host memory to row 0 */
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

  /** Number of rows ever committed. */
  get committed(): number {
    return this.#writers.committed.load();
  }
  /** Writers may have overwritten the rows before this one, or may be overwriting them now. */
  get lost(): number {
    return this.#writers.reserved.load() - this.buffer.capacity;
  }
}
