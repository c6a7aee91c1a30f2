/**
 * What a checkpoint needs of a buffer, whichever it is: rings of places, which never change from
 * when they are committed until they are written over. A buffer of rows is one ring.
 */

import { persistenceAddon } from './persistence-addon.ts';

/** By lane: the places [from, to) are whole, and what else the lane is, `numbers` in all. */
export type LaneStates = Float64Array;

export interface SnapshotIO {
  readonly lanes: number;
  /** places of each */
  readonly perLane: number;
  /** bytes of a place as read() copies it */
  readonly placeBytes: number;
  /** of a lane's state; `from` and `to` are the first two */
  readonly numbers: number;
  /** a full ring has no gaps: what is dropped at its old end is made up for at the new one */
  readonly full: boolean;
  states(): LaneStates;
  /**
   * Copies places to `out`. Returns the lowest that is whole: those before it in `out` were written
   * over meanwhile.
   */
  read(lane: number, from: number, count: number, out: Uint8Array): number;
  /** Into a buffer that nobody uses yet: nothing of it counts before restore(). */
  put(lane: number, from: number, count: number, bytes: Uint8Array): void;
  restore(states: LaneStates): void;
}

/**
 * One ring, of rows. What a writer may have begun on shows when it is read (Rows-4 of
 * native/rows/rows.hpp).
 */
export function rowsSnapshotIO(
  buffer: { capacity: number; rowBytes: number; ptr: number },
  memory: Float64Array,
): SnapshotIO {
  const { capacity, rowBytes } = buffer;
  const addon = persistenceAddon();
  return {
    lanes: 1,
    perLane: capacity,
    placeBytes: rowBytes,
    numbers: 2,
    full: true,
    states: () => {
      const { ptr } = buffer;
      return Float64Array.of(Math.max(0, ptr - capacity), ptr);
    },
    read: (_, from, count, out) => addon.readRows(memory, from, count, out),
    put: (_, from, count, bytes) => addon.putRows(memory, from, count, bytes),
    restore: ([, to]) => addon.setRows(memory, to as number),
  };
}
