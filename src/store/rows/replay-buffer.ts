/**
 * Experience in shared memory: packed rows at a fixed distance, which any number of threads write
 * and read. This file checks arguments, calls native code and rings the bells. The bytes, and which
 * threads may access them, are described in native/rows/rows.hpp.
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

/** Largest capacity, because indices of rows have 32 bits. */
const MAX_CAPACITY = MAX_DRAW_SIZE;
const offPolicyOptions = [
  'capacity',
  'obsDim',
  'actionDim',
  'criticDim',
  'actionMask',
  'limiter',
  'nonFinite',
];

export type { SharedReplayBuffer };

/**
 * Returns parts of a buffer for other modules of the package. The package does not export this
 * function.
 */
export let internalsOfBuffer: (buffer: ReplayBuffer) => {
  /** rung after every commit */
  readonly bells: BellBoard;
  /**
   * header and rows, for native code that opens them by itself (rows::open). Keep a reference to
   * this array until that code has ended
   */
  readonly memory: Float64Array;
  /** bytes from the start of `memory` to row 0 */
  readonly rowsAt: number;
  /** number of rows that writers ever reserved, and number of rows ever committed */
  readonly reserved: Int64;
  readonly committed: Int64;
  /** access for checkpoints */
  readonly ledger: SnapshotIO;
  /**
   * For tests: sets the number of rows ever committed (`ptr`) in a buffer that is not in use yet.
   */
  setCounters(ptr: number): void;
};

/**
 * Stores packed rows of named fields in shared memory. Any number of threads may add and read. When
 * the buffer is full, new rows overwrite the oldest. `F` are the fields with their dtypes, and `R`
 * the rows that add() accepts. create() and offPolicy() infer both.
 * @example
 * const fields = { obs: { shape: [4] }, action: { shape: [], dtype: 'int32' } } as const;
 * const buffer = ReplayBuffer.create({ capacity: 1000, fields });
 * buffer.add({ obs: new Float32Array(2 * 4), action: Int32Array.of(0, 1) });
 * const { rows, size } = buffer.sample({ seed: 7, count: 32 });
 * buffer.close();
 */
export class ReplayBuffer<F extends Fields = Fields, R extends object = RowsOf<F>> {
  /** number of rows that fit */
  readonly capacity: number;
  /** layout of the fields in a packed row */
  readonly layout: PackLayout;
  /** bytes of one packed row */
  readonly rowBytes: number;
  /**
   * bounds the rows sampled per row inserted, or null if the buffer was created without a limiter
   */
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
   * Returns true only for an object with this class's private field. A proxy of a buffer, or an
   * object that inherits from a buffer, lacks the field.
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
   * Creates a buffer of any named fields, packed in the order given.
   *
   * @param options `capacity`: rows, 1 to 2³² − 1. `fields`: shape and dtype (default float32) of
   *   one row by name, or `{ mask: n }` for masks of n actions. `limiter` (default: none) counts
   *   the rows of this buffer, and may gate add(). `nonFinite` (default 'refuse', see add()): 'keep'
   *   stores NaN and infinities as they are
   * @throws {TypeError|RangeError} for an invalid option or field
   * @throws {ERR_HOTSLOT_MEMORY} if the rows do not fit into memory
   * @example
   * const fields = { image: { shape: [8, 8], dtype: 'uint8' }, reward: { shape: [] } } as const;
   * const buffer = ReplayBuffer.create({ capacity: 100_000, fields });
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
   * Creates a buffer of off-policy transitions in UniLab's field order. All fields are float32,
   * except masks.
   *
   * @param options `capacity`: rows, 1 to 2³² − 1. `obsDim`, `actionDim` and `criticDim` (default
   *   0): elements of one row. `actionMask` (default 0, no masks): number of actions, up to 4,096,
   *   of the masks `actionMask` and `nextActionMask`. `limiter` and `nonFinite`: as for create()
   * @throws as create()
   * @example
   * const buffer = ReplayBuffer.offPolicy({ capacity: 1_000_000, obsDim: 17, actionDim: 6 });
   */
  static offPolicy<C extends number = 0, M extends number = 0>(options: {
    capacity: number;
    obsDim: number;
    actionDim: number;
    criticDim?: C;
    actionMask?: M;
    limiter?: RateLimiter;
    nonFinite?: NonFiniteNumbers;
  }): ReplayBuffer<OffPolicyFields<C, M>, TransitionsOf<C, M>> {
    checkKeys('ReplayBuffer.offPolicy', options, offPolicyOptions);
    return ReplayBuffer.#allocate(options, offPolicyLayout(options), true);
  }

