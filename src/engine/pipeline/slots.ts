/**
 * The slots' memory on both sides: shared host buffers, device buffers, the memory that the graph
 * copies back to, the batches, and the events. Only the opener creates and frees them.
 */
import { answered } from '../../base/addon.ts';
import { rangeError } from '../../base/errors.ts';
import { type Device, type DeviceEvent, type Stream, Tensor } from '../../device/device.ts';
import { readbackBufferFor } from '../../device/lend.ts';
import { nativeMemory } from '../../device/native.ts';
import { openDevice } from '../../device/open.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { MemoryStorage, type PinnedHost } from '../../device/storage.ts';
import type {
  ReplayTransferBackend,
  SharedTransferBackend,
} from '../../device/transfer/backend.ts';
import { buildReplayTransferBackend } from '../../device/transfer/build.ts';
import type { TransferChoice } from '../../device/transfer/native.ts';
import {
  type CheckedRing,
  chooseRows,
  type RowsChoice,
  type RowsKept,
} from '../device-rows/options.ts';
import { HostBuffers, type HostBuffersShare } from '../ring/host-buffers.ts';
import type { Ring } from '../ring/ring.ts';
import { MAX_SCALARS, OUT_BYTES, OUT_SCALARS, PARAMS_BYTES, SlotState } from '../ring/slot.ts';
import { type Batches, type Extras, lend, makeBatches } from './batches.ts';
import type { BatchPlan, BatchSource, PriorityUpdates } from './source.ts';

/** The data of the slots that actors need: shared memory and handles, no objects. */
export interface SharedSlots {
  readonly host: HostBuffersShare;
  readonly backend: SharedTransferBackend;
  readonly computeStream: number;
  readonly spent: readonly number[];
  /** per slot, the event that is recorded before each update. Empty if updates are not timed */
  readonly updateBegins: readonly number[];
  /**
   * per slot, the memory to which the graph copies `out` if the host buffers are not pinned. Empty
   * if it copies to the host buffers
   */
  readonly readbacks: readonly number[];
}

export class Slots extends Owner {
  readonly backend: ReplayTransferBackend;
  readonly device: Device;
  readonly compute: Stream;
  readonly spent: readonly DeviceEvent[];
  /** per slot, the event that is recorded before each update. Empty if updates are not timed */
  readonly updateBegins: readonly DeviceEvent[];
  readonly host: HostBuffers;
  /** layout of a batch in a slot, which depends on where the rows live */
  readonly plan: BatchPlan;
  /** null if draws are uniform */
  readonly updates: PriorityUpdates | null;
  readonly batches: Batches['batches'];
  /** per slot: float64[32], by `Param` of src/engine/ring/slot.ts */
  readonly params: readonly Tensor<'float64'>[];
  /** per slot: float32[MAX_SCALARS], the learner's scalars */
  readonly scalars: readonly Tensor<'float32'>[];
  /**
   * event that close() records to drain the device, and that a run records before its first tick.
   * It is created with the slots, because close() must not fail to create it
   */
  readonly last: DeviceEvent;
  readonly #outs: readonly Tensor[];
  readonly #hostOuts: readonly Tensor[];
  /**
   * per slot, the memory to which priorities are read back, and the batch's column of priorities.
   * Empty if draws are uniform
   */
  readonly #hostPriorities: readonly Tensor[];
  readonly #priorities: readonly Tensor[];
  readonly #extras: readonly string[];
  readonly #readbacks: readonly PinnedHost[];
  readonly warnings: string[] = [];
  /** where the rows live, and why */
  readonly rowsKept: RowsChoice;
  readonly deviceStore: Batches['deviceStore'];
  readonly deviceRows: Batches['deviceRows'];
  readonly drawn: Batches['drawn'];
  readonly index: Batches['index'];

