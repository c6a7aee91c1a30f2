/**
 * The part of rows.node that brings ranges of rows out of shared memory and back. Arguments are
 * checked before.
 */
import { addonOf } from '../../base/addon.ts';

interface PersistenceAddon {
  /** the lowest row that is whole in `out` */
  readRows(memory: Float64Array, from: number, count: number, out: Uint8Array): number;
  putRows(memory: Float64Array, from: number, count: number, bytes: Uint8Array): void;
  setRows(memory: Float64Array, committed: number): void;
  /** the same of the places of a lane */
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
  /** leaves and what they follow were written: makes what is made of them */
  adoptTree(tree: Float64Array, leaves: number, lanes: number): void;
  setLimiter(memory: Float64Array, inserts: number, samples: number): void;
}

export const persistenceAddon = addonOf<PersistenceAddon>('rows');
