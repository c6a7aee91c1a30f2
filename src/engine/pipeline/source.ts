/**
 * The source of batches, rows of a replay buffer or a view of trajectories, and the plans of how a
 * batch lies in a slot. The opener makes it, and pack's thread takes up what the chosen plan
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

/** A batch's tensor: `rows` values of this shape, one every `step` elements. */
export interface BatchColumn {
  readonly key: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** bytes from the start of the batch */
  readonly at: number;
  readonly step: number;
  /** it is gathered on the device, and does not lie in a slot */
  readonly isKept?: boolean;
}

/** Columns of rows that lie a stride apart, from the start of a batch. */
export function stridedColumns(buffer: ReplayBuffer, stride: number): BatchColumn[] {
  return Object.values(buffer.layout.fields).map(({ key, dtype, shape, offset }) => ({
    key,
    dtype,
    shape,
    at: offset,
    step: stride / dtypes[dtype].bytes,
  }));
}

/** A view, with everything that native code draws and packs by. */
export interface SharedView {
  readonly kind: 'view';
  readonly buffer: SharedTrajectoryBuffer;
  readonly rule: Float64Array;
  readonly columns: Float64Array;
  /** null: uniform */
  readonly tree: Float64Array | null;
  readonly normalize: number;
  /** where a batch's ids lie in it, in bytes */
  readonly idsAt: number;
  /**
   * steps that a device keeps: what pack knows of them, where the steps lie that travel with a
   * batch, and how many can, or null if all travel
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

/** Returns the bells that are rung after every commit. */
export function bellsOf(source: SharedSource): BellBoard {
  return source.kind === 'rows'
    ? internalsOfBuffer(ReplayBuffer.attach(source.buffer)).bells
    : internalsOfTrajectories(TrajectoryBuffer.attach(source.buffer)).bells;
}

/** How a batch lies in a slot, and what pack's thread needs to make it. */
export interface BatchPlan {
  /** of a batch, as it lies in a slot */
  readonly bytes: number;
  readonly columns: readonly BatchColumn[];
  readonly share: SharedSource;
  /** of steps that a device keeps: how far that has come, or null if all travels with a batch */
  readonly statistics: (() => RingStatistics) | null;
}

/** Layout of a view whose steps a device keeps. */
export interface StepsLayout {
  readonly layout: DeviceBatchLayout;
  readonly places: number;
  readonly placeBytes: number;
  /** bytes of a step that travels, with what fills its stride up, and its place */
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
  /** of the fields, as the trace lists them */
  readonly names: readonly string[];
  readonly rows: number;
  /** for batches that travel whole in a slot */
  readonly plan: BatchPlan;
  /** layout of a view for a device that keeps its steps, null for rows */
  readonly steps: StepsLayout | null;
  /** bytes of the priorities that come back with a batch, 0 without */
  readonly priorityBytes: number;
  readonly beta: number;
  readonly #view: View | null;
  readonly #spec: ViewSpec | null;
  readonly #sampler: PrioritizedSampler | null;
  readonly #handle: ViewHandle | null;

  /** Checks that the options fit together, and binds the sampler. */
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
   * Plans a view whose steps a device keeps: a batch brings those that are new there. Allocates
   * what pack knows of the device.
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
   * Returns the priorities' way back for a plan of this source, or null if steps are drawn
   * uniformly.
   */
  updates({ share }: BatchPlan): PriorityUpdates | null {
    return this.#handle === null
      ? null
      : new PriorityUpdates(this.#handle, share as SharedView, this.rows);
  }

  /** Returns the columns other than fields that a capture is given by themselves. */
  get extras(): readonly string[] {
    if (this.#view === null) return [];
    return this.#sampler === null ? ['ids'] : ['ids', 'weights', 'priorities'];
  }
  get prioritized(): boolean {
    return this.#sampler !== null;
  }

  /** The pipeline draws by the sampler from here on, and nobody else. Sequences begin at 0. */
  take(): void {
    if (this.#sampler === null) return;
    internalsOfSampler(this.#sampler).running = true;
    lanesAddon().beginUpdates((this.plan.share as SharedView).tree!, 0);
  }
  /** Twice is fine. */
  release(): void {
    if (this.#sampler) internalsOfSampler(this.#sampler).running = false;
  }

  /** Sets beta of requests from the next one on. Throws if steps are drawn uniformly. */
  setBeta(ring: Ring, beta: number): void {
    checkBeta(beta);
    if (!this.prioritized)
      throw rangeError(
        'setBeta() needs importance weights; open the pipeline with a prioritized sampler',
      );
    ring.setBeta(beta);
  }

  /** Says in words what the next batch waits for when nothing can be drawn. */
  waitingFor(): string {
    const { ptr } = this.buffer;
    if (this.#view === null) return `rows: ${ptr} were added so far`;
    const buffer = this.buffer as TrajectoryBuffer;
    const drawable = buffer.drawable(this.#view);
    if (drawable > 0 && this.#sampler)
      return `priorities: those of all ${drawable} drawable steps are zero`;
    return `steps: ${drawable} of ${buffer.size} in ${buffer.lanes} lanes are drawable by the view (${ptr} were added so far)`;
  }

  /** Throws if a manual tick could never be had without more steps. */
  checkFilled(minPtr: number): void {
    if (minPtr > 0 || this.buffer.size > 0) return;
    throw stateError(
      'EMPTY',
      'the replay buffer is empty: add rows first, or give minSnapshotPtr: 1 to wait for them',
    );
  }
}

/**
 * Priorities that came back with batches, on their way into the tree. This is the opener's part,
 * and pack takes up the others.
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

  /** Updates of sequences before this one are in the tree. */
  get applied(): number {
    const facts = new Float64Array(6);
    lanesAddon().inspectTree(this.#handle, false, undefined, facts);
    return facts[5]!;
  }
  /** A restored tree goes on with the updates from this sequence on. */
  goOn(applied: number): void {
    lanesAddon().beginUpdates(this.#tree, applied);
  }
  /** Returns the ids and priorities that came home with the slot's last batch. */
  readBack(
    hostBuffers: HostBuffers,
    slot: number,
  ): { ids: Float64Array; priorities: Float32Array } {
    return {
      ids: this.#ids(hostBuffers, slot).slice(),
      priorities: hostBuffers.priorities(slot).slice(),
    };
  }
  /** Writes the same back, as if it had come home just now. */
  writeBack(
    hostBuffers: HostBuffers,
    slot: number,
    update: { ids: Float64Array; priorities: Float32Array },
  ): void {
    this.#ids(hostBuffers, slot).set(update.ids);
    hostBuffers.priorities(slot).set(update.priorities);
  }
  /**
   * Applies, in order, the priorities that came home and were not taken up by a later draw. Pack
   * has stopped.
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
