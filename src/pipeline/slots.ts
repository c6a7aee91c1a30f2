/**
 * The slots' memory on both sides: shared host halves, device halves, what the graph copies back, the batch views, and the
 * events. Made and freed by the opener only.
 */
import { answered } from '../addon.ts';
import type { DTypeIn, Fields } from '../buffer/fields.ts';
import type { ReplayBuffer } from '../buffer/replay-buffer.ts';
import { type Device, type DeviceEvent, type Storage, type Stream, Tensor } from '../device/device.ts';
import { homeFor } from '../device/lend.ts';
import { native } from '../device/native.ts';
import { openDevice } from '../device/open.ts';
import { makingOf, Owner, own } from '../device/owner.ts';
import { MemoryStorage, type PinnedHost } from '../device/storage.ts';
import { DeviceRows } from '../device-rows/device-rows.ts';
import { type CheckedRing, chooseRows, type RowsChoice, type RowsKept } from '../device-rows/options.ts';
import { rangeError, typeError } from '../errors.ts';
import { HostHalves, type HostHalvesShare } from '../ring/host-halves.ts';
import type { Ring } from '../ring/ring.ts';
import {
  HEAD_AT,
  HEAD_WORDS,
  MOST_SCALARS,
  OUT_BYTES,
  OUT_SCALARS,
  PARAMS_BYTES,
  ROWS_AT,
  SlotState,
} from '../ring/slot.ts';
import type { ReplayTransferBackend, SharedTransferBackend } from '../transfer/backend.ts';
import { buildReplayTransferBackend } from '../transfer/build.ts';
import type { TransferMode } from '../transfer/native.ts';
import { type BatchColumn, type BatchSource, stridedColumns } from './source.ts';

/** A tick's rows on the device: one tensor per field, keys as add() takes them, [rows, …field shape], strided by row. */
export type Batch<F extends Fields = Fields> = {
  readonly [K in keyof F as K extends string ? K : never]-?: Tensor<DTypeIn<F, K>>;
};

/** Columns of trajectories that are no fields, as a capture is given them. */
export interface Extras {
  /** float32[rows] to read: importance weights; only where the pipeline draws by priorities */
  weights?: Tensor<'float32'> | undefined;
  /** float32[rows] to write: |p| of each row; one that is not written keeps its step's priority */
  priorities?: Tensor<'float32'> | undefined;
  /** float64[rows]: which steps these are */
  ids?: Tensor<'float64'> | undefined;
}

/** What actors need of the slots: shared memory and handles, no objects. */
export interface SharedSlots {
  readonly host: HostHalvesShare;
  readonly backend: SharedTransferBackend;
  readonly computeStream: number;
  readonly spent: readonly number[];
  /** recorded before each update; empty when nothing is timed */
  readonly updateBegins: readonly number[];
  /** where the graph copies `out` to when the host halves are not pinned; else empty: straight there */
  readonly homes: readonly number[];
}

export class Slots extends Owner {
  readonly backend: ReplayTransferBackend;
  readonly device: Device;
  readonly compute: Stream;
  readonly spent: readonly DeviceEvent[];
  /** recorded before each update; empty unless updates are timed */
  readonly updateBegins: readonly DeviceEvent[];
  readonly host: HostHalves;
  readonly batches: readonly Batch[];
  /** float64[32] per slot, by `Param` of src/ring/slot.ts */
  readonly params: readonly Tensor<'float64'>[];
  /** float32[MOST_SCALARS] per slot, for the learner's scalars */
  readonly scalars: readonly Tensor<'float32'>[];
  /** for the last drain, and before a run: made now, because closing must not fail for want of it */
  readonly last: DeviceEvent;
  readonly #outs: readonly Tensor[];
  readonly #hostOuts: readonly Tensor[];
  /** where priorities come home to, and the batch's column of them; empty unless drawn by priorities */
  readonly #hostPriorities: readonly Tensor[];
  readonly #priorities: readonly Tensor[];
  readonly #extras: readonly string[];
  readonly #homes: readonly PinnedHost[];
  readonly warnings: string[] = [];
  /** where the rows live, and why */
  readonly rowsKept: RowsChoice;
  /** null where rows travel with each batch */
  readonly deviceRows: DeviceRows | null;
  /** recorded behind a manual tick's draw on the device */
  readonly drawn: DeviceEvent | null;
  /** of rows on the device: what the tick draws, per slot; an int32 view of its parameters */
  readonly #heads: readonly Tensor<'int32'>[];
  #index: Tensor<'int32'> | undefined;

