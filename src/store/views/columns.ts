/**
 * The columns of a view's batch: the offset of each column, and the numbers that describe it to
 * native code.
 */
import { type DType, dtypes, elementCount, type TypedArray } from '../../base/dtype.ts';
import { unpackMasks } from '../../base/mask-bits.ts';
import { roundUp } from '../../shm/memory.ts';
import { nextKey, type StepField, type StepLayout } from '../lanes/schema.ts';
import type { ViewSpec } from './views.ts';

/** The number of each kind of column, as in native/rows/view.hpp. */
const Kind = {
  now: 0,
  next: 1,
  achieved: 2,
  rewards: 3,
  discounts: 4,
  terminated: 5,
  truncated: 6,
  steps: 7,
  ids: 8,
  weights: 9,
  weightsWide: 10,
  probabilities: 11,
  mask: 12,
  learn: 13,
  relabelled: 14,
  priorities: 15,
  goals: 16,
} as const;

/** One column of a batch: a dense array with a value of this shape per row. */
export interface Column {
  readonly key: string;
  readonly dtype: DType;
  /** shape of one row's value */
  readonly shape: readonly number[];
  readonly kind: number;
  /** field from which the column is copied, or null for a computed column */
  readonly field: StepField | null;
  readonly frames: number;
  readonly zero: boolean;
  /** for a goal: the field of achieved goals that replaces it in relabeled rows, or null */
  readonly goal: StepField | null;
}

/** A column, and its offset in a batch with a certain number of rows. */
export interface PlacedColumn extends Column {
  /** bytes from the start of the batch */
  readonly at: number;
}

export interface BatchLayout {
  readonly columns: readonly PlacedColumn[];
  readonly bytes: number;
}

/**
 * Alignment of columns in bytes. Devices copy aligned columns fastest, and kernels read them by
 * vectors.
 */
export const COLUMN_ALIGNMENT = 256;

const derived = (
  key: string,
  kind: number,
  dtype: DType,
  shape: readonly number[] = [],
): Column => ({
  key,
  dtype,
  shape,
  kind,
  field: null,
  frames: 1,
  zero: false,
  goal: null,
});

/**
 * The column of indices at which a device finds the goals of relabeled rows. A program's batch does
 * not have this column.
 */
export const goalsColumn = derived('goals', Kind.goals, 'int32');

/**
 * The weights of a batch: none ('no'), float64 with probabilities ('host'), or float32 with
 * priorities ('device').
 */
export type Weighted = 'no' | 'host' | 'device';

/** Returns the columns of a view, in the order in which a batch lists and stores them. */
export function columnsOf(layout: StepLayout, spec: ViewSpec, weighted: Weighted): Column[] {
  const windows = spec.kind === 'windows';
  const steps = windows ? [spec.burnIn + spec.length] : [];
  const columns = layout.fields.flatMap((field): Column[] => {
    const frames = spec.stack[field.key] ?? 1;
    const stacked = spec.stack[field.key] === undefined ? field.shape : [frames, ...field.shape];
    const goal =
      spec.relabel?.goal === field.key
        ? layout.fields.find(({ key }) => key === spec.relabel?.achieved)!
        : null;
    const made = { dtype: field.dtype, field, frames, zero: spec.pad === 'zero', goal };
    if (!field.observation)
      return [{ ...made, key: field.key, kind: Kind.now, shape: [...steps, ...stacked] }];
    if (windows)
      return [{ ...made, key: field.key, kind: Kind.now, shape: [steps[0]! + 1, ...stacked] }];
    return [
      { ...made, key: field.key, kind: Kind.now, shape: stacked },
      { ...made, key: nextKey(field.key), kind: Kind.next, shape: stacked },
    ];
  });
  columns.push(derived('rewards', Kind.rewards, 'float32', steps));
  if (!windows) columns.push(derived('discounts', Kind.discounts, 'float32'));
  columns.push(
    derived('terminated', Kind.terminated, 'bool', steps),
    derived('truncated', Kind.truncated, 'bool', steps),
  );
  if (windows)
    columns.push(
      derived('mask', Kind.mask, 'float32', steps),
      derived('learn', Kind.learn, 'float32', steps),
    );
  columns.push(derived('steps', Kind.steps, 'int32'), derived('ids', Kind.ids, 'float64'));
  if (spec.relabel) {
    const achieved = layout.fields.find(({ key }) => key === spec.relabel?.achieved)!;
    const shape = [spec.nStep, ...achieved.shape];
    columns.push(derived('relabelled', Kind.relabelled, 'bool'), {
      ...derived('nextAchieved', Kind.achieved, achieved.dtype, shape),
      field: achieved,
    });
  }
  if (weighted === 'host')
    columns.push(
      derived('weights', Kind.weightsWide, 'float64'),
      derived('probabilities', Kind.probabilities, 'float64'),
    );
  if (weighted === 'device')
    columns.push(
      derived('weights', Kind.weights, 'float32'),
      derived('priorities', Kind.priorities, 'float32'),
    );
  return columns;
}

/** Returns the bytes of one row of a column. */
export const columnBytes = ({ dtype, shape }: Column): number =>
  elementCount(shape) * dtypes[dtype].bytes;

/** Places columns one after the other, and returns their offsets in a batch of `rows` rows. */
export function placeColumns(columns: readonly Column[], rows: number): BatchLayout {
  let end = 0;
  const placed = columns.map((column) => {
    const at = roundUp(end, COLUMN_ALIGNMENT);
    end = at + rows * columnBytes(column);
    return { ...column, at };
  });
  return { columns: placed, bytes: end };
}

/**
 * Returns the rule of a view and its columns as numbers for native code
 * (native/rows/view_arguments.hpp).
 */
export function viewNumbers(
  spec: ViewSpec,
  layout: BatchLayout,
): { rule: Float64Array; columns: Float64Array } {
  const frames = Math.max(1, ...Object.values(spec.stack));
  const edges =
    spec.kind === 'transitions' ? 0 : ({ full: 1, tail: 2, anchor: 3 } as const)[spec.edges];
  const relabel = spec.relabel
    ? ({ future: 1, final: 2, episode: 3 } as const)[spec.relabel.strategy]
    : 0;
  const { nStep, gamma, length, burnIn } = spec;
  const rule = Float64Array.of(
    edges,
    nStep,
    gamma,
    length,
    burnIn,
    frames,
    relabel,
    spec.relabel?.ratio ?? 0,
  );
  const columns = layout.columns.flatMap(({ kind, field, frames: stacked, zero, goal, at }) => [
    kind,
    field?.offset ?? 0,
    field?.bytes ?? 0,
    stacked,
    zero ? 1 : 0,
    field?.observation ? 1 : 0,
    goal ? goal.offset + 1 : 0,
    at,
  ]);
  return { rule, columns: Float64Array.from(columns) };
}

/** Returns the columns of a batch in `memory`, as typed arrays by name. Masks become booleans. */
export function arraysOf(
  layout: BatchLayout,
  memory: ArrayBuffer,
  rows: number,
): Record<string, TypedArray> {
  return Object.fromEntries(
    layout.columns.map(({ key, dtype, shape, at, field }) => {
      const values = new dtypes[dtype].array(memory, at, rows * elementCount(shape)) as TypedArray;
      const { mask } = field ?? {};
      return [key, mask === undefined ? values : unpackMasks(values as Uint32Array, mask)];
    }),
  );
}
