/**
 * The part of rows.node that trajectories call. This directory checks arguments first, and native
 * code checks memory safety.
 */
import { addonOf } from '../../base/addon.ts';
import type { TypedArray } from '../../base/dtype.ts';
import type { LimiterHandle } from '../rate-limiter.ts';

/** Native objects over shared memory. Each keeps its memory alive. */
export type LanesHandle = { readonly handleOf: 'lanes' };
export type WriterHandle = { readonly handleOf: 'writer' };
export type ViewHandle = { readonly handleOf: 'view' };

interface LanesAddon {
  lanesBytes(lanes: number, perLane: number, placeBytes: number): number;
  formatLanes(memory: Float64Array, lanes: number, perLane: number, placeBytes: number): void;
  openLanes(memory: Float64Array): LanesHandle;
  /** steps ever committed, steps there now */
  laneCounts(lanes: LanesHandle, out: Float64Array): void;
  clearLanes(lanes: LanesHandle): void;
  /**
   * `fields`: for each its offset, bytes, whether it is an observation, and the result of
   * stepKind(). `finite`: whether rewards must be finite
   */
  openWriter(
    lanes: LanesHandle,
    first: number,
    count: number,
    fields: Uint32Array,
    resume: boolean,
    finite: boolean,
  ): WriterHandle;
  /**
   * Returns 1, 0 if the limiter says not yet, or −1 if a number is refused. Then `odd` holds the
   * lane, the index of the field, and the element. With F fields, the index is F larger for a final
   * observation, and 2F for a reward.
   */
  addSteps(
    writer: WriterHandle,
    sources: readonly ArrayBufferView[],
    finals: readonly (ArrayBufferView | undefined)[] | undefined,
    rewards: Float32Array,
    terminated: ArrayBufferView,
    truncated: ArrayBufferView,
    skip: ArrayBufferView | undefined,
    steps: number,
    limiter: LimiterHandle | undefined,
    nonFinite: Float64Array,
  ): number;
  /**
   * Adds rows of packed-rows.ts. Returns their number, 0 if the limiter says not yet, or −1 − the
   * first row that is wrong. `words[index]` becomes `value` after the last commit.
   */
  addPackedSteps(
    writer: WriterHandle,
    bytes: Uint8Array,
    rows: number,
    limiter: LimiterHandle | undefined,
    words: BigUint64Array | undefined,
    index: number | undefined,
    value: number | undefined,
  ): number;
  cutEpisodes(writer: WriterHandle): void;
  /** of a lane, the places [from, to) that a reader may take now */
  laneSpan(lanes: LanesHandle, lane: number, out: Float64Array): void;
  /** of each lane, the place after its last committed one */
  laneEnds(lanes: LanesHandle, out: Float64Array): void;
  /**
   * Writes places as rows, from byte `at` of `out` on. `counts` become the rows and the steps among
   * them. Returns false if the places were overwritten.
   */
  packLane(
    lanes: LanesHandle,
    lane: number,
    from: number,
    count: number,
    out: Uint8Array,
    at: number,
    counts: Float64Array,
  ): boolean;
  /**
   * Returns −1, or the index of the first id that is not there. `fields`: for each its offset,
   * bytes, where it goes in `out`, and whether it is an observation
   */
  readPlaces(
    lanes: LanesHandle,
    ids: Float64Array,
    count: number,
    fields: Float64Array,
    out: Uint8Array,
    rewards: Float32Array,
    steps: Uint32Array,
    flags: Uint8Array,
  ): number;
  openView(
    lanes: LanesHandle,
    rule: Float64Array,
    columns: Float64Array,
    tree?: Float64Array,
  ): ViewHandle;
  /** Sets where the view's columns lie from now on. They stay the same columns */
  setColumns(view: ViewHandle, columns: Float64Array): void;
  /** Counts the drawable steps, and writes as many of their ids as fit */
  viewCount(view: ViewHandle, ids?: Float64Array): number;
  /** Returns how many rows were drawn again, or −1 while no step can be drawn */
  sampleView(
    view: ViewHandle,
    seed: number,
    count: number,
    out: Uint8Array,
    beta: number,
    normalize: number,
  ): number;
  /** Returns −1, or the first row that is not drawable */
  takeView(
    view: ViewHandle,
    ids: Float64Array,
    goals: Float64Array | undefined,
    count: number,
    out: Uint8Array,
  ): number;
  /** Returns −1, or the index of the first id whose place was never written */
  firstUnwritten(lanes: LanesHandle, ids: Float64Array): number;
  treeBytes(leaves: number, lanes: number): number;
  formatTree(
    memory: Float64Array,
    leaves: number,
    lanes: number,
    alpha: number,
    epsilon: number,
  ): void;
  updateTree(
    view: ViewHandle,
    ids: Float64Array,
    priorities: Float64Array | Float32Array,
    count: number,
  ): void;
  /** facts: largest, total, leaves that are not zero, stale, odd, applied */
  inspectTree(
    view: ViewHandle,
    inspect: boolean,
    leaves: Float64Array | undefined,
    facts: Float64Array,
  ): void;
  beginUpdates(memory: Float64Array, sequence: number): void;
  /** Returns false if every leaf is zero */
  drawLeaves(
    leaves: Float64Array,
    seed: number,
    count: number,
    beta: number,
    normalize: number,
    masses: Float64Array | undefined,
    indices: Uint32Array,
    probabilities: Float64Array,
    weights: Float64Array,
  ): boolean;
}

export const lanesAddon = addonOf<LanesAddon>('rows');

/** Returns the bytes of a typed array of any dtype. */
export function bytesOf(array: TypedArray): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** Returns the places of a lane that a reader may take now. */
export function spanOf(lanes: LanesHandle, lane: number): { from: number; to: number } {
  const span = new Float64Array(2);
  lanesAddon().laneSpan(lanes, lane, span);
  return { from: span[0] as number, to: span[1] as number };
}
