/**
 * Batches of a view whose steps a device keeps. Pack makes what follows from the notes alone, and
 * says of every field where the device finds it, place by place; the device gathers by these lists.
 * What it does not hold yet travels behind them, once. Rules Mirror-1 to Mirror-4 stand in
 * native/rows/mirror.hpp.
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

/** A column that the device gathers: `places` pieces a row. */
export interface GatheredColumn {
  readonly field: StepField;
  readonly places: number;
  /** bytes from the start of the gathered batch */
  readonly at: number;
  /** bytes from the start of what travels: where its list lies (int32 [rows × places]) */
  readonly list: number;
  /**
   * of a goal that hindsight changes: the field that takes its place in some rows, and where that
   * one's list lies
   */
  readonly instead: { readonly field: StepField; readonly list: number } | null;
}

export interface DeviceBatchLayout {
  /** what travels: columns that are no fields lie there, a field's place is that of its list */
  readonly made: BatchLayout;
  /** a field's columns, by name */
  readonly gathered: ReadonlyMap<string, GatheredColumn>;
  /** bytes that they take on the device */
  readonly gatheredBytes: number;
  /** where the steps lie that travel with a batch, and how many there is room for */
  readonly freshAt: number;
  readonly most: number;
}

/** Places that one row of a view asks for, no two alike, at most. */
function placesOfRow({ kind, nStep, length, burnIn, stack, relabel }: ViewSpec): number {
  const frames = Math.max(1, ...Object.values(stack));
  if (kind === 'windows') return frames + burnIn + length;
  return relabel === null ? frames + Math.min(nStep, frames) : frames + nStep + 1;
}

/** Columns of batches of so many rows, of a buffer of so many places. */
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
    // Columns that are made of the same places have one list.
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

/** Bytes of what pack knows of the places: native/rows/mirror.hpp draws it. */
export const mirrorBytes = (places: number): number => rowsAddon().mirrorBytes(places);
/** Places that ever travelled. */
export function broughtTo(mirror: Float64Array): number {
  const { brought } = rowsAddon().layouts.mirror;
  return Number(Atomics.load(new BigUint64Array(mirror.buffer, mirror.byteOffset + brought, 1), 0));
}
