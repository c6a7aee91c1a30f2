/**
 * Experience in shared memory: packed rows of a fixed stride, any number of writers and readers in
 * any thread. native/rows/rows.hpp describes the bytes and who may touch them. This file checks
 * arguments, calls native code and rings the bells.
 */

import type { NamedTensors } from '../../base/arrays/tensors.ts';
import { checkCount, checkInternal, checkKeys, INTERNAL } from '../../base/checks.ts';
import { arrayOf, dtypes, type TypedArray } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { BellBoard } from '../../shm/bell.ts';
import { Int64 } from '../../shm/int64.ts';
import { allocateShared, checkRoom, checkShared } from '../../shm/memory.ts';
import { checkLimiter, internalsOfLimiter, RateLimiter } from '../rate-limiter.ts';
import type { LoadOptions } from './data-set.ts';
import { checkNonFinite, type NonFiniteNumbers, rowKind } from './field-roles.ts';
import type {
  FieldSpec,
  Fields,
  FieldsOf,
  OffPolicyFields,
  PackedRows,
  RowsOf,
  SchemaRowsOf,
  TransitionsOf,
} from './fields.ts';
import { dumpRows, loadRows } from './load.ts';
import { checkFields, offPolicyLayout, type PackLayout, schemaLayout } from './pack-layout.ts';
import { checkPacked, type Mark } from './packed.ts';
import { persistenceAddon } from './persistence-addon.ts';
import { RowInput } from './row-input.ts';
import { type BufferHandle, rowsAddon } from './rows-addon.ts';
import {
  checkOut,
  checkSample,
  MAX_DRAW_SIZE,
  type Sample,
  type SampleOptions,
} from './sampler.ts';
import { KIND, type SharedReplayBuffer } from './shared-rows.ts';
import { rowsSnapshotIO, type SnapshotIO } from './snapshot-io.ts';

/** indices into rows are 32 bits wide */
const MAX_CAPACITY = MAX_DRAW_SIZE;
const offPolicyOptions = ['capacity', 'obsDim', 'actionDim', 'criticDim', 'limiter', 'nonFinite'];

export type { SharedReplayBuffer };

/** For the package itself. Not exported from it. */
export let internalsOfBuffer: (buffer: ReplayBuffer) => {
  /** rung after every commit */
  readonly bells: BellBoard;
  /**
   * header and rows, for native code that gathers by itself (rows::open). Keep it referenced until
   * that code has ended
   */
  readonly memory: Float64Array;
  /** where row 0 begins in it */
  readonly rowsAt: number;
  /** rows that writers own, and rows that were committed, of all that were ever added */
  readonly reserved: Int64;
  readonly committed: Int64;
  /** for checkpoints */
  readonly ledger: SnapshotIO;
  /**
   * Sets, for tests, how many rows were ever committed (`ptr`) in a buffer that is not in use yet.
   */
  setCounters(ptr: number): void;
};

/**
 * `F` is the fields with their dtypes, and `R` the rows that add() accepts. create() and
 * offPolicy() infer both.
 */
export class ReplayBuffer<F extends Fields = Fields, R extends object = RowsOf<F>> {
  readonly capacity: number;
  readonly layout: PackLayout;
  /** bytes of one packed row */
  readonly rowBytes: number;
  /** bounds samples per insert, or null if the buffer was created without one */
  readonly limiter: RateLimiter | null;
  readonly #bells: BellBoard;
  readonly #memory: Float64Array;
  readonly #limiting: ReturnType<typeof internalsOfLimiter> | null;
  readonly #shared: SharedReplayBuffer<F, R>;
  readonly #input: RowInput;
  readonly #result = new Float64Array(3);
  readonly #arrayDtype: 'float32' | 'uint8';
  #handle: BufferHandle | null;

