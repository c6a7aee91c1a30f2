/**
 * The slots' memory on both sides: shared host halves, device halves, what the graph copies back, the batch views, and the
 * events. Made and freed by the opener only.
 */
import type { ReplayBuffer } from '../buffer/replay-buffer.ts';
import type { Device, DeviceEvent, Stream } from '../device/device.ts';
import { Made } from '../device/made.ts';
import { openDevice } from '../device/open.ts';
import { type Storage, Tensor } from '../device/tensor.ts';
import { dtypes } from '../dtype.ts';
import { rangeError, stateError } from '../errors.ts';
import { hostStride, MOST_SCALARS, OUT_BYTES, OUT_SCALARS, outAt, PAGE, PARAMS_BYTES, ROWS_AT } from '../ring/slot.ts';
import { allocateShared } from '../shared-memory.ts';
import type { ReplayTransferBackend } from '../transfer/backend.ts';
import { buildReplayTransferBackend, type TransferName } from '../transfer/build.ts';

/** A tick's rows on the device: one tensor per field, keys as add() takes them, [rows, …field shape], strided by row. */
export type Batch = Readonly<Record<string, Tensor>>;

export class Slots {
  readonly backend: ReplayTransferBackend;
  readonly device: Device;
  readonly compute: Stream;
  readonly spent: readonly DeviceEvent[];
  /** recorded before each update; empty unless updates are timed */
  readonly updateBegins: readonly DeviceEvent[];
  /** every slot's host half */
  readonly host: Uint8Array;
  readonly hostStride: number;
  readonly out: number;
  readonly batches: readonly Batch[];
  /** float64[32] per slot, by `Param` of src/ring/slot.ts */
  readonly params: readonly Tensor[];
  /** float32[MOST_SCALARS] per slot, for the learner's scalars */
  readonly scalars: readonly Tensor[];
  /** for the last drain: made now, because closing must not fail for want of it */
  readonly last: DeviceEvent;
  readonly #outs: readonly Tensor[];
  /** what is closed with the slots, whole or half made */
  readonly #made = new Made();
  readonly #hostOuts: readonly Tensor[];
  #closed = false;

  constructor(options: {
    buffer: ReplayBuffer;
    device: string;
    depth: number;
    sampleCount: number;
    transfer: TransferName;
    /** measure copies and updates on the device, where it can */
    timed: boolean;
  }) {
    const { buffer, depth, sampleCount, timed } = options;
    const batchBytes = sampleCount * buffer.layout.rowBytes;
    this.hostStride = hostStride(batchBytes);
    this.out = outAt(batchBytes);
    const total = depth * this.hostStride;
    this.backend = buildReplayTransferBackend({
      device: options.device,
      ringDepth: depth,
      transfer: options.transfer,
      timed,
    });
    this.device = this.backend.device;
    try {
      const { free } = this.device.memoryInfo();
      if (2 * total > free) {
        throw rangeError(
          `${depth} slots of ${sampleCount} rows × ${buffer.layout.rowBytes} bytes ask for ${2 * total} bytes in all, ${free} are free: use fewer slots or rows`,
          'ERR_HOTSLOT_MEMORY',
        );
      }
      const place = allocateShared(`${depth} host slots of ${batchBytes} bytes`, total, PAGE);
      this.host = new Uint8Array(place.memory, place.offset, total);
      const halves = Array.from({ length: depth }, (_, i) =>
        this.host.subarray(i * this.hostStride, (i + 1) * this.hostStride),
      );
      this.backend.registerHostSlots(halves);
      const bytes = PARAMS_BYTES + batchBytes;
      const slots = this.backend.allocateDeviceSlots({ shape: [bytes], dtype: 'uint8' });
      this.compute = this.#made.keep(this.device.createStream());
      this.last = this.#made.keep(this.device.createEvent());
      const timing = timed && this.backend.supportsTimingEvents;
      this.spent = halves.map(() => this.#made.keep(this.device.createEvent({ timing })));
      this.updateBegins = timing ? halves.map(() => this.#made.keep(this.device.createEvent({ timing }))) : [];
      // What callers get to see is lent, on a device object of their own: closing either harms nobody.
      const shown = this.#made.keep(openDevice(options.device));
      const lent = slots.map((slot) => lend(slot.storage, shown));
      this.params = lent.map((storage) => new Tensor(storage, [PARAMS_BYTES / 8], 'float64'));
      this.batches = lent.map((storage) => batchOf(storage, buffer, sampleCount));
      this.#outs = halves.map(() => this.#made.keep(this.device.allocate({ shape: [OUT_BYTES], dtype: 'uint8' })));
      this.scalars = this.#outs.map(
        (out) => new Tensor(lend(out.storage, shown), [MOST_SCALARS], 'float32', OUT_SCALARS),
      );
      const hosts = this.backend.share().hosts;
      this.#hostOuts = halves.map((_, i) => this.#hostTensor(hosts[i] as number));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** The graph's last two nodes: the sequence to the mark, then mark and scalars to the host half. */
  finishCapture(slot: number, stream: Stream): void {
    const params = this.params[slot] as Tensor;
    const out = this.#outs[slot] as Tensor;
    const mark = new Tensor(out.storage, [1], 'float64');
    stream.copy(mark, params.view({ shape: [1], offset: 1 }));
    stream.copy(this.#hostOuts[slot] as Tensor, out);
  }

  close(): void {
    if (this.#closed) return;
    this.backend.close();
    this.#made.close();
    this.#closed = true;
  }

  /** `out` in a registered host half, as a copy's target: borrowed from the backend, which owns the registration. */
  #hostTensor(handle: number): Tensor {
    const { device, hostStride: bytes } = this;
    const nothing = () => {
      throw stateError('BUSY', 'a host half is copied to and from by the pipeline only');
    };
    const borrowed = {
      handle,
      device,
      bytes,
      host: true,
      managed: false,
      closed: false,
      close: nothing,
      read: nothing,
      write: nothing,
    };
    return new Tensor(borrowed, [OUT_BYTES], 'uint8', this.out);
  }
}

/** The compute stream as a capture sees it: everything but closing it. */
export function lendStream(stream: Stream): Stream {
  return new Proxy(stream, {
    get(target, key) {
      if (key === 'close' || key === Symbol.dispose) {
        return () => {
          throw stateError('BUSY', 'this stream belongs to the pipeline: close the pipeline instead');
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A storage that its borrower cannot close. */
function lend(storage: Storage, device: Device): Storage {
  return {
    handle: storage.handle,
    device,
    bytes: storage.bytes,
    host: storage.host,
    managed: storage.managed,
    get closed() {
      return storage.closed;
    },
    read: (...how) => storage.read(...how),
    write: (...how) => storage.write(...how),
    close() {
      throw stateError('BUSY', 'this tensor belongs to the pipeline: close the pipeline instead');
    },
  };
}

function batchOf(slot: Storage, buffer: ReplayBuffer, rows: number): Batch {
  const batch: Record<string, Tensor> = {};
  for (const field of Object.values(buffer.layout.fields)) {
    const { key, dtype, shape, offset } = field;
    const step = buffer.layout.rowBytes / dtypes[dtype].bytes;
    const inner = new Tensor(slot, shape, dtype, ROWS_AT + offset);
    batch[key] = new Tensor(slot, [rows, ...shape], dtype, ROWS_AT + offset, [step, ...inner.strides]);
  }
  return Object.freeze(batch);
}
