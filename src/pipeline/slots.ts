/**
 * The slots' memory on both sides: shared host halves, device halves, what the graph copies back, the batch views, and the
 * events. Made and freed by the opener only.
 */
import type { DTypeIn, Fields } from '../buffer/fields.ts';
import type { ReplayBuffer } from '../buffer/replay-buffer.ts';
import { type Device, type DeviceEvent, type Storage, type Stream, Tensor } from '../device/device.ts';
import { homeFor } from '../device/lend.ts';
import { openDevice } from '../device/open.ts';
import { makingOf, Owner, own } from '../device/owner.ts';
import { MemoryStorage, type PinnedHost } from '../device/storage.ts';
import { dtypes } from '../dtype.ts';
import { rangeError, typeError } from '../errors.ts';
import { HostHalves, type HostHalvesShare } from '../ring/host-halves.ts';
import { MOST_SCALARS, OUT_BYTES, OUT_SCALARS, PARAMS_BYTES, ROWS_AT } from '../ring/slot.ts';
import type { ReplayTransferBackend, SharedTransferBackend } from '../transfer/backend.ts';
import { buildReplayTransferBackend } from '../transfer/build.ts';
import type { TransferMode } from '../transfer/native.ts';

/** A tick's rows on the device: one tensor per field, keys as add() takes them, [rows, …field shape], strided by row. */
export type Batch<F extends Fields = Fields> = {
  readonly [K in keyof F as K extends string ? K : never]-?: Tensor<DTypeIn<F, K>>;
};

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
  /** for the last drain: made now, because closing must not fail for want of it */
  readonly last: DeviceEvent;
  readonly #outs: readonly Tensor[];
  readonly #hostOuts: readonly Tensor[];
  readonly #homes: readonly PinnedHost[];
  readonly warnings: string[] = [];

  constructor(options: {
    buffer: ReplayBuffer;
    device: string;
    depth: number;
    sampleCount: number;
    transfer: TransferMode;
    /** measure copies and updates on the device, where it can */
    timed: boolean;
  }) {
    super('this pipeline');
    const { buffer, depth, sampleCount, timed } = options;
    const batchBytes = sampleCount * buffer.layout.rowBytes;
    const total = HostHalves.bytes(depth, batchBytes);
    this.backend = buildReplayTransferBackend({
      device: options.device,
      ringDepth: depth,
      transfer: options.transfer,
      timed,
    });
    this.device = this.backend.device;
    using making = makingOf(this);
    const { free } = this.device.memoryInfo();
    if (2 * total > free) {
      throw rangeError(
        `${depth} slots of ${sampleCount} rows × ${buffer.layout.rowBytes} bytes ask for ${2 * total} bytes in all, ${free} are free: use fewer slots or rows`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
    this.host = HostHalves.allocate(depth, batchBytes);
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
    this.batches = lent.map((storage) => batchOf(storage, buffer, sampleCount));
    this.#outs = halves.map(() => own(this, this.device.allocate({ shape: [OUT_BYTES], dtype: 'uint8' })));
    this.scalars = this.#outs.map(
      (out) => new Tensor(lend(out.storage, shown), [MOST_SCALARS], 'float32', OUT_SCALARS),
    );
    const hosts = this.backend.share().hosts;
    const kind = this.backend.hostPinned ? 'registered' : 'pageable';
    const homes = halves
      .map(() => homeFor(this.device, kind, OUT_BYTES, (text) => this.warnings.push(text)))
      .filter((home) => home !== null);
    for (const home of homes) own(this, home);
    // All alike: one that could not be had makes all of them come straight home.
    this.#homes = homes.length === halves.length ? homes : [];
    this.#hostOuts = hosts.map((handle, slot) => {
      const home = this.#homes[slot];
      if (home) return new Tensor(home, [OUT_BYTES], 'uint8');
      const half = new MemoryStorage(this.device, handle, this.host.stride, { host: true, owner: 'pipeline' });
      return new Tensor(half, [OUT_BYTES], 'uint8', this.host.out);
    });
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

  /** The graph's last two nodes: the sequence to the mark, then mark and scalars to the host half. */
  finishCapture(slot: number, stream: Stream): void {
    const params = this.params[slot] as Tensor;
    const out = this.#outs[slot] as Tensor;
    const mark = new Tensor(out.storage, [1], 'float64');
    stream.copy(mark, params.view({ shape: [1], offset: 1 }));
    stream.copy(this.#hostOuts[slot] as Tensor, out);
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

function batchOf(slot: Storage, buffer: ReplayBuffer, rows: number): Batch {
  const { fields } = buffer.layout;
  const batch = Object.create(missing(Object.values(fields).map(({ key }) => key))) as Record<string, Tensor>;
  for (const field of Object.values(fields)) {
    const { key, dtype, shape, offset } = field;
    const step = buffer.layout.rowBytes / dtypes[dtype].bytes;
    const inner = new Tensor(slot, shape, dtype, ROWS_AT + offset);
    batch[key] = new Tensor(slot, [rows, ...shape], dtype, ROWS_AT + offset, [step, ...inner.strides]);
  }
  return Object.freeze(batch);
}