  /**
   * Returns true only for an object with the private field. A proxy, or an object that inherits
   * from one, lacks it.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #bells in made;
  }

  static {
    internalsOfBuffer = (buffer) => ({
      bells: buffer.#bells,
      memory: buffer.#memory,
      rowsAt: rowsAddon().layouts.rows.bytes,
      reserved: buffer.#counter('reserved'),
      committed: buffer.#counter('committed'),
      ledger: rowsSnapshotIO(buffer, buffer.#memory),
      setCounters: (ptr) => persistenceAddon().setRows(buffer.#memory, ptr),
    });
  }

  private constructor(key: unknown, shared: SharedReplayBuffer<F, R>, limiter: RateLimiter | null) {
    checkInternal(key, 'ReplayBuffer', 'ReplayBuffer.create(), offPolicy() or attach()');
    const { memory, offset, capacity, layout, nonFinite } = shared;
    this.capacity = capacity;
    this.layout = layout;
    this.rowBytes = layout.rowBytes;
    this.limiter = limiter;
    this.#limiting = limiter && internalsOfLimiter(limiter);
    this.#memory = new Float64Array(
      memory,
      offset,
      rowsAddon().rowsBytes(capacity, layout.rowBytes) / 8,
    );
    const { bells, bellCount } = rowsAddon().layouts.rows;
    this.#bells = BellBoard.over({ memory, offset: offset + bells }, bellCount);
    this.#shared = shared;
    this.#input = new RowInput(layout, capacity, shared.offPolicy);
    const fields = Object.values(layout.fields);
    this.#arrayDtype = fields.every((field) => field.dtype === 'float32') ? 'float32' : 'uint8';
    const table = fields.flatMap((field) => [
      field.offset,
      field.bytes,
      ...rowKind(field, nonFinite),
    ]);
    this.#handle = rowsAddon().openBuffer(this.#memory, Uint32Array.from(table), this.#result);
  }

  /**
   * Creates a buffer of `capacity` rows (at most 2³² − 1) of any named fields, e.g. `{ obs: {
   * shape: [4] }, action: { shape: [], dtype: 'int64' } }`. If a limiter is given, its counts
   * follow this buffer, and it may gate add(). `nonFinite: 'keep'` stores NaN and infinite numbers
   * as they are. add() describes the default, 'refuse'. Throws TypeError or RangeError for an
   * invalid schema, and ERR_HOTSLOT_MEMORY if the rows do not fit.
   */
  static create<const S extends Readonly<Record<string, FieldSpec | undefined>>>(options: {
    capacity: number;
    fields: S;
    limiter?: RateLimiter;
    nonFinite?: NonFiniteNumbers;
  }): ReplayBuffer<FieldsOf<S>, SchemaRowsOf<FieldsOf<S>>> {
    checkKeys('ReplayBuffer.create', options, ['capacity', 'fields', 'limiter', 'nonFinite']);
    const layout = schemaLayout(options.fields as Readonly<Record<string, FieldSpec>>);
    return ReplayBuffer.#allocate(options, layout, false);
  }

