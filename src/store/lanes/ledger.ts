/** What a checkpoint needs of trajectories: their places, and the priorities by which they are drawn. */
import { keptAddon } from '../rows/kept-addon.ts';
import type { Ledger } from '../rows/ledger.ts';

/** of a place, in front of its bytes, where it is copied out */
const NOTE_BYTES = 16;
/** from, to, steps, and the two words of the note in front of `to` */
const LANE_NUMBERS = 5;

/** A ring for each lane, as lanes.hpp has it. */
export function lanesLedger(
  buffer: { lanes: number; laneCapacity: number; layout: { placeBytes: number } },
  memory: Float64Array,
): Ledger {
  const { lanes, laneCapacity, layout } = buffer;
  const addon = keptAddon();
  return {
    ...{ lanes, perLane: laneCapacity, placeBytes: NOTE_BYTES + layout.placeBytes, numbers: LANE_NUMBERS, full: false },
    states: () => {
      const states = new Float64Array(lanes * LANE_NUMBERS);
      addon.laneStates(memory, states);
      return states;
    },
    read: (lane, from, count, out) => addon.readRange(memory, lane, from, count, out),
    put: (lane, from, count, bytes) => addon.putRange(memory, lane, from, count, bytes),
    restore: (states) => addon.setLaneStates(memory, states),
  };
}

/** Words of a tree's header, in the order of native/rows/priority_tree.hpp; two lines of them. */
const Word = { alpha: 0, epsilon: 1, largest: 2, stale: 8, odd: 9, count: 16 } as const;
const LINE_WORDS = 8;

/** A tree of priorities: what its leaves and their sums are made of. Views of its memory. */
export interface TreeParts {
  /** float64, a leaf for each place; −0 is none, 0 that of a priority of zero */
  readonly leaves: Float64Array;
  /** of each lane, the place up to which leaves were given */
  readonly known: BigUint64Array;
  /** the largest |p| ever given */
  largest: number;
  /** updates that came too late, and numbers that were none */
  stale: number;
  odd: number;
}

export function treeParts(tree: Float64Array, leaves: number, lanes: number): TreeParts {
  const words = new BigUint64Array(tree.buffer, tree.byteOffset, tree.length);
  const first = Word.count + Math.ceil(lanes / LINE_WORDS) * LINE_WORDS;
  return {
    leaves: tree.subarray(first, first + leaves),
    known: words.subarray(Word.count, Word.count + lanes),
    largest: tree[Word.largest] as number,
    stale: Number(words[Word.stale]),
    odd: Number(words[Word.odd]),
  };
}

/** Into a tree that nobody uses yet. */
export function restoreTree(tree: Float64Array, leaves: number, lanes: number, saved: TreeParts): void {
  const words = new BigUint64Array(tree.buffer, tree.byteOffset, tree.length);
  const into = treeParts(tree, leaves, lanes);
  into.leaves.set(saved.leaves);
  into.known.set(saved.known);
  tree[Word.largest] = saved.largest;
  words[Word.stale] = BigInt(saved.stale);
  words[Word.odd] = BigInt(saved.odd);
  keptAddon().adoptTree(tree, leaves, lanes);
}