  constructor(options: {
    source: BatchSource;
    rows: RowsKept;
    ring: CheckedRing | null;
    noRing: string;
    baseSeed: number;
    device: string;
    depth: number;
    transfer: TransferMode;
    /** measure copies and updates on the device, where it can */
    timed: boolean;
  }) {
    super('this pipeline');
    const { source, depth, timed, ring } = options;
    const { priorityBytes } = source;
    this.backend = buildReplayTransferBackend({
      device: options.device,
      ringDepth: depth,
      transfer: options.transfer,
      timed,
    });
    this.device = this.backend.device;
    using making = makingOf(this);
    this.rowsKept = chooseRows(options.rows, this.device, ring, options.noRing);
    const onDevice = this.rowsKept.kept === 'device';
    // A head in place of rows.
    const batchBytes = onDevice ? 0 : source.bytes;
    const total = HostHalves.bytes(depth, { batchBytes, priorityBytes });
    const { free } = this.device.memoryInfo();
    if (2 * total > free) {
      throw rangeError(
        `${depth} slots of ${source.rows} rows × ${batchBytes / source.rows} bytes ask for ${2 * total} bytes in all, ${free} are free: use fewer slots or rows`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
    this.#extras = source.extras;
    this.host = HostHalves.allocate(depth, { batchBytes, priorityBytes });
    const halves = this.host.each();
    this.backend.registerHostSlots(halves);
    const bytes = PARAMS_BYTES + batchBytes;
    const slots = this.backend.allocateDeviceSlots({ shape: [bytes], dtype: 'uint8' });
    this.compute = own(this, this.device.createStream());
    this.last = own(this, this.device.createEvent());
    const timing = timed && this.backend.supportsTimingEvents;
    this.spent = halves.map(() => own(this, this.device.createEvent({ timing })));
    this.updateBegins = timing ? halves.map(() => own(this, this.device.createEvent({ timing }))) : [];
    // What callers get to see is lent, on a device object of their own: closing either leaves the pipeline whole.
    const shown = own(this, openDevice(options.device));
    const lent = slots.map((slot) => lend(slot.storage, shown));
    this.params = lent.map((storage) => new Tensor(storage, [PARAMS_BYTES / 8], 'float64'));
    if (onDevice) {
      const { buffer, rows } = source;
      const given = { device: this.device, buffer: buffer as ReplayBuffer, checked: ring as CheckedRing };
      const kept = own(this, new DeviceRows({ ...given, sampleCount: rows, baseSeed: options.baseSeed }));
      this.warnings.push(...kept.warnings);
      this.deviceRows = kept;
      this.#heads = lent.map((storage) => new Tensor(storage, [HEAD_WORDS], 'int32', HEAD_AT));
      this.#index = new Tensor(lend(kept.places.storage, shown), [rows], 'int32');
      // One batch for all slots: it is drawn by the graph that reads it.
      const columns = stridedColumns(buffer as ReplayBuffer, kept.checked.stride);
      this.drawn = own(this, this.device.createEvent({ timing: false }));
      const batch = batchOf(lend(kept.batch.storage, shown), { columns, rows }, 0);
      this.batches = lent.map(() => batch);
    } else {
      this.deviceRows = null;
      this.drawn = null;
      this.#heads = [];
      this.batches = lent.map((storage) => batchOf(storage, source, ROWS_AT));
    }
    this.#outs = halves.map(() => own(this, this.device.allocate({ shape: [OUT_BYTES], dtype: 'uint8' })));
    this.scalars = this.#outs.map(
      (out) => new Tensor(lend(out.storage, shown), [MOST_SCALARS], 'float32', OUT_SCALARS),
    );
    const hosts = this.backend.share().hosts;
    const kind = this.backend.hostPinned ? 'registered' : 'pageable';
    const homeBytes = OUT_BYTES + priorityBytes;
    const homes = halves
      .map(() => homeFor(this.device, kind, homeBytes, (text) => this.warnings.push(text)))
      .filter((home) => home !== null);
    for (const home of homes) own(this, home);
    // All alike: one that could not be had makes all of them come straight home.
    this.#homes = homes.length === halves.length ? homes : [];
    const coming = hosts.map((handle, slot) => {
      const home = this.#homes[slot];
      if (home) return new Tensor(home, [homeBytes], 'uint8');
      const half = new MemoryStorage(this.device, handle, this.host.stride, { host: true, owner: 'pipeline' });
      return new Tensor(half, [homeBytes], 'uint8', this.host.out);
    });
    this.#hostOuts = coming.map((home) => home.view({ shape: [OUT_BYTES] }));
    const back = source.prioritized ? coming : [];
    this.#hostPriorities = back.map(
      (home) => new Tensor(home.storage, [source.rows], 'float32', home.byteOffset + OUT_BYTES),
    );
    this.#priorities = back.map((_, slot) => this.batches[slot]!.priorities as Tensor);
    making.done();
  }