  #counter(which: 'reserved' | 'committed'): Int64 {
    const { buffer, byteOffset } = this.#memory;
    return new Int64(new BigInt64Array(buffer, byteOffset + rowsAddon().layouts.rows[which], 1), 0);
  }

  /**
   * Creates a buffer of off-policy transitions, float32 throughout, in UniLab's field order. Throws
   * like create().
   */
  static offPolicy<C extends number = 0>(options: {
    capacity: number;
    obsDim: number;
    actionDim: number;
    criticDim?: C;
    limiter?: RateLimiter;
    nonFinite?: NonFiniteNumbers;
  }): ReplayBuffer<OffPolicyFields<C>, TransitionsOf<C>> {
    checkKeys('ReplayBuffer.offPolicy', options, offPolicyOptions);
    return ReplayBuffer.#allocate(options, offPolicyLayout(options), true);
  }

  /**
   * Opens the same buffer in another thread (or again in this one). Throws a TypeError unless
   * `shared` came from share().
   */
  static attach<F extends Fields = Fields, R extends object = RowsOf<F>>(
    shared: SharedReplayBuffer<F, R>,
  ): ReplayBuffer<F, R> {
    checkShared(KIND, shared, shared?.memory, 'ReplayBuffer.attach() needs the result of share()');
    const { rows: at } = rowsAddon().layouts;
    checkRoom(shared, at.bytes);
    // Written once, before the buffer was first shared.
    const header = new DataView(shared.memory, shared.offset);
    const [capacity, rowBytes] = [
      header.getUint32(at.capacity, true),
      header.getUint32(at.rowBytes, true),
    ];
    if (capacity !== shared.capacity || rowBytes !== shared.layout?.rowBytes) {
      throw typeError(
        `the shared memory holds ${capacity} rows of ${rowBytes} bytes, ` +
          `its description says ${shared.capacity} of ${shared.layout?.rowBytes}`,
      );
    }
    checkRoom(shared, rowsAddon().rowsBytes(capacity, rowBytes));
    checkFields(Object.values(shared.layout.fields ?? {}), rowBytes);
    checkNonFinite(shared.nonFinite);
    return new ReplayBuffer(
      INTERNAL,
      shared,
      shared.limiter === null ? null : RateLimiter.attach(shared.limiter),
    );
  }

  static #allocate<F extends Fields, R extends object>(
    options: { capacity: number; limiter?: RateLimiter | null; nonFinite?: NonFiniteNumbers },
    layout: PackLayout,
    offPolicy: boolean,
  ): ReplayBuffer<F, R> {
    const { limiter = null } = options;
    const capacity = checkCount('capacity', options.capacity, 1, MAX_CAPACITY);
    const nonFinite = checkNonFinite(options.nonFinite ?? 'refuse');
    checkLimiter(limiter);
    const bytes = rowsAddon().rowsBytes(capacity, layout.rowBytes);
    const place = allocateShared(
      `a replay buffer of ${capacity} rows × ${layout.rowBytes} bytes`,
      bytes,
      64,
    );
    rowsAddon().formatBuffer(
      new Float64Array(place.memory, place.offset, bytes / 8),
      capacity,
      layout.rowBytes,
    );
    const how = { capacity, layout, offPolicy, nonFinite, limiter: limiter?.share() ?? null };
    return new ReplayBuffer(INTERNAL, Object.freeze({ kind: KIND, ...place, ...how }), limiter);
  }

  /** Returns a plain object for postMessage or workerData, with the limiter in it. */
  share(): SharedReplayBuffer<F, R> {
    return this.#open() && this.#shared;
  }

  /** Rows ever committed, exact beyond 2³². */
  get ptr(): number {
    return rowsAddon().ptr(this.#open());
  }

  /** Rows to draw from: min(ptr, capacity). */
  get size(): number {
    return Math.min(this.ptr, this.capacity);
  }

  /**
   * Copies n rows in and commits them. n follows from the fields' lengths. Views of any buffer are
   * read, shared or not. Returns n, or 0 if the limiter gates add() and says not yet. After 0 no
   * row was taken: offer the same rows again. Off-policy: if `terminalMask` is not zero for a row,
   * its next_obs and next_critic come from the terminal fields (as in UniLab). A non-finite next
   * observation is stored as 0 if its episode terminated. Any other NaN or infinity throws a
   * RangeError with row and field, and no row is added, if the field is obs, nextObs, critic,
   * nextCritic, criticObs, nextCriticObs, actions, rewards, dones, terminated, truncated or
   * discounts. Other fields are stored as they are. Throws a TypeError or RangeError that names the
   * field, what it should hold and what it holds. Throws RangeError for more rows than capacity, or
   * than a gating limiter could ever admit.
   */
  add(rows: R): number {
    const handle = this.#open();
    const { rows: count, sources, mask, terminals } = this.#input.lineUp(rows);
    const added = rowsAddon().addRows(
      handle,
      count,
      mask,
      terminals,
      this.#limiting?.handle,
      ...sources,
    );
    if (added > 0) this.#bells.ringAll();
    else if (added < 0) throw this.#input.refused(this.#result, rows);
    else this.#limiting?.checkAdd(count);
    return added;
  }

  /**
   * Copies in and commits `rows` rows that lie one after the other, as gather() packs them. `mark`,
   * if any, moves in the same native call, after the commit, also with no rows. Returns `rows`, or
   * 0 if the limiter gates the call and says not yet. After 0 no row was taken, and the mark did
   * not move. Throws TypeError or RangeError as add() does, and unless bytes are rows × rowBytes.
   * The error of a non-finite number has its row as `row`.
   */
  addPacked(bytes: Uint8Array, rows: number, mark?: Mark): number {
    const handle = this.#open();
    checkPacked(bytes, rows, this.rowBytes, mark);
    if (rows > this.capacity)
      throw rangeError(`rows must be at most the capacity ${this.capacity}, got ${rows}`);
    const limiter = this.#limiting?.handle;
    const added = rowsAddon().addPackedRows(
      handle,
      bytes,
      rows,
      limiter,
      mark?.words,
      mark?.index,
      mark?.value,
    );
    if (added > 0) this.#bells.ringAll();
    else if (added < 0) throw this.#input.refusedPacked(this.#result, bytes, this.rowBytes);
    else if (rows > 0) this.#limiting?.checkAdd(rows);
    return added;
  }

  /**
   * Copies the rows at `indices` (each below size) to `out`, packed one after the other. Rows are
   * never torn, but a row that a writer has replaced is the newer one. `out` holds at least
   * indices.length × rowBytes bytes. Returns `out`.
   */
  gather<T extends TypedArray>(indices: Uint32Array | BigInt64Array, out: T): T {
    const handle = this.#open();
    const wide = indices instanceof BigInt64Array;
    if (!wide && !(indices instanceof Uint32Array)) {
      throw typeError(`indices must be a Uint32Array or a BigInt64Array, got ${typeof indices}`);
    }
    checkOut(out, indices.length, this.rowBytes);
    if (indices.length === 0) return out;
    const beyond = rowsAddon().gatherRows(handle, indices, indices.length, wide, out);
    if (beyond >= 0)
      throw rangeError(
        `indices[${beyond}] is ${indices[beyond]}, but the buffer holds ${this.size} rows`,
      );
    return out;
  }

  /**
   * Draws `count` of the rows that are whole now (as uniformIndices does) and gathers them, in one
   * native call. `out` (at least count × rowBytes bytes) is allocated if not given: a Float32Array
   * if every field is float32, else bytes. Throws ERR_HOTSLOT_STATE_EMPTY before the first commit.
   */
  sample<T extends TypedArray = PackedRows<F>>(options: SampleOptions, out?: T): Sample<T> {
    const handle = this.#open();
    const { word, count, indices } = checkSample(options);
    const rows = out ?? (this.#array(count) as T);
    checkOut(rows, count, this.rowBytes);
    rowsAddon().sampleRows(handle, word, count, rows, indices);
    const ptr = this.#result[0]!;
    if (ptr === 0)
      throw stateError('EMPTY', 'the replay buffer is empty; add rows before sampling');
    return { rows, ptr, size: this.#result[1]! };
  }

  /**
   * Adds the rows of an npz file (a path or a `file:` URL), or of arrays as readNpz() returns them.
   * Resolves to the number of rows. Columns are found by the fields' keys, by `columns` or, for
   * off-policy buffers, by D4RL's names. If next observations are missing, they are made from the
   * rows that follow. Rejects before any row is added. It rejects with a RangeError that names the
   * column if one is missing, has another shape, or holds what the field's dtype cannot, and for
   * more rows than capacity. It rejects with ERR_HOTSLOT_STATE_BUSY if the limiter says not yet.
   */
  async load(from: string | URL | NamedTensors, options: LoadOptions = {}): Promise<number> {
    this.#open();
    return loadRows(
      this,
      { offPolicy: this.#shared.offPolicy, look: this.#checkRows },
      from,
      options,
    );
  }

  /** Throws what add() would throw for a non-finite number. */
  #checkRows = (rows: object, name: (row: number) => string): void => {
    const { rows: count, sources } = this.#input.lineUp(rows);
    if (rowsAddon().lookAtRows(this.#open(), count, ...sources) < 0)
      throw this.#input.refused(this.#result, rows, name);
  };

  /**
   * Writes the stored rows, oldest first, as an npz file with a column for each field's key, which
   * load() reads. The file is there as a whole or not at all. Resolves to the number of rows.
   * Rejects with ERR_HOTSLOT_STATE_EMPTY if there are no rows, and with ERR_HOTSLOT_STATE_BUSY if
   * rows are added meanwhile.
   */
  async dump(path: string | URL): Promise<number> {
    this.#open();
    return dumpRows(this, path);
  }

  /** Releases this object's handle. Objects of other threads stay open. Idempotent. */
  close(): void {
    this.#handle = null;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #open(): BufferHandle {
    if (this.#handle === null) throw stateError('CLOSED', 'this replay buffer was closed');
    return this.#handle;
  }

  #array(count: number): TypedArray {
    return arrayOf(this.#arrayDtype, (count * this.rowBytes) / dtypes[this.#arrayDtype].bytes);
  }
}
