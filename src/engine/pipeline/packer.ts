/**
 * Packers, which draw and pack a batch. For rows or a view on the host, native code does this. If a
 * ReplayBuffer's rows live on the device, the packer only writes a head. Only pack's thread uses
 * them.
 */
import { answered, loadAddon } from '../../base/addon.ts';
import { nowMs } from '../../base/clock.ts';
import type { BellBoard } from '../../shm/bell.ts';
import { internalsOfTrajectories, TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { RateLimiter } from '../../store/rate-limiter.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { AttachedDeviceRows } from '../device-rows/attached.ts';
import { writeHead } from '../device-rows/head.ts';
import type { HostBuffers } from '../ring/host-buffers.ts';
import { Field, PACKED, Param, ROWS_AT } from '../ring/slot.ts';
import type { SharedSource, SharedView } from './source.ts';

/**
 * Results of pack(). `waits`: the batch cannot be drawn yet. `done`: the batch is packed. `more`:
 * call pack() again.
 */
export const Packing = { waits: 0, done: 1, more: 2 } as const;

export interface Packer {
  /**
   * whether a batch that an earlier run drew must be packed again, because it is not in the host
   * buffer
   */
  readonly packsAgain?: boolean;
  readonly limiter: RateLimiter | null;
  /**
   * bells of all threads that wait for rows of this buffer. They are also rung when the limiter
   * gets rows back
   */
  readonly bells: BellBoard;
  /** returns true if a batch can be drawn now */
  filled(): boolean;
  /**
   * draws and packs the batch that the slot's record requests, completes the record, and returns a
   * Packing
   */
  pack(slot: number, record: Float64Array): number;
}

interface RowsPacker {
  pack(slot: number, seed: number, rows: number, minPtr: number): number;
}
interface ViewPacker {
  filled(): boolean;
  /**
   * packs a batch. If the batch in the slot is packed again, `brought` is the number of steps that
   * it brought. −1 draws a new batch
   */
  pack(
    slot: number,
    seed: number,
    rows: number,
    minPtr: number,
    beta: number,
    sequence: number,
    brought: number,
  ): number;
}
interface PackAddon {
  Packer: new (
    buffer: Float64Array,
    slots: Uint8Array,
    firstRow: number,
    stride: number,
    report: Float64Array,
  ) => RowsPacker;
  ViewPacker: new (given: {
    lanes: Float64Array;
    slots: Uint8Array;
    firstRow: number;
    stride: number;
    report: Float64Array;
    rule: Float64Array;
    columns: Float64Array;
    tree: Float64Array | null;
    normalize: number;
    idsAt: number;
    prioritiesAt: number;
    depth: number;
    kept: SharedView['kept'];
  }) => ViewPacker;
}

export function attachPacker(
  source: SharedSource,
  hostBuffers: HostBuffers,
  depth: number,
): Packer {
  return source.kind === 'rows'
    ? rowsPacker(ReplayBuffer.attach(source.buffer), hostBuffers)
    : viewPacker(source, hostBuffers, depth);
}

/**
 * The part of the ingest that the packer of heads uses. mayDraw() returns whether a tick may draw
 * now (DeviceRows-5). The first ticks wait until `until` rows are on the device.
 */
interface Orders {
  mayDraw(visible: number): boolean;
  readonly until: number;
}

/**
 * Creates the packer for rows that live on the device. Its batch is a head, from which the device
 * draws the tick's rows.
 */
export function headPacker(
  { words, shared, buffer }: AttachedDeviceRows,
  hostBuffers: HostBuffers,
  ingest: Orders,
): Packer {
  const { places, guard, baseSeed } = shared;
  return {
    packsAgain: true,
    limiter: buffer.limiter,
    bells: internalsOfBuffer(buffer).bells,
    filled: () => {
      const { visible } = words;
      return visible > words.low && visible >= ingest.until;
    },
    pack: (slot, record) => {
      const params = hostBuffers.params(slot);
      // `visible` is read before `low`: if poll changes both in between, `low` only excludes more
      // rows.
      const { visible } = words;
      const { low } = words;
      // A batch of an earlier run needs a new head if the device no longer has all rows of its
      // head.
      const oldestKept = params[Param.low] as number;
      const kept =
        record[Field.minPtr] === PACKED && oldestKept >= Math.max(low, words.begun - places);
      const until = kept ? (params[Param.snapshotPtr] as number) : visible;
      if (visible < Math.max(ingest.until, kept ? until : (record[Field.minPtr] as number)))
        return Packing.waits;
      const oldest = kept ? oldestKept : Math.max(low, visible - (places - guard));
      // mayDraw() gets the value of `visible` from which the head is made, because poll may have
      // increased `visible` since.
      if (until <= oldest || !ingest.mayDraw(visible)) return Packing.waits;
      const span = until - oldest;
      params[Param.low] = oldest;
      writeHead(hostBuffers.head(slot), {
        seed: baseSeed,
        tick: record[Field.tick] as number,
        low: oldest,
        span,
        places,
      });
      record[Field.snapshotPtr] = until;
      record[Field.snapshotSize] = span;
      record[Field.packBegin] = record[Field.packEnd] = nowMs();
      record[Field.drawnAgain] = record[Field.stale] = record[Field.maxPriority] = 0;
      return Packing.done;
    },
  };
}

const requested = (record: Float64Array) =>
  [record[Field.seed], record[Field.rows], record[Field.minPtr]] as [number, number, number];

/**
 * The record's field for each value that a packer reports, in the order of the report. A packer of
 * rows leaves the last three at zero.
 */
const REPORTED = [
  Field.snapshotPtr,
  Field.snapshotSize,
  Field.packBegin,
  Field.packEnd,
  Field.drawnAgain,
  Field.stale,
  Field.maxPriority,
];
/** Index in the report of the number of steps that a batch of a view brings to the device. */
const BROUGHT_AT = REPORTED.length;

function complete(record: Float64Array, report: Float64Array): void {
  for (let i = 0; i < REPORTED.length; i++) record[REPORTED[i]!] = report[i]!;
}

function rowsPacker(buffer: ReplayBuffer, hostBuffers: HostBuffers): Packer {
  const { Packer } = loadAddon<PackAddon>('pack');
  const report = new Float64Array(REPORTED.length);
  const packer = new Packer(
    internalsOfBuffer(buffer).memory,
    hostBuffers.memory,
    ROWS_AT,
    hostBuffers.stride,
    report,
  );
  let filled = false;
  return {
    limiter: buffer.limiter,
    bells: internalsOfBuffer(buffer).bells,
    // After the first row, a ReplayBuffer never becomes empty again.
    filled: () => {
      filled ||= buffer.ptr > 0;
      return filled;
    },
    pack: (slot, record) => {
      const packing = answered(packer.pack(slot, ...requested(record)));
      if (packing === Packing.done) complete(record, report);
      return packing;
    },
  };
}

function viewPacker(source: SharedView, hostBuffers: HostBuffers, depth: number): Packer {
  const buffer = TrajectoryBuffer.attach(source.buffer);
  const { ViewPacker } = loadAddon<PackAddon>('pack');
  const report = new Float64Array(BROUGHT_AT + 1);
  const { rule, columns, tree, normalize, idsAt, kept } = source;
  const packer = new ViewPacker({
    lanes: internalsOfTrajectories(buffer).memory,
    slots: hostBuffers.memory,
    firstRow: ROWS_AT,
    stride: hostBuffers.stride,
    report,
    rule,
    columns,
    tree,
    normalize,
    idsAt,
    prioritiesAt: hostBuffers.prioritiesAt,
    depth,
    kept,
  });
  return {
    // If the device keeps steps, a batch of an earlier run must be packed again: its steps are not
    // on this device.
    packsAgain: kept !== null,
    limiter: buffer.limiter,
    bells: internalsOfTrajectories(buffer).bells,
    filled: () => answered(packer.filled()),
    pack: (slot, record) => {
      const { beta, sequence } = Field;
      const head = hostBuffers.head(slot);
      const before = kept && record[Field.minPtr] === PACKED ? (head[0] as number) : -1;
      const packing = answered(
        packer.pack(
          slot,
          ...requested(record),
          record[beta] as number,
          record[sequence] as number,
          before,
        ),
      );
      if (packing !== Packing.done) return packing;
      complete(record, report);
      if (kept) head[0] = report[BROUGHT_AT]!;
      return packing;
    },
  };
}