  share(): SharedSlots {
    const handles = (events: readonly DeviceEvent[]) => events.map((event) => event.handle);
    return {
      host: this.host.share(),
      backend: this.backend.share(),
      computeStream: this.compute.handle,
      spent: handles(this.spent),
      updateBegins: handles(this.updateBegins),
      homes: this.#homes.map((home) => home.handle),
    };
  }

  /** Of rows on the device: where the batch's rows lie in the ring. */
  get index(): Tensor<'int32'> | undefined {
    return this.#index;
  }

  /** What comes before the learner's own work: of rows on the device, their draw and their gather. */
  beginUpdate(slot: number, stream: Stream): void {
    this.deviceRows?.draw(stream, this.#heads[slot] as Tensor<'int32'>);
  }

  /** The graph's last nodes: the sequence to the mark, priorities to the host half, then mark and scalars: the mark says all of it. */
  finishCapture(slot: number, stream: Stream): void {
    const params = this.params[slot] as Tensor;
    const out = this.#outs[slot] as Tensor;
    const mark = new Tensor(out.storage, [1], 'float64');
    stream.copy(mark, params.view({ shape: [1], offset: 1 }));
    this.bringPriorities(slot, stream);
    stream.copy(this.#hostOuts[slot] as Tensor, out);
  }

  /** The columns of a view that are no fields; none of rows. */
  extras(slot: number): Extras {
    const batch = this.batches[slot] as Record<string, Tensor>;
    const column = (key: string) => (this.#extras.includes(key) ? batch[key] : undefined);
    return {
      weights: column('weights') as Tensor<'float32'> | undefined,
      priorities: column('priorities') as Tensor<'float32'> | undefined,
      ids: column('ids') as Tensor<'float64'> | undefined,
    };
  }

  /** What the learner wrote to the batch's priorities goes to the host half; nothing where it draws uniformly. */
  bringPriorities(slot: number, stream: Stream): void {
    const home = this.#hostPriorities[slot];
    if (home) stream.copy(home, this.#priorities[slot] as Tensor);
  }

  /**
   * Behind a drain: the slots whose last batch is spent, and its sequence. What had not come home is brought. A replay actor that
   * died behind its launch left the slot Ready: the mark tells.
   */
  comeHome(ring: Ring): { slot: number; sequence: number }[] {
    return this.host.each().map((_, slot) => {
      const state = ring.state(slot);
      const sequence = ring.sequence(slot);
      const home = this.#homes[slot];
      // Poll did so for every other one, and a close() that was refused behind this for all.
      if (home && !home.closed && state >= SlotState.Ready)
        answered(native().copyOut(home.handle, this.host.homeBytes(slot)));
      const marked = state === SlotState.Ready && this.host.mark(slot)[0] === sequence + 1;
      return { slot, sequence: sequence - (state === SlotState.Replaying || marked ? 0 : ring.depth) };
    });
  }

  /** The backend first: it refuses while copies run, and then nothing is closed. */
  override close(): void {
    this.backend.close();
    super.close();
  }
}

/** What callers get to see of a slot: closing it is refused, and closing its device leaves the pipeline whole. */
function lend(storage: Storage, device: Device): MemoryStorage {
  const { handle, bytes, host, managed } = storage;
  return new MemoryStorage(device, handle, bytes, { host, managed, owner: 'pipeline', lender: storage });
}

/** Beneath a batch: a name that is no field is told, instead of being undefined until something else breaks. */
function missing(fields: readonly string[]): object {
  return new Proxy(Object.freeze({}), {
    get: (target, key) => {
      // What JavaScript itself asks of every object: a promise's `then`, JSON's `toJSON`.
      if (typeof key === 'symbol' || key in Object.prototype || key === 'then' || key === 'toJSON')
        return Reflect.get(target, key) as unknown;
      throw typeError(`a batch has no field '${key}'; it has ${fields.join(', ')}`);
    },
  });
}

function batchOf(
  slot: Storage,
  { columns, rows }: { columns: readonly BatchColumn[]; rows: number },
  from: number,
): Batch {
  const batch = Object.create(missing(columns.map(({ key }) => key))) as Record<string, Tensor>;
  for (const { key, dtype, shape, at, step } of columns) {
    const inner = new Tensor(slot, shape, dtype, from + at);
    batch[key] = new Tensor(slot, [rows, ...shape], dtype, from + at, [step, ...inner.strides]);
  }
  return Object.freeze(batch);
}