  /**
   * Opens the same buffer in another thread, or again in this one.
   *
   * @param shared the result of share()
   * @throws {TypeError|RangeError} unless `shared` came from share()
   * @example
   * const buffer = ReplayBuffer.attach(workerData);
   */
  static attach<F extends Fields = Fields, R extends object = RowsOf<F>>(
    shared: SharedReplayBuffer<F, R>,
  ): ReplayBuffer<F, R> {
    checkShared(KIND, shared, shared?.memory, 'ReplayBuffer.attach() needs the result of share()');
    const { rows: at } = rowsAddon().layouts;
    checkRoom(shared, at.bytes);
    // Plain reads are enough, because the header was written before the memory was first shared,
    // and never again.
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

  /** Returns a plain object for postMessage or workerData, which includes the limiter. */
  share(): SharedReplayBuffer<F, R> {
    return this.#open() && this.#shared;
  }

  /** Number of rows ever committed, exact beyond 2³². */
  get ptr(): number {
    return rowsAddon().ptr(this.#open());
  }

  /** Number of rows that can be sampled: min(ptr, capacity). */
  get size(): number {
    return Math.min(this.ptr, this.capacity);
  }

  /**
   * Copies n rows into the buffer and commits them. If add() throws, it has added no row.
   *
   * Off-policy: if `terminalMask` is not zero for a row, its next_obs, next_critic and
   * next_action_mask come from the terminal fields (as in UniLab). A non-finite next observation is
   * stored as 0 if its episode terminated. Any other NaN or infinity throws in the fields that
   * learners read: obs, nextObs, critic, nextCritic, criticObs, nextCriticObs, actions, rewards,
   * dones, terminated, truncated and discounts. Other fields are stored as they are.
   *
   * @param rows a typed array for each field, n × its elements, one row after the other. n follows
   *   from the lengths. Masks are Uint8Arrays, in which a byte that is not 0 is a legal action. The
   *   arrays may be in any memory, shared or not
   * @returns n, or 0 if a gating limiter admits no rows now. After 0 no row was added: call add()
   *   again with the same rows
   * @throws {TypeError} for a missing or unknown field, or an array of another type. The text names
   *   the field
   * @throws {RangeError} for a wrong length, no rows, more rows than the capacity or than a gating
   *   limiter could ever admit, and a non-finite value. The text names row and field
   * @example
   * const added = buffer.add({ obs: new Float32Array(2 * 4), action: Int32Array.of(0, 1) }); // 2
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
   * Copies packed rows, as gather() writes them, into the buffer and commits them.
   *
   * @param bytes `rows` × rowBytes bytes
   * @param rows 0 to the capacity
   * @param mark the word that the same native call sets after the commit, also with 0 rows
   * @returns `rows`, or 0 if a gating limiter admits no rows now. After 0 no row was added, and the
   *   mark did not move
   * @throws {TypeError|RangeError} for other bytes, more rows than add() accepts, or a wrong mark
   * @throws {RangeError} for a non-finite value, as add(). The index of its row is the error's
   *   `row`
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
   * Copies the rows at `indices` to `out`, packed one after the other. Rows are never torn. If a
   * writer has replaced a row meanwhile, the newer row is copied.
   *
   * @param indices each below `size`
   * @param out at least indices.length × rowBytes bytes
   * @returns `out`
   * @throws {TypeError} for other kinds of arrays
   * @throws {RangeError} for an index that is not below `size`, or an `out` that is too small
   * @example
   * const indices = uniformIndices({ seed: 0, size: buffer.size, count: 32 });
   * const rows = buffer.gather(indices, new Uint8Array(32 * buffer.rowBytes));
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
   * Samples committed rows with replacement, as uniformIndices() does, and gathers them in one
   * native call. The limiter neither gates nor counts the call.
   *
   * @param options `seed`, `count` in rows, and `indices`, which receives the sampled indices
   * @param out at least count × rowBytes bytes. Default: a new Float32Array if every field is
   *   float32, otherwise a new Uint8Array
   * @returns the packed rows, with `ptr` and `size` of the moment at which they were sampled
   * @throws {TypeError|RangeError} for an invalid option, or an `out` that is too small
   * @throws {ERR_HOTSLOT_STATE_EMPTY} before the first commit
   * @example
   * const { rows, size } = buffer.sample({ seed: 7, count: 256 });
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
   * Adds the rows of an npz file, or of arrays as readNpz() returns them. Columns are found by
   * `columns`, by the fields' keys or, for off-policy buffers, by the names of D4RL and Minari. If
   * next observations are missing, the following rows' observations are used.
   *
   * @param from a path, a `file:` URL, or arrays by name
   * @param options `columns`, `rows` and `actionSpace`. By default all rows are added
   * @returns the number of added rows
   * @throws {TypeError} for a wrong argument, or a dtype that Hotslot lacks. Every TypeError and
   *   RangeError comes before the first row is added
   * @throws {RangeError} if a column is missing, has another shape, or has a value that add(), the
   *   field's dtype or `actionSpace` rejects. Also for more rows than the capacity
   * @throws {ERR_HOTSLOT_STATE_BUSY} if a gating limiter admits no more rows now. The text has the
   *   number of added rows
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be read
   * @example
   * const rows = await buffer.load('halfcheetah.npz', { rows: { to: 100_000 } });
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

  /** Throws the error that add() would throw for a non-finite value. */
  #checkRows = (rows: object, name: (row: number) => string): void => {
    const { rows: count, sources } = this.#input.lineUp(rows);
    if (rowsAddon().lookAtRows(this.#open(), count, ...sources) < 0)
      throw this.#input.refused(this.#result, rows, name);
  };

  /**
   * Writes the stored rows as an npz file that load() reads: a column for each field's key, oldest
   * row first. The complete file replaces `path`. If dump() fails, `path` stays as it was.
   *
   * @param path a path or a `file:` URL
   * @returns the number of rows
   * @throws {TypeError} for another path, and for a bfloat16 field, which numpy lacks
   * @throws {ERR_HOTSLOT_STATE_EMPTY} if the buffer is empty
   * @throws {ERR_HOTSLOT_STATE_BUSY} if rows are added meanwhile
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be written
   * @example
   * await buffer.dump('rows.npz');
   */
  async dump(path: string | URL): Promise<number> {
    this.#open();
    return dumpRows(this, path);
  }

  /**
   * Releases this object's handle. Objects of other threads stay open. Idempotent. Every later call
   * of this object throws ERR_HOTSLOT_STATE_CLOSED.
   */
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
