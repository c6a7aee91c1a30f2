/**
 * The parts of any buffer that a checkpoint needs: rings of places, which do not change between
 * their commit and their overwriting. A buffer of rows is one ring.
 */

import { persistenceAddon } from './persistence-addon.ts';

/**
 * By lane, `numbers` numbers in all: the whole places [from, to), and the rest of the lane's state.
 */
export type LaneStates = Float64Array;

export interface SnapshotIO {
  readonly lanes: number;
  /** places of each */
  readonly perLane: number;
  /** bytes of a place as read() copies it */
  readonly placeBytes: number;
  /** of a lane's state, of which `from` and `to` are the first two */
  readonly numbers: number;
  /** a full ring has no gaps: places dropped at its old end are made up for at the new one */
  readonly full: boolean;
  states(): LaneStates;
  /**
   * Copies places to `out`. Returns the lowest that is whole: those before it in `out` were
   * overwritten meanwhile.
   */
  read(lane: number, from: number, count: number, out: Uint8Array): number;
  /** Copies places into a buffer that is not in use yet. They count only after restore(). */
  put(lane: number, from: number, count: number, bytes: Uint8Array): void;
  restore(states: LaneStates): void;
}

/**
 * Returns the access to one ring of rows. Reading it shows which rows a writer may have begun on
 * (Rows-4 of native/rows/rows.hpp).
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
