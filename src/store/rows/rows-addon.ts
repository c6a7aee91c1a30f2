/**
 * The exports of rows.node. Only src/store calls them, and checks the arguments before each call.
 * Native code checks only what memory safety needs.
 */
import { addonOf } from '../../base/addon.ts';
import type { TypedArray } from '../../base/dtype.ts';

/** Native objects over shared memory. Each keeps a reference to its view. */
export type BufferHandle = { readonly handleOf: 'buffer' };
export type LimiterHandle = { readonly handleOf: 'limiter' };

type Numbers<K extends string> = Readonly<Record<K, number>>;
/**
 * Offsets of words in the headers of shared memory, in bytes from the start of a header. `bytes` is
 * the size of the header. Native code was compiled with these numbers.
 */
interface RowsLayouts {
  readonly rows: Numbers<
    'capacity' | 'rowBytes' | 'reserved' | 'committed' | 'bells' | 'bellCount' | 'bytes'
  >;
  readonly lanes: Numbers<'lanes' | 'placeBytes' | 'perLane' | 'bells' | 'bellCount' | 'bytes'>;
  /**
   * sizes in a checkpoint of lanes: bytes of a place's note, and count of numbers in a lane's state
   */
  readonly kept: Numbers<'noteBytes' | 'stateNumbers'>;
  /**
   * byte offsets in the head of a packed step (`lane`, `kind`, `reward`), its size (`bytes`), and
   * values of `kind`. `ended`: mask of the bits for an episode's end. `final`: a final observation.
   * `first`: bit of an episode's first step
   */
  readonly stepRow: Numbers<'lane' | 'kind' | 'reward' | 'bytes' | 'ended' | 'final' | 'first'>;
  readonly tree: Numbers<'largest' | 'stale' | 'nonFinite' | 'bytes'>;
  readonly limiter: Numbers<'bytes'>;
  readonly mailbox: Numbers<'begun' | 'published' | 'refused' | 'bytes'>;
  readonly mirror: Numbers<'brought'>;
}

interface RowsAddon {
  readonly layouts: RowsLayouts;
  /** Returns the bytes that a replay buffer needs */
  rowsBytes(capacity: number, rowBytes: number): number;
  /** Returns the bytes from the start of one row, or place, to the next in memory */
  rowStride(rowBytes: number): number;
  treeLeavesAt(lanes: number): number;
  mirrorBytes(places: number): number;
  formatBuffer(memory: Float64Array, capacity: number, rowBytes: number): void;
  /**
   * `fields`: for each field, its offset, its bytes and the three numbers of rowKind(). `result`:
   * an array of three numbers, to which addRows(), addPackedRows(), lookAtRows() and sampleRows()
   * write
   */
  openBuffer(memory: Float64Array, fields: Uint32Array, result: Float64Array): BufferHandle;
  ptr(buffer: BufferHandle): number;
  /**
   * Adds rows from one array per field, in row order. Returns `rows`, 0 if the limiter does not
   * admit them now, or −1 if a value is rejected. After 0 or −1 no row was added. After −1, the
   * buffer's `result` has the value's row, field and element
   */
  addRows(
    buffer: BufferHandle,
    rows: number,
    mask: ArrayBufferView | undefined,
    terminals: readonly (TypedArray | undefined)[] | undefined,
    limiter: LimiterHandle | undefined,
    ...sources: readonly TypedArray[]
  ): number;
  /**
   * Checks rows without adding them. Returns −1 if addRows() would reject a value, and then writes
   * to `result` as addRows() does. Otherwise returns 0
   */
  lookAtRows(buffer: BufferHandle, rows: number, ...sources: readonly TypedArray[]): number;
  /**
   * Adds packed rows. After the commit, `words[index]` becomes `value`. Returns the same numbers as
   * addRows()
   */
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
   * Copies the rows at `indices` to `out`. Returns −1, or the position in `indices` of the first
   * index that has no row. `wide`: whether indices have 64 bits. `alone`: whether only the calling
   * thread copies, without the help of idle cores
   */
  gatherRows(
    buffer: BufferHandle,
    indices: ArrayBufferView,
    count: number,
    wide: boolean,
    out: ArrayBufferView,
    alone?: boolean,
  ): number;
  /**
   * Samples rows and copies them to `out`. Writes [ptr, size] of that moment to the `result` array
   * of openBuffer()
   */
  sampleRows(
    buffer: BufferHandle,
    seed: number,
    count: number,
    out: ArrayBufferView,
    indices?: Uint32Array,
  ): void;
  drawIndices(seed: number, size: number, out: Uint32Array): void;
  /** Writes a new limiter with these options: samplesPerInsert, minSize, errorBuffer, gateAdd */
  formatLimiter(
    memory: Float64Array,
    ratio: number,
    least: number,
    buffer: number,
    gate: boolean,
  ): void;
  openLimiter(memory: Float64Array): LimiterHandle;
  maySample(limiter: LimiterHandle, rows: number): boolean;
  /**
   * If the samples are admitted, counts them and stores `value` in `word[0]` in the same call.
   * Returns whether they were admitted
   */
  takeSamples(limiter: LimiterHandle, rows: number, word?: Int32Array, value?: number): boolean;
  countSamples(limiter: LimiterHandle, rows: number, word?: Int32Array, value?: number): void;
  mayInsert(limiter: LimiterHandle, rows: number): boolean;
  /** Writes the counts of admitted, inserted and sampled rows to `out` */
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
