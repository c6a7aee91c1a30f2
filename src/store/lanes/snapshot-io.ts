/**
 * The parts of a trajectory buffer that a checkpoint saves: its places, and the priorities of its
 * sampler.
 */
import { persistenceAddon } from '../rows/persistence-addon.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import type { SnapshotIO } from '../rows/snapshot-io.ts';

/** Returns the SnapshotIO of a buffer's lanes. Each lane is a ring (lanes.hpp). */
export function lanesSnapshotIO(
  buffer: { lanes: number; laneCapacity: number; layout: { placeBytes: number } },
  memory: Float64Array,
): SnapshotIO {
  const { lanes, laneCapacity, layout } = buffer;
  const addon = persistenceAddon();
  // A saved place begins with its note (reward, flags, index in the episode). The bytes of the
  // fields follow.
  const { noteBytes, stateNumbers: numbers } = rowsAddon().layouts.kept;
  return {
    lanes,
    perLane: laneCapacity,
    placeBytes: noteBytes + layout.placeBytes,
    numbers,
    full: false,
    states: () => {
      const states = new Float64Array(lanes * numbers);
      addon.laneStates(memory, states);
      return states;
    },
    read: (lane, from, count, out) => addon.readRange(memory, lane, from, count, out),
    put: (lane, from, count, bytes) => addon.putRange(memory, lane, from, count, bytes),
    restore: (states) => addon.setLaneStates(memory, states),
  };
}

/**
 * The parts of a priority tree from which its other parts can be computed. The arrays are views of
 * the tree's memory.
 */
export interface TreeParts {
  /**
   * leaf of each place, float64. −0 means that the place has no leaf, and 0 is a priority of zero
   */
  readonly leaves: Float64Array;
  /** for each lane, the place up to which leaves were set */
  readonly known: BigUint64Array;
  /** the largest |p| ever given */
  largest: number;
  /**
   * number of updates of overwritten steps (`stale`), and of priorities that were invalid
   * (`nonFinite`)
   */
  stale: number;
  nonFinite: number;
}

export function treeParts(tree: Float64Array, leaves: number, lanes: number): TreeParts {
  const { largest, stale, nonFinite, known, first, words } = treeControl(tree, lanes);
  return {
    leaves: tree.subarray(first, first + leaves),
    known: words.subarray(known, known + lanes),
    largest: tree[largest] as number,
    stale: Number(words[stale]),
    nonFinite: Number(words[nonFinite]),
  };
}

/** Writes saved parts into a tree that is not in use yet. */
export function restoreTree(
  tree: Float64Array,
  leaves: number,
  lanes: number,
  saved: TreeParts,
): void {
  const { largest, stale, nonFinite, words } = treeControl(tree, lanes);
  const into = treeParts(tree, leaves, lanes);
  into.leaves.set(saved.leaves);
  into.known.set(saved.known);
  tree[largest] = saved.largest;
  words[stale] = BigInt(saved.stale);
  words[nonFinite] = BigInt(saved.nonFinite);
  persistenceAddon().adoptTree(tree, leaves, lanes);
}

/**
 * Returns the tree's 64-bit words as integers, and indices into them. The indices are those of the
 * header's words, of the first word of `known`, and of the first leaf.
 */
function treeControl(tree: Float64Array, lanes: number) {
  const { largest, stale, nonFinite, bytes } = rowsAddon().layouts.tree;
  const words = new BigUint64Array(tree.buffer, tree.byteOffset, tree.length);
  const first = rowsAddon().treeLeavesAt(lanes) / 8;
  return {
    largest: largest / 8,
    stale: stale / 8,
    nonFinite: nonFinite / 8,
    known: bytes / 8,
    first,
    words,
  };
}
