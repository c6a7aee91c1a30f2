/**
 * The exports of rows.node. Only src/store calls them: it checks arguments first, and native code
 * checks memory safety.
 */
import { addonOf } from '../../base/addon.ts';
import type { TypedArray } from '../../base/dtype.ts';

/** Native objects over shared memory. Each keeps its view alive. */
export type BufferHandle = { readonly handleOf: 'buffer' };
export type LimiterHandle = { readonly handleOf: 'limiter' };

type Numbers<K extends string> = Readonly<Record<K, number>>;
/**
 * The places of numbers in headers of shared memory, in bytes from their start. `bytes` is the size
 * of the header. Native code was compiled with these numbers.
 */
interface RowsLayouts {
  readonly rows: Numbers<
    'capacity' | 'rowBytes' | 'reserved' | 'committed' | 'bells' | 'bellCount' | 'bytes'
  >;
  readonly lanes: Numbers<'lanes' | 'placeBytes' | 'perLane' | 'bells' | 'bellCount' | 'bytes'>;
  /** of a lane as checkpoints keep it: bytes of a place's note, numbers of its state */
  readonly kept: Numbers<'noteBytes' | 'stateNumbers'>;
  /**
   * the head of a step on its way to another buffer. Kinds: bits of a step that ended, a final
   * observation, the bit of a first step
   */
  readonly stepRow: Numbers<'lane' | 'kind' | 'reward' | 'bytes' | 'ended' | 'final' | 'first'>;
  readonly tree: Numbers<'largest' | 'stale' | 'nonFinite' | 'bytes'>;
  readonly limiter: Numbers<'bytes'>;
  readonly mailbox: Numbers<'begun' | 'published' | 'refused' | 'bytes'>;
  readonly mirror: Numbers<'brought'>;
}

interface RowsAddon {
  readonly layouts: RowsLayouts;
  /** bytes that a replay buffer needs */
  rowsBytes(capacity: number, rowBytes: number): number;
  /** bytes from one row, or place, to the next in memory */
  rowStride(rowBytes: number): number;
  treeLeavesAt(lanes: number): number;
  mirrorBytes(places: number): number;
  formatBuffer(memory: Float64Array, capacity: number, rowBytes: number): void;
  /**
   * `fields`: for each its offset, bytes and the result of rowKind(). `result`: three numbers that
   * later calls write
   */
  openBuffer(memory: Float64Array, fields: Uint32Array, result: Float64Array): BufferHandle;
  ptr(buffer: BufferHandle): number;
  /**
   * Adds rows from views per field, in row order. Returns 0 if the limiter says not yet, and −1 if
   * a number is refused: the result then has its row, field and element
   */
  addRows(
    buffer: BufferHandle,
    rows: number,
    mask: ArrayBufferView | undefined,
    terminals: readonly (TypedArray | undefined)[] | undefined,
    limiter: LimiterHandle | undefined,
    ...sources: readonly TypedArray[]
  ): number;
  /** Returns −1 if addRows() would refuse a number, else 0 */
  lookAtRows(buffer: BufferHandle, rows: number, ...sources: readonly TypedArray[]): number;
  /** `words[index]` becomes `value` after the commit. Returns 0 and −1 as addRows() does */
  addPackedRows(
    buffer: BufferHandle,
    bytes: Uint8Array,
    rows: number,
    limiter: LimiterHandle | undefined,
    words: BigUint64Array | undefined,
    index: number | undefined,
    value: number | undefined,
  ): number;
  /**
   * Returns −1, or the position of the first index that is not a row. `alone`: by the calling
   * thread, without idle cores
   */
  gatherRows(
    buffer: BufferHandle,
    indices: ArrayBufferView,
    count: number,
    wide: boolean,
    out: ArrayBufferView,
    alone?: boolean,
  ): number;
  /** leaves [ptr, size] in the result array that openBuffer was given */
  sampleRows(
    buffer: BufferHandle,
    seed: number,
    count: number,
    out: ArrayBufferView,
    indices?: Uint32Array,
  ): void;
  drawIndices(seed: number, size: number, out: Uint32Array): void;
  /** its parameters: samplesPerInsert, minSize, errorBuffer, gateAdd */
  formatLimiter(
    memory: Float64Array,
    ratio: number,
    least: number,
    buffer: number,
    gate: boolean,
  ): void;
  openLimiter(memory: Float64Array): LimiterHandle;
  maySample(limiter: LimiterHandle, rows: number): boolean;
  /** Takes samples, and stores `value` in `word[0]` in the same call */
  takeSamples(limiter: LimiterHandle, rows: number, word?: Int32Array, value?: number): boolean;
  countSamples(limiter: LimiterHandle, rows: number, word?: Int32Array, value?: number): void;
  mayInsert(limiter: LimiterHandle, rows: number): boolean;
  /** admitted, inserts, samples */
  limiterCounts(limiter: LimiterHandle, out: Float64Array): void;
  mailboxBegin(control: Int32Array): number;
  mailboxPublish(control: Int32Array, version: number): boolean;
  mailboxWrite(
    control: Int32Array,
    buffers: Uint8Array,
    stride: number,
    from: Float32Array,
  ): number;
  mailboxRead(
    control: Int32Array,
    buffers: Uint8Array,
    stride: number,
    into: Float32Array,
    newerThan: number,
  ): number;
  /** Returns −1, or the index of the first of `count` float32 that is NaN or infinite */
  firstNotFinite(view: ArrayBufferView, byteOffset: number, count: number): number;
}

export const rowsAddon = addonOf<RowsAddon>('rows');
