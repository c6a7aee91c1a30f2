/**
 * Creates the batches that callers see, as tensors over the slots' device buffers and over the rows
 * and steps that a device keeps. Only the opener's thread uses them.
 */

import { typeError } from '../../base/errors.ts';
import { drawnFrom } from '../../base/loaded-actions.ts';
import { type Device, type DeviceEvent, type Storage, Tensor } from '../../device/device.ts';
import { type Owner, own } from '../../device/owner.ts';
import { MemoryStorage } from '../../device/storage.ts';
import type { DTypeIn, Fields } from '../../store/rows/fields.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { DeviceRows } from '../device-rows/device-rows.ts';
import { DeviceSteps } from '../device-rows/device-steps.ts';
import type { CheckedRing } from '../device-rows/options.ts';
import type { DeviceStore } from '../device-rows/statistics.ts';
import { HEAD_AT, HEAD_WORDS, ROWS_AT } from '../ring/slot.ts';
import { type BatchColumn, type BatchPlan, type BatchSource, stridedColumns } from './source.ts';

/**
 * A tick's rows on the device: one tensor per field of shape [rows, …field shape], strided by row.
 * The keys are those of add(). A field of masks of n actions is uint32 [rows, ⌈n / 32⌉]: bit i % 32
 * of word ⌊i / 32⌋ is 1 if action i is legal.
 */
export type Batch<F extends Fields = Fields> = {
  readonly [K in keyof F as K extends string ? K : never]-?: Tensor<DTypeIn<F, K>>;
};

/** Columns of trajectories other than the fields, as a captured function receives them. */
export interface Extras {
  /**
   * float32[rows], to read: importance weights. Undefined unless the pipeline draws by priorities
   */
  weights?: Tensor<'float32'> | undefined;
  /**
   * float32[rows], to write: |p| of each row. A row that is not written keeps its step's old
   * priority
   */
  priorities?: Tensor<'float32'> | undefined;
  /** float64[rows]: ids of the rows' steps */
  ids?: Tensor<'float64'> | undefined;
}

export interface Batches {
  readonly batches: readonly Batch[];
  /** null if rows travel with each batch */
  readonly deviceStore: DeviceStore | null;
  /**
   * the device's store of a ReplayBuffer, to which new rows are copied when they are added, else
   * null
   */
  readonly deviceRows: DeviceRows | null;
  /** event that is recorded after a manual tick's draw on the device, or null */
  readonly drawn: DeviceEvent | null;
  /** for a ReplayBuffer's rows on the device: the place in the ring of each row of the batch */
  readonly index: Tensor<'int32'> | undefined;
}

/**
 * Creates the batch of each slot. `slots` are the device buffers. `ring` describes the rows that a
 * device keeps, or is null if they travel.
 */
export function makeBatches(
  owner: Owner,
  given: {
    device: Device;
    /** the device object that callers see and may close */
    shown: Device;
    source: BatchSource;
    plan: BatchPlan;
    ring: CheckedRing | null;
    baseSeed: number;
    slots: readonly Tensor[];
  },
): Batches {
  const { device, shown, source, plan, ring, baseSeed, slots } = given;
  const { buffer, rows } = source;
  const planned = { buffer, columns: plan.columns, rows };
  const lent = slots.map((slot) => lend(slot.storage, shown));
  if (ring === null) {
    const batches = lent.map((storage) =>
      batchOf(planned, (column) => [storage, ROWS_AT + column.at]),
    );
    return { batches, deviceStore: null, deviceRows: null, drawn: null, index: undefined };
  }
  const heads = lent.map((storage) => new Tensor(storage, [HEAD_WORDS], 'int32', HEAD_AT));
  const drawn = own(owner, device.createEvent({ timing: false }));
  if (source.steps !== null) {
    const moved = slots.map((slot) => slot.view({ shape: [slot.size - ROWS_AT], offset: ROWS_AT }));
    const of = { device, checked: ring, layout: source.steps.layout, rows, slots: moved, heads };
    const deviceStore = own(owner, new DeviceSteps({ ...of, statistics: plan.statistics! }));
    const gathered = lend(deviceStore.batch.storage, shown);
    const batches = lent.map((storage) =>
      batchOf(planned, ({ at, isKept }) => (isKept ? [gathered, at] : [storage, ROWS_AT + at])),
    );
    return { batches, deviceStore, deviceRows: null, drawn, index: undefined };
  }
  const deviceRows = own(
    owner,
    new DeviceRows({
      device,
      buffer: buffer as ReplayBuffer,
      checked: ring,
      sampleCount: rows,
      baseSeed,
      heads,
    }),
  );
  // All slots share one batch, because the graph that reads it also gathers it.
  const gathered = lend(deviceRows.batch.storage, shown);
  const batch = batchOf(
    { ...planned, columns: stridedColumns(buffer as ReplayBuffer, ring.stride) },
    ({ at }) => [gathered, at],
  );
  const index = new Tensor(lend(deviceRows.places.storage, shown), [rows], 'int32');
  return { batches: slots.map(() => batch), deviceStore: deviceRows, deviceRows, drawn, index };
}

/**
 * Lends a slot's memory to callers. A caller that closes it gets an error, and a caller that closes
 * its device does not affect the pipeline.
 */
export function lend(storage: Storage, device: Device): MemoryStorage {
  const { handle, bytes, host, managed } = storage;
  return new MemoryStorage(device, handle, bytes, {
    host,
    managed,
    owner: 'pipeline',
    lender: storage,
  });
}

/**
 * Creates the prototype of a batch, which throws for a name that is not a field. Otherwise reading
 * such a name would return undefined, and the error would appear elsewhere.
 */
function missing(fields: readonly string[]): object {
  return new Proxy(Object.freeze({}), {
    get: (target, key) => {
      // JavaScript reads these names of any object, such as `then` for promises and `toJSON` for
      // JSON.
      if (typeof key === 'symbol' || key in Object.prototype || key === 'then' || key === 'toJSON')
        return Reflect.get(target, key) as unknown;
      throw typeError(`a batch has no field '${key}'; it has ${fields.join(', ')}`);
    },
  });
}

/**
 * Copies the tensors to an object that belongs to the caller. The caller may delete or swap its
 * names. Reading a name that is not a field still throws.
 */
export const ownBatch = (batch: Batch): Batch =>
  ({ __proto__: Object.getPrototypeOf(batch) as object, ...batch }) as Batch;

function batchOf(
  { buffer, columns, rows }: Pick<BatchSource, 'buffer' | 'rows'> & Pick<BatchPlan, 'columns'>,
  where: (column: BatchColumn) => [Storage, number],
): Batch {
  const batch = Object.create(missing(columns.map(({ key }) => key))) as Record<string, Tensor>;
  for (const column of columns) {
    const { key, dtype, shape, step } = column;
    const [storage, at] = where(column);
    const inner = new Tensor(storage, shape, dtype, at);
    batch[key] = new Tensor(storage, [rows, ...shape], dtype, at, [step, ...inner.strides]);
  }
  if (Object.hasOwn(batch, 'actions')) drawnFrom(batch.actions as Tensor, buffer);
  return Object.freeze(batch);
}
