/**
 * The layout of batches if a device stores the view's steps. Pack computes the columns that need no
 * fields, such as rewards and flags. For each field, pack writes a list of the places that the
 * batch needs, as indices on the device. The device gathers the field by this list. A step that the
 * device does not have yet is sent once, after the lists. native/rows/mirror.hpp has the rules
 * Mirror-1 to Mirror-4.
 */
import { roundUp } from '../../shm/memory.ts';
import type { StepField } from '../lanes/schema.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import {
  type BatchLayout,
  COLUMN_ALIGNMENT,
  type Column,
  columnBytes,
  goalsColumn,
  type PlacedColumn,
} from './columns.ts';
import type { ViewSpec } from './views.ts';

/**
 * A column that the device gathers. In each row, the field's values of `places` places follow each
 * other.
 */
export interface GatheredColumn {
  readonly field: StepField;
  readonly places: number;
  /** bytes from the start of the gathered batch */
  readonly at: number;
  /** offset of its list (int32 [rows × places]) in the bytes that are sent */
  readonly list: number;
  /**
   * for a goal that hindsight changes: the field that replaces it in some rows, and the offset of
   * that field's list
   */
  readonly instead: { readonly field: StepField; readonly list: number } | null;
}

export interface DeviceBatchLayout {
  /**
   * columns that are sent to the device. For a field, `at` is the offset of its list. Every other
   * column is sent itself
   */
  readonly made: BatchLayout;
  /** the gathered columns of fields, by name */
  readonly gathered: ReadonlyMap<string, GatheredColumn>;
  /** bytes of the gathered columns on the device */
  readonly gatheredBytes: number;
  /** `freshAt`: offset of the steps that are sent with a batch. `most`: the most steps that fit */
  readonly freshAt: number;
  readonly most: number;
}

/** Returns the largest number of distinct places that one row of a view needs. */
function placesOfRow({ kind, nStep, length, burnIn, stack, relabel }: ViewSpec): number {
  const frames = Math.max(1, ...Object.values(stack));
  if (kind === 'windows') return frames + burnIn + length;
  return relabel === null ? frames + Math.min(nStep, frames) : frames + nStep + 1;
}

/** Returns the layout of batches of `rows` rows, for a buffer of `places` places. */
export function deviceBatchLayout(
  columns: readonly Column[],
  spec: ViewSpec,
  rows: number,
  places: number,
): DeviceBatchLayout {
  let end = 0;
  const take = (bytes: number) => {
    const at = roundUp(end, COLUMN_ALIGNMENT);
    end = at + bytes;
    return at;
  };
  const lists = new Map<string, number>();
  const piecesOf = (column: Column) => columnBytes(column) / (column.field as StepField).bytes;
  const travels = (column: Column): PlacedColumn => {
    if (column.field === null) return { ...column, at: take(rows * columnBytes(column)) };
    // Columns that are copied from the same places share one list.
    const by = JSON.stringify([column.kind, column.frames, piecesOf(column)]);
    const at = lists.get(by) ?? take(4 * rows * piecesOf(column));
    lists.set(by, at);
    return { ...column, at };
  };
  const placed = columns.map(travels);
  const goals = spec.relabel === null ? null : travels(goalsColumn);
  const freshAt = roundUp(end, COLUMN_ALIGNMENT);
  end = 0;
  const gathered = new Map<string, GatheredColumn>();
  for (const column of placed) {
    const { field, goal } = column;
    if (field === null) continue;
    const instead = goal !== null && goals !== null ? { field: goal, list: goals.at } : null;
    const at = take(rows * columnBytes(column));
    gathered.set(column.key, { field, places: piecesOf(column), at, list: column.at, instead });
  }
  return {
    made: { columns: goals === null ? placed : [...placed, goals], bytes: freshAt },
    gathered,
    gatheredBytes: end,
    freshAt,
    most: Math.min(rows * placesOfRow(spec), places),
  };
}

/**
 * Returns the bytes of the record in which pack notes what the device stores
 * (native/rows/mirror.hpp).
 */
export const mirrorBytes = (places: number): number => rowsAddon().mirrorBytes(places);
/** Returns how many places have been sent to the device, counted over all batches. */
export function broughtTo(mirror: Float64Array): number {
  const { brought } = rowsAddon().layouts.mirror;
  return Number(Atomics.load(new BigUint64Array(mirror.buffer, mirror.byteOffset + brought, 1), 0));
}