  constructor(options: {
    source: BatchSource;
    rows: RowsKept;
    ring: CheckedRing | null;
    noRing: string;
    baseSeed: number;
    device: string;
    depth: number;
    transfer: TransferChoice;
    /** whether to measure copies and updates on the device, if it has timing events */
    timed: boolean;
  }) {
    super('this pipeline');
    const { source, depth, timed, ring } = options;
    const { priorityBytes } = source;
    this.backend = buildReplayTransferBackend({
      device: options.device,
      ringDepth: depth,
      // If rows live on the device, only part of a batch travels in a slot, and the device gathers
      // the batch. Direct packing needs whole batches, so 'auto' copies.
      transfer:
        options.rows === 'device' && options.transfer === 'auto' ? 'immediate' : options.transfer,
      timed,
    });
    this.device = this.backend.device;
    using construction = guardConstruction(this);
    this.rowsKept = chooseRows(options.rows, this.device, ring, options.noRing);
    const onDevice = this.rowsKept.location === 'device';
    const steps = onDevice ? source.steps : null;
    this.plan = steps === null ? source.plan : source.planRetained();
    this.updates = source.updates(this.plan);
    // If a ReplayBuffer's rows live on the device, only a head travels. For a view, pack's columns
    // and the steps that are new to the device travel.
    const batchBytes = onDevice && steps === null ? 0 : this.plan.bytes;
    const fresh = steps && { at: steps.layout.freshAt, bytes: steps.stepBytes };
    const total = HostBuffers.bytes(depth, { batchBytes, priorityBytes });
    const { free } = this.device.memoryInfo();
    if (2 * total > free) {
      throw rangeError(
        `${depth} slots of ${source.rows} rows × ${batchBytes / source.rows} bytes need ${2 * total} bytes, and ${free} are free; use fewer slots or rows`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
    this.#extras = source.extras;
    this.host = HostBuffers.allocate(depth, { batchBytes, priorityBytes, fresh });
    const hostBuffers = this.host.each();
    this.backend.registerHostSlots(hostBuffers);
    const bytes = PARAMS_BYTES + batchBytes;
    const slots = this.backend.allocateDeviceSlots({ shape: [bytes], dtype: 'uint8' });
    this.compute = own(this, this.device.createStream());
    this.last = own(this, this.device.createEvent());
    const timing = timed && this.device.traits.timingEvents;
    this.spent = hostBuffers.map(() => own(this, this.device.createEvent({ timing })));
    this.updateBegins = timing
      ? hostBuffers.map(() => own(this, this.device.createEvent({ timing })))
      : [];
    // Callers get lent memory on a separate device object, so that closing either does not affect
    // the pipeline.
    const shown = own(this, openDevice(options.device));
    const lent = slots.map((slot) => lend(slot.storage, shown));
    this.params = lent.map((storage) => new Tensor(storage, [PARAMS_BYTES / 8], 'float64'));
    const made = {
      device: this.device,
      shown,
      source,
      plan: this.plan,
      slots,
      ring: onDevice ? ring : null,
      baseSeed: options.baseSeed,
    };
    ({
      batches: this.batches,
      deviceStore: this.deviceStore,
      deviceRows: this.deviceRows,
      drawn: this.drawn,
      index: this.index,
    } = makeBatches(this, made));
    this.warnings.push(...(this.deviceStore?.warnings ?? []));
    this.#outs = hostBuffers.map(() =>
      own(this, this.device.allocate({ shape: [OUT_BYTES], dtype: 'uint8' })),
    );
    this.scalars = this.#outs.map(
      (out) => new Tensor(lend(out.storage, shown), [MAX_SCALARS], 'float32', OUT_SCALARS),
    );
    const hosts = this.backend.share().hosts;
    const kind = this.backend.hostPinned ? 'registered' : 'pageable';
    const readbackBytes = OUT_BYTES + priorityBytes;
    const readbacks = hostBuffers
      .map(() =>
        readbackBufferFor(this.device, kind, readbackBytes, (text) => this.warnings.push(text)),
      )
      .filter((readback) => readback !== null);
    for (const readback of readbacks) own(this, readback);
    // Either all slots have such memory or none has. If one could not be allocated, the graph
    // copies to the host buffers.
    this.#readbacks = readbacks.length === hostBuffers.length ? readbacks : [];
    const coming = hosts.map((handle, slot) => {
      const readback = this.#readbacks[slot];
      if (readback) return new Tensor(readback, [readbackBytes], 'uint8');
      const half = new MemoryStorage(this.device, handle, this.host.stride, {
        host: true,
        owner: 'pipeline',
      });
      return new Tensor(half, [readbackBytes], 'uint8', this.host.out);
    });
    this.#hostOuts = coming.map((readback) => readback.view({ shape: [OUT_BYTES] }));
    const back = source.prioritized ? coming : [];
    this.#hostPriorities = back.map(
      (readback) =>
        new Tensor(readback.storage, [source.rows], 'float32', readback.byteOffset + OUT_BYTES),
    );
    this.#priorities = back.map((_, slot) => this.batches[slot]!.priorities as Tensor);
    construction.done();
  }

  share(): SharedSlots {
    const handles = (events: readonly DeviceEvent[]) => events.map((event) => event.handle);
    return {
      host: this.host.share(),
      backend: this.backend.share(),
      computeStream: this.compute.handle,
      spent: handles(this.spent),
      updateBegins: handles(this.updateBegins),
      readbacks: this.#readbacks.map((readback) => readback.handle),
    };
  }

  /**
   * Enqueues the work that precedes the learner's update: the draw and the gather, if rows live on
   * the device.
   */
  beginUpdate(slot: number, stream: Stream): void {
    this.deviceStore?.draw(stream, slot);
  }

  /**
   * Enqueues the graph's last nodes. The sequence is copied to the mark, then the priorities to the
   * host buffer, then the mark and scalars. The mark is last, so it shows that all of them are
   * complete.
   */
  finishCapture(slot: number, stream: Stream): void {
    const params = this.params[slot] as Tensor;
    const out = this.#outs[slot] as Tensor;
    const mark = new Tensor(out.storage, [1], 'float64');
    stream.copy(mark, params.view({ shape: [1], offset: 1 }));
    this.bringPriorities(slot, stream);
    stream.copy(this.#hostOuts[slot] as Tensor, out);
  }

  /** Returns the columns of a view that are not fields. Returns none for rows. */
  extras(slot: number): Extras {
    const batch = this.batches[slot] as Record<string, Tensor>;
    const column = (key: string) => (this.#extras.includes(key) ? batch[key] : undefined);
    return {
      weights: column('weights') as Tensor<'float32'> | undefined,
      priorities: column('priorities') as Tensor<'float32'> | undefined,
      ids: column('ids') as Tensor<'float64'> | undefined,
    };
  }

  /**
   * Enqueues the copy of the priorities that the learner wrote to the host buffer. Does nothing if
   * draws are uniform.
   */
  bringPriorities(slot: number, stream: Stream): void {
    const readback = this.#hostPriorities[slot];
    if (readback) stream.copy(readback, this.#priorities[slot] as Tensor);
  }

  /**
   * Returns each slot with the sequence of its last batch whose update ran. Call it after a drain.
   * readBack() also copies everything that was not read back yet to the host buffers.
   *
   * If a replay actor died after a launch, its slot is still Ready, and the slot's mark shows that
   * the update ran.
   */
  readBack(ring: Ring): { slot: number; sequence: number }[] {
    return this.host.each().map((_, slot) => {
      const state = ring.state(slot);
      const sequence = ring.sequence(slot);
      const readback = this.#readbacks[slot];
      // Poll has already copied the slots in all other states. If an earlier close() was refused
      // after this point, that close() has already copied all slots.
      if (readback && !readback.closed && state >= SlotState.Ready)
        answered(nativeMemory().copyOut(readback.handle, this.host.readbackBytes(slot)));
      const marked = state === SlotState.Ready && this.host.mark(slot)[0] === sequence + 1;
      return {
        slot,
        sequence: sequence - (state === SlotState.Replaying || marked ? 0 : ring.depth),
      };
    });
  }

  /** Closes the backend first. It throws while copies run, and then nothing is closed. */
  override close(): void {
    this.backend.close();
    super.close();
  }
}
