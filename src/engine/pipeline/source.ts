/**
 * The source of batches: rows of a ReplayBuffer or a view of trajectories. It plans the layout of a
 * batch in a slot. The opener creates the source, and pack's thread attaches what the chosen plan
 * shares.
 */

import { describeValue } from '../../base/checks.ts';
import { type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { BellBoard } from '../../shm/bell.ts';
import { allocateShared } from '../../shm/memory.ts';
import { lanesAddon, type ViewHandle } from '../../store/lanes/lanes-addon.ts';
import type { SharedTrajectoryBuffer } from '../../store/lanes/shared-steps.ts';
import { internalsOfTrajectories, TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { checkBeta, internalsOfSampler, type PrioritizedSampler } from '../../store/prioritized.ts';
import { rowStride } from '../../store/rows/pack-layout.ts';
import {
  internalsOfBuffer,
  ReplayBuffer,
  type SharedReplayBuffer,
} from '../../store/rows/replay-buffer.ts';
import {
  type BatchLayout,
  columnsOf,
  placeColumns,
  viewNumbers,
} from '../../store/views/columns.ts';
import {
  broughtTo,
  type DeviceBatchLayout,
  deviceBatchLayout,
  mirrorBytes,
} from '../../store/views/device-columns.ts';
import type { View, ViewSpec } from '../../store/views/views.ts';
import type { RingStatistics } from '../device-rows/statistics.ts';
import type { HostBuffers } from '../ring/host-buffers.ts';
import type { Ring } from '../ring/ring.ts';

/**
 * The layout of one tensor of a batch. The tensor has one value of `shape` for each row. Each value
 * begins `step` elements after the value before.
 */
export interface BatchColumn {
  readonly key: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** bytes from the start of the batch */
  readonly at: number;
  readonly step: number;
  /** whether the column is gathered on the device and is not in a slot */
  readonly isKept?: boolean;
}

/** Returns the columns of a batch whose rows are `stride` bytes apart. */
export function stridedColumns(buffer: ReplayBuffer, stride: number): BatchColumn[] {
  return Object.values(buffer.layout.fields).map(({ key, dtype, shape, offset }) => ({
    key,
    dtype,
    shape,
    at: offset,
    step: stride / dtypes[dtype].bytes,
  }));
}

/** A view, with all that native code needs to draw and pack its batches. */
export interface SharedView {
  readonly kind: 'view';
  readonly buffer: SharedTrajectoryBuffer;
  readonly rule: Float64Array;
  readonly columns: Float64Array;
  /** null if draws are uniform */
  readonly tree: Float64Array | null;
  readonly normalize: number;
  /** offset of the ids in a batch, in bytes */
  readonly idsAt: number;
  /**
   * how pack treats steps that a device keeps, or null if all steps travel. `mirror` is pack's
   * record of the kept steps. `freshAt` is the offset in a batch of the steps that travel, and
   * `most` how many fit
   */
  readonly kept: {
    readonly mirror: Float64Array;
    readonly freshAt: number;
    readonly most: number;
  } | null;
}
export type SharedSource =
  | { readonly kind: 'rows'; readonly buffer: SharedReplayBuffer }
  | SharedView;

/** Returns the bells of the buffer, which are rung after every commit. */
export function bellsOf(source: SharedSource): BellBoard {
  return source.kind === 'rows'
    ? internalsOfBuffer(ReplayBuffer.attach(source.buffer)).bells
    : internalsOfTrajectories(TrajectoryBuffer.attach(source.buffer)).bells;
}

/** The layout of a batch in a slot, and what pack's thread needs to create it. */
export interface BatchPlan {
  /** number of bytes of a batch in a slot */
  readonly bytes: number;
  readonly columns: readonly BatchColumn[];
  readonly share: SharedSource;
  /**
   * returns the statistics of the steps that a device keeps. Null if all rows travel with a batch
   */
  readonly statistics: (() => RingStatistics) | null;
}

/** Layout of a view whose steps a device keeps. */
export interface StepsLayout {
  readonly layout: DeviceBatchLayout;
  readonly places: number;
  readonly placeBytes: number;
  /** bytes that a traveling step takes: its padded row, and the index of its place */
  readonly stepBytes: number;
}

const idsIn = ({ columns }: BatchLayout): number => columns.find(({ key }) => key === 'ids')!.at;
const columnsIn = ({ columns }: BatchLayout): BatchColumn[] =>
  columns.map(({ key, dtype, shape, at }) => ({
    key,
    dtype,
    shape,
    at,
    step: elementCount(shape),
  }));

interface SourceOptions {
  buffer: ReplayBuffer | TrajectoryBuffer;
  view?: View | undefined;
  sampler?: PrioritizedSampler | undefined;
  beta?: number | undefined;
  sampleCount: number;
}

export class BatchSource {
  readonly buffer: ReplayBuffer | TrajectoryBuffer;
  readonly bells: BellBoard;
  /** names of the fields, for the trace */
  readonly names: readonly string[];
  readonly rows: number;
  /** plan of batches that travel whole in a slot */
  readonly plan: BatchPlan;
  /** layout of a view whose steps a device keeps, null for rows */
  readonly steps: StepsLayout | null;
  /** bytes of the priorities that are read back with a batch, 0 for uniform draws */
  readonly priorityBytes: number;
  readonly beta: number;
  readonly #view: View | null;
  readonly #spec: ViewSpec | null;
  readonly #sampler: PrioritizedSampler | null;
  readonly #handle: ViewHandle | null;

  /** Checks that the options fit together, and binds the sampler to the view. */
  constructor({ buffer, view, sampler, beta = 0.4, sampleCount }: SourceOptions) {
    this.buffer = buffer;
    this.rows = sampleCount;
    this.beta = checkBeta(beta);
    this.#view = view ?? null;
    this.#sampler = sampler ?? null;
    if (buffer instanceof ReplayBuffer) {
      for (const [name, value] of Object.entries({ view, sampler }))
        if (value !== undefined)
          throw rangeError(`${name} needs a TrajectoryBuffer; a ReplayBuffer is sampled uniformly`);
      const { fields, rowBytes } = buffer.layout;
      this.bells = internalsOfBuffer(buffer).bells;
      this.names = Object.keys(fields);
      this.plan = {
        bytes: sampleCount * rowBytes,
        columns: stridedColumns(buffer, rowBytes),
        share: { kind: 'rows', buffer: buffer.share() },
        statistics: null,
      };
      this.steps = this.#spec = this.#handle = null;
      this.priorityBytes = 0;
      return;
    }
    if (!(buffer instanceof TrajectoryBuffer))
      throw typeError(
        `buffer must be a ReplayBuffer or a TrajectoryBuffer, got ${describeValue(buffer)}`,
      );
    if (view === undefined)
      throw typeError(
        'a TrajectoryBuffer needs a view: buffer.transitions({ … }) or buffer.windows({ … })',
      );
    const { bells, reader } = internalsOfTrajectories(buffer as TrajectoryBuffer);
    const spec = reader.checkView(view);
    const bound = sampler === undefined ? null : reader.bind(sampler, view);
    const columns = columnsOf(buffer.layout, spec, sampler === undefined ? 'no' : 'device');
    const layout = placeColumns(columns, sampleCount);
    const { capacity: places } = buffer;
    const { placeBytes } = buffer.layout;
    this.steps = {
      layout: deviceBatchLayout(columns, spec, sampleCount, places),
      places,
      placeBytes,
      stepBytes: rowStride(placeBytes) + 4,
    };
    this.bells = bells;
    this.names = layout.columns.map(({ key }) => key);
    this.plan = {
      bytes: layout.bytes,
      columns: columnsIn(layout),
      share: {
        kind: 'view',
        buffer: buffer.share(),
        ...viewNumbers(spec, layout),
        tree: bound?.tree ?? null,
        normalize: sampler === undefined ? 0 : internalsOfSampler(sampler).normalize,
        idsAt: idsIn(layout),
        kept: null,
      },
      statistics: null,
    };
    this.#spec = spec;
    this.#handle = bound?.handle ?? null;
    this.priorityBytes = sampler === undefined ? 0 : 4 * sampleCount;
  }

  /**
   * Returns the plan of a view whose steps a device keeps. A batch then brings only the steps that
   * are new to the device. Allocates pack's record of the device's steps.
   */
  planRetained(): BatchPlan {
    const { layout, places, placeBytes, stepBytes } = this.steps!;
    const { gathered, made, freshAt, most } = layout;
    const bytes = mirrorBytes(places);
    const { memory, offset } = allocateShared(
      `the notes of ${places} places on the device`,
      bytes,
      64,
    );
    const mirror = new Float64Array(memory, offset, bytes / 8);
    const buffer = this.buffer as TrajectoryBuffer;
    return {
      bytes: freshAt + most * stepBytes,
      columns: columnsIn(made).flatMap((column) => {
        const kept = gathered.get(column.key);
        if (kept) return { ...column, at: kept.at, isKept: true };
        return this.names.includes(column.key) ? column : [];
      }),
      share: {
        ...(this.plan.share as SharedView),
        ...viewNumbers(this.#spec!, made),
        idsAt: idsIn(made),
        kept: { mirror, freshAt, most },
      },
      statistics: () => {
        const { ptr: visible, size } = buffer;
        const ingestedRows = broughtTo(mirror);
        return {
          visible,
          low: visible - size,
          drawable: buffer.drawable(this.#view!),
          ingestedRows,
          ingestedBytes: ingestedRows * rowStride(placeBytes),
          droppedRows: 0,
        };
      },
    };
  }

  /**
   * Returns the object that applies read-back priorities, or null if draws are uniform. `plan` is a
   * plan of this source.
   */
  updates({ share }: BatchPlan): PriorityUpdates | null {
    return this.#handle === null
      ? null
      : new PriorityUpdates(this.#handle, share as SharedView, this.rows);
  }

  /**
   * Returns the keys of the columns other than fields that a captured function receives separately.
   */
  get extras(): readonly string[] {
    if (this.#view === null) return [];
    return this.#sampler === null ? ['ids'] : ['ids', 'weights', 'priorities'];
  }
  get prioritized(): boolean {
    return this.#sampler !== null;
  }

  /**
   * Reserves the sampler for this pipeline. Its tree counts the priority updates of each pipeline
   * anew, so it then expects the update of this pipeline's first batch (sequence 0).
   */
  take(): void {
    if (this.#sampler === null) return;
    internalsOfSampler(this.#sampler).running = true;
    lanesAddon().beginUpdates((this.plan.share as SharedView).tree!, 0);
  }
  /** Releases the sampler. Idempotent. */
  release(): void {
    if (this.#sampler) internalsOfSampler(this.#sampler).running = false;
  }

  /**
   * Sets the exponent of importance weights from the next request on. Throws if draws are uniform.
   */
  setBeta(ring: Ring, beta: number): void {
    checkBeta(beta);
    if (!this.prioritized)
      throw rangeError(
        'setBeta() needs importance weights; open the pipeline with a prioritized sampler',
      );
    ring.setBeta(beta);
  }

  /** Returns as text what is missing for the next batch if nothing can be drawn. */
  waitingFor(): string {
    const { ptr } = this.buffer;
    if (this.#view === null) return `rows: ${ptr} were added so far`;
    const buffer = this.buffer as TrajectoryBuffer;
    const drawable = buffer.drawable(this.#view);
    if (drawable > 0 && this.#sampler)
      return `priorities: those of all ${drawable} drawable steps are zero`;
    return `steps: ${drawable} of ${buffer.size} in ${buffer.lanes} lanes are drawable by the view (${ptr} were added so far)`;
  }

  /** Throws if the buffer is empty and the manual tick would not wait for rows. */
  checkFilled(minPtr: number): void {
    if (minPtr > 0 || this.buffer.size > 0) return;
    throw stateError(
      'EMPTY',
      'the replay buffer is empty: add rows first, or give minSnapshotPtr: 1 to wait for them',
    );
  }
}

/**
 * Applies priorities that were read back with batches to the tree. This class is the opener's side.
 * During ticks, pack applies them.
 */
export class PriorityUpdates {
  readonly #handle: ViewHandle;
  readonly #tree: Float64Array;
  readonly #idsAt: number;
  readonly #rows: number;

  constructor(handle: ViewHandle, { tree, idsAt }: SharedView, rows: number) {
    this.#handle = handle;
    this.#tree = tree!;
    this.#idsAt = idsAt;
    this.#rows = rows;
  }

  /** The first sequence whose priorities are not in the tree. */
  get applied(): number {
    const facts = new Float64Array(6);
    lanesAddon().inspectTree(this.#handle, false, undefined, facts);
    return facts[5]!;
  }
  /** Makes the tree of a restored pipeline expect the update of sequence `applied` next. */
  goOn(applied: number): void {
    lanesAddon().beginUpdates(this.#tree, applied);
  }
  /** Returns copies of the ids and priorities of the slot's last batch, which were read back. */
  readBack(
    hostBuffers: HostBuffers,
    slot: number,
  ): { ids: Float64Array; priorities: Float32Array } {
    return {
      ids: this.#ids(hostBuffers, slot).slice(),
      priorities: hostBuffers.priorities(slot).slice(),
    };
  }
  /** Writes ids and priorities to the slot's host buffer, as if they had just been read back. */
  writeBack(
    hostBuffers: HostBuffers,
    slot: number,
    update: { ids: Float64Array; priorities: Float32Array },
  ): void {
    this.#ids(hostBuffers, slot).set(update.ids);
    hostBuffers.priorities(slot).set(update.priorities);
  }
  /**
   * Applies the priorities of the batches in `spent` that no draw has applied, in the order of
   * sequences. `spent` is the result of Slots.readBack(). Call it after pack has stopped.
   */
  applyPending(
    hostBuffers: HostBuffers,
    spent: readonly { slot: number; sequence: number }[],
  ): void {
    const { applied } = this;
    for (const { slot, sequence } of [...spent].sort((a, b) => a.sequence - b.sequence)) {
      if (sequence < applied) continue;
      lanesAddon().updateTree(
        this.#handle,
        this.#ids(hostBuffers, slot),
        hostBuffers.priorities(slot),
        this.#rows,
      );
      lanesAddon().beginUpdates(this.#tree, sequence + 1);
    }
  }

  #ids(hostBuffers: HostBuffers, slot: number): Float64Array {
    return hostBuffers.ids(slot, this.#idsAt, this.#rows);
  }
}
