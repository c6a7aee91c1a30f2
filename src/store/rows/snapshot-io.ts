/**
 * Access to any buffer for checkpoints. A buffer consists of rings of places. A place does not
 * change from its commit until it is overwritten. A replay buffer is one ring of rows.
 */

import { persistenceAddon } from './persistence-addon.ts';

/**
 * The states of all lanes, `numbers` numbers per lane. The first two are the range [from, to) of
 * complete places. The others are the rest of the lane's state.
 */
export type LaneStates = Float64Array;

export interface SnapshotIO {
  readonly lanes: number;
  /** places of each lane */
  readonly perLane: number;
  /** bytes of a place as read() copies it */
  readonly placeBytes: number;
  /** count of numbers in a lane's state, of which `from` and `to` are the first two */
  readonly numbers: number;
  /**
   * whether a save must contain the last `perLane` places (a replay buffer). If writers overwrite n
   * of the oldest places before the save has copied them, it then adds n newer places. If false,
   * the saved range begins n places later
   */
  readonly full: boolean;
  states(): LaneStates;
  /**
   * Copies places to `out`. Returns the lowest place whose copy is whole. The places before it were
   * overwritten meanwhile.
   */
  read(lane: number, from: number, count: number, out: Uint8Array): number;
  /** Copies places into a buffer that is not in use yet. They become readable after restore(). */
  put(lane: number, from: number, count: number, bytes: Uint8Array): void;
  restore(states: LaneStates): void;
}

/**
 * Returns the SnapshotIO of a replay buffer, which is one ring of rows. Its read() checks after the
 * copy which rows a writer may have begun to overwrite (Rows-4 of native/rows/rows.hpp).
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
