/**
 * The functions of rows.node for trajectories. This directory checks the arguments before each
 * call. Native code checks only what memory safety needs.
 */
import { addonOf } from '../../base/addon.ts';
import type { TypedArray } from '../../base/dtype.ts';
import type { LimiterHandle } from '../rate-limiter.ts';

/** Native objects over shared memory. Each keeps a reference to its memory. */
export type LanesHandle = { readonly handleOf: 'lanes' };
export type WriterHandle = { readonly handleOf: 'writer' };
export type ViewHandle = { readonly handleOf: 'view' };

interface LanesAddon {
  lanesBytes(lanes: number, perLane: number, placeBytes: number): number;
  formatLanes(memory: Float64Array, lanes: number, perLane: number, placeBytes: number): void;
  openLanes(memory: Float64Array): LanesHandle;
  /** Writes two counts to `out`: the steps ever committed, and the steps stored now */
  laneCounts(lanes: LanesHandle, out: Float64Array): void;
  clearLanes(lanes: LanesHandle): void;
  /**
   * Opens a writer of the lanes `first` to before `first` + `count`. `fields`: six numbers per
   * field. These are the field's offset in a place, its bytes, 1 for an observation, and the result
   * of stepKind().
   *
   * `resume`: whether the writer's first step in a lane continues the lane's last episode, if that
   * has no end. `finite`: whether to reject rewards that are NaN or infinite
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
   * Adds one step to each lane that `skip` does not mark. `steps` is the number of these steps,
   * which the limiter counts. Returns 1 after it has committed all of them. Returns 0 if the
   * limiter does not admit them now, or −1 if a value is rejected. After 0 or −1 no step was added.
   *
   * After −1, `nonFinite` has the value's lane, the index of its field, and the index of its
   * element. With F fields, the index of the field is F larger for a final observation, and 2F for
   * a reward.
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
   * Adds rows in the form of packed-rows.ts. After the last commit, `words[index]` becomes `value`
   * (see Mark in packed.ts). Returns `rows`, or 0 if the limiter does not admit the steps now.
   * Returns −1 − i if row i is the first wrong row. In the last two cases no row was added.
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
  /** Writes to `out` the places [from, to) of a lane that a reader may copy now */
  laneSpan(lanes: LanesHandle, lane: number, out: Float64Array): void;
  /** Writes to `out`, for each lane, the place after its last committed place */
  laneEnds(lanes: LanesHandle, out: Float64Array): void;
  /**
   * Packs the lane's places [from, from + count) into rows, and writes these to `out` from byte
   * `at` on. Writes two counts to `counts`: the rows, and the steps among them. A final observation
   * is a row, but not a step. Returns false if a writer overwrote some of the places meanwhile.
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
   * Copies the places with these ids. Returns −1, or the index of the first id whose place is not
   * stored. `fields`: for each field, its offset in a place, its bytes, the offset of its column in
   * `out`, and 1 for an observation. `flags`: `count` flags each for terminated, truncated and
   * final observation
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
  /**
   * Sets the offsets of the view's columns, for later batches. `columns` must have the columns of
   * openView()
   */
  setColumns(view: ViewHandle, columns: Float64Array): void;
  /** Returns the number of drawable steps, and writes as many of their ids as fit into `ids` */
  viewCount(view: ViewHandle, ids?: Float64Array): number;
  /**
   * Samples `count` drawable steps and writes their rows to `out`. If a writer overwrites a step
   * before it is copied, draws another step for its row. Returns the number of rows that were drawn
   * again, or −1 if no step can be drawn
   */
  sampleView(
    view: ViewHandle,
    seed: number,
    count: number,
    out: Uint8Array,
    beta: number,
    normalize: number,
  ): number;
  /**
   * Writes the rows of the steps `ids` to `out`. Returns −1, or the index of the first row whose
   * step is not drawable, or whose goal the view does not allow. `goals`: for each row, the id of
   * the step whose achieved goal it gets, or −1 for its own goal
   */
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
  /**
   * Copies the leaves of the view's tree to `leaves`. `inspect`: whether to update the list of
   * drawable steps first.
   *
   * Writes six numbers to `facts`: the largest |p| ever given, the sum of the leaves, and the
   * number of leaves that are not zero. Then follow the number of updates of overwritten steps, and
   * the number of non-finite priorities. The last number is a sequence number: all updates with
   * lower sequence numbers are applied
   */
  inspectTree(
    view: ViewHandle,
    inspect: boolean,
    leaves: Float64Array | undefined,
    facts: Float64Array,
  ): void;
  beginUpdates(memory: Float64Array, sequence: number): void;
  /** Draws leaves. Returns false if every leaf is zero */
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

/** Returns the places of a lane that a reader may copy now, from `from` to before `to`. */
export function spanOf(lanes: LanesHandle, lane: number): { from: number; to: number } {
  const span = new Float64Array(2);
  lanesAddon().laneSpan(lanes, lane, span);
  return { from: span[0] as number, to: span[1] as number };
}
