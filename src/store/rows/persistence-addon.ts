/**
 * The functions of rows.node that copy ranges of rows and places out of shared memory and back, for
 * checkpoints. Callers check the arguments.
 */
import { addonOf } from '../../base/addon.ts';

interface PersistenceAddon {
  /**
   * Copies rows [from, from + count) to `out`. Returns the lowest row whose copy is whole. Writers
   * may have overwritten the rows before it during the copy
   */
  readRows(memory: Float64Array, from: number, count: number, out: Uint8Array): number;
  putRows(memory: Float64Array, from: number, count: number, bytes: Uint8Array): void;
  setRows(memory: Float64Array, committed: number): void;
  /**
   * Copies places of a lane to `out`. Returns the lowest place whose copy is whole. Writers may
   * have overwritten the places before it during the copy
   */
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
  /**
   * Writes five float64 per lane: `from` and `to` of the complete places, the number of steps ever
   * committed, and the lane's last note, whose 16 bytes fill two numbers
   */
  laneStates(memory: Float64Array, out: Float64Array): void;
  setLaneStates(memory: Float64Array, states: Float64Array): void;
  /**
   * Computes the inner nodes of a priority tree from its leaves, and counts the leaves above 0.
   * Before the call, write the leaves, the largest priority, and for each lane the place up to
   * which its leaves are set
   */
  adoptTree(tree: Float64Array, leaves: number, lanes: number): void;
  setLimiter(memory: Float64Array, inserts: number, samples: number): void;
}

export const persistenceAddon = addonOf<PersistenceAddon>('rows');
