/**
 * The parts of trajectories that a checkpoint needs: their places, and the priorities by which they
 * are drawn.
 */
import { persistenceAddon } from '../rows/persistence-addon.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import type { SnapshotIO } from '../rows/snapshot-io.ts';

/** Returns the snapshot access to each lane's ring (lanes.hpp). */
export function lanesSnapshotIO(
  buffer: { lanes: number; laneCapacity: number; layout: { placeBytes: number } },
  memory: Float64Array,
): SnapshotIO {
  const { lanes, laneCapacity, layout } = buffer;
  const addon = persistenceAddon();
  // A place's note is copied out in front of its bytes.
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
 * The parts of a priority tree that its leaves and their sums are made of. Arrays are views of its
 * memory.
 */
export interface TreeParts {
  /** float64, a leaf for each place: −0 means no leaf, 0 a priority of zero */
  readonly leaves: Float64Array;
  /** of each lane, the place up to which leaves were given */
  readonly known: BigUint64Array;
  /** the largest |p| ever given */
  largest: number;
  /** updates that came too late, and priorities that were not numbers */
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

/** Restores a tree that is not in use yet. */
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
 * Returns a tree's 64-bit words as integers, and where the words of the header, of the lanes and of
 * the leaves begin.
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
