/**
 * The part of rows.node that copies ranges of rows out of shared memory and back. Callers check the
 * arguments.
 */
import { addonOf } from '../../base/addon.ts';

interface PersistenceAddon {
  /** Returns the lowest row that is whole in `out` */
  readRows(memory: Float64Array, from: number, count: number, out: Uint8Array): number;
  putRows(memory: Float64Array, from: number, count: number, bytes: Uint8Array): void;
  setRows(memory: Float64Array, committed: number): void;
  /** Does the same for the places of a lane */
  readRange(
    memory: Float64Array,
    lane: number,
    from: number,
    count: number,
    out: Uint8Array,
  ): number;
  putRange(
    memory: Float64Array,
    lane: number,
    from: number,
    count: number,
    bytes: Uint8Array,
  ): void;
  /** five numbers a lane: from, to, steps, and the bytes of the last note */
  laneStates(memory: Float64Array, out: Float64Array): void;
  setLaneStates(memory: Float64Array, states: Float64Array): void;
  /** Rebuilds what is derived from the leaves, after they and what they follow were written */
  adoptTree(tree: Float64Array, leaves: number, lanes: number): void;
  setLimiter(memory: Float64Array, inserts: number, samples: number): void;
}

export const persistenceAddon = addonOf<PersistenceAddon>('rows');
