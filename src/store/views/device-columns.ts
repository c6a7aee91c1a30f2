/**
 * Batches of a view whose steps a device keeps. Pack makes the columns that follow from the notes
 * alone, and lists for every field where the device finds it, place by place. The device gathers by
 * these lists. Steps that it does not hold yet travel after the lists, once. Rules Mirror-1 to
 * Mirror-4 stand in native/rows/mirror.hpp.
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
  /** place of its list (int32 [rows × places]) in what travels, in bytes from the start */
  readonly list: number;
  /**
   * for a goal that hindsight changes: the field that takes its place in some rows, and the place
   * of that field's list
   */
  readonly instead: { readonly field: StepField; readonly list: number } | null;
}

export interface DeviceBatchLayout {
  /**
   * columns that travel: those that are not fields lie there, and a field has the place of its list
   */
  readonly made: BatchLayout;
  /** a field's columns, by name */
  readonly gathered: ReadonlyMap<string, GatheredColumn>;
  /** bytes that they take on the device */
  readonly gatheredBytes: number;
  /** where the steps that travel with a batch lie, and the most that fit */
  readonly freshAt: number;
  readonly most: number;
}

/** Returns the most distinct places that one row of a view asks for. */
function placesOfRow({ kind, nStep, length, burnIn, stack, relabel }: ViewSpec): number {
  const frames = Math.max(1, ...Object.values(stack));
  if (kind === 'windows') return frames + burnIn + length;
  return relabel === null ? frames + Math.min(nStep, frames) : frames + nStep + 1;
}

/** Lays out the columns of batches of `rows` rows, of a buffer of `places` places. */
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

/** Returns the bytes of pack's record of the places (native/rows/mirror.hpp). */
export const mirrorBytes = (places: number): number => rowsAddon().mirrorBytes(places);
/** Returns how many places ever traveled. */
export function broughtTo(mirror: Float64Array): number {
  const { brought } = rowsAddon().layouts.mirror;
  return Number(Atomics.load(new BigUint64Array(mirror.buffer, mirror.byteOffset + brought, 1), 0));
}
