/**
 * What an update reads of a batch, and writes to it: checked at the door, then cut into
 * minibatches.
 */
import { describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { type Stream, Tensor } from '../device/device.ts';
import { checkColumn, checkMatrix, checkRows, rowsOf } from './checks.ts';
import { ops } from './ops/index.ts';

/**
 * Rows of one step, of which 1 says that the episode terminated: the learner's `gamma` discounts
 * what follows the others.
 */
interface Terminated {
  /** [rows], of any dtype */
  terminated: Tensor;
}

/**
 * The same by two flags, as Gym's `dones` and replay buffers after it have them: a row terminated
 * where it is done and not truncated.
 */
interface Ends {
  /** 1 where the episode ended, terminated or truncated */
  dones: Tensor<'float32'>;
  /** 1 where it ended by a time limit: such rows still bootstrap */
  truncated: Tensor<'float32'>;
}

/** Rows of any number of steps, each with what its bootstrap counts: gamma^k · (1 − terminated). */
interface Discounts {
  discounts: Tensor<'float32'>;
}

interface Given {
  rewards: Tensor<'float32'>;
  /**
   * float32 [rows]: each row's loss and gradient are multiplied by its weight; the mean stays one
   * over rows
   */
  weights?: Tensor<'float32'> | undefined;
  /** float32 [rows], written: how far off each row was */
  priorities?: Tensor<'float32'> | undefined;
}

/**
 * What every learner needs of a batch of K × batchSize rows, as strided views of packed rows or as
 * tensors of their own. Where there are `discounts`, they say what the bootstrap counts, else
 * `terminated` does, else `dones` and `truncated`. The later ones of these are ignored.
 */
export type Rows = Given & (Ends | Terminated | Discounts);

/** Columns by name, as they were checked; those of one number a row are [rows, 1]. */
export type Columns = Readonly<Record<string, Tensor<'float32'>>>;

/** How wide a field is; 'index': one number a row, of any dtype. */
export type ColumnWidths = Readonly<Record<string, number | 'index'>>;

/** A pipeline's batch throws for a field that it does not have. */
function given(batch: unknown, key: string): unknown {
  const own = typeof batch === 'object' && batch !== null && Object.hasOwn(batch, key);
  return own ? (batch as Record<string, unknown>)[key] : undefined;
}

/**
 * The batch's columns: `fields`, rewards, what ended or discounts, and where they are given weights
 * and priorities. Throws TypeError for a field that is missing or of another dtype, RangeError for
 * other shapes and rows that make no minibatches.
 */
export function columnsOf(
  what: string,
  batch: unknown,
  fields: ColumnWidths,
  batchSize: number,
): { columns: Columns; rows: number } {
  const ends = endsOf(batch);
  const needed = [...Object.keys(fields), 'rewards', ...ends];
  for (const key of needed) {
    const value = given(batch, key);
    if (value instanceof Tensor) continue;
    const own = Object.keys((batch as object | null) ?? {});
    const instead =
      key === 'dones' || key === 'truncated' ? " (or 'terminated', or 'discounts')" : '';
    const has =
      value === undefined
        ? own.length > 0
          ? own.join(', ')
          : 'none'
        : `${describeValue(value)} there`;
    throw typeError(`a ${what} batch needs a tensor '${key}'${instead}; this one has ${has}`);
  }
  const rows = (given(batch, needed[0] as string) as Tensor).shape[0] ?? 0;
  if (rows < batchSize || rows % batchSize !== 0)
    throw rangeError(`an update needs a multiple of batchSize ${batchSize} rows, got ${rows}`);
  const columns: Record<string, Tensor> = {};
  for (const [key, width] of Object.entries(fields)) {
    const value = given(batch, key) as Tensor<'float32'>;
    columns[key] =
      width === 'index' ? checkRows(key, value, rows) : checkMatrix(key, value, rows, width);
  }
  for (const key of ['rewards', ...ends, 'weights', 'priorities']) {
    const value = given(batch, key) as Tensor<'float32'> | undefined;
    if (value === undefined) continue;
    columns[key] =
      key === 'terminated' ? checkRows(key, value, rows) : checkColumn(key, value, rows);
  }
  return { columns: columns as Columns, rows };
}

/** The fields that say what the bootstrap counts. */
function endsOf(batch: unknown): readonly string[] {
  for (const key of ['discounts', 'terminated']) if (given(batch, key)) return [key];
  return ['dones', 'truncated'];
}

/** Rows [start, start + rows) of all columns. */
export function sliced(columns: Columns, start: number, rows: number): Columns {
  const parts = Object.entries(columns).map(([key, column]) => [key, rowsOf(column, start, rows)]);
  return Object.fromEntries(parts) as Columns;
}

/**
 * What each row's bootstrap counts: the batch's discounts, or `gamma` where the episode did not end
 * by itself, made in `into`.
 */
export function discountsOf(
  stream: Stream,
  into: Tensor<'float32'>,
  { discounts, terminated, dones, truncated }: Columns,
  gamma: number,
): Tensor<'float32'> {
  if (discounts) return discounts;
  if (terminated) {
    ops.convert(stream, into, terminated, { scale: -gamma, shift: gamma });
    return into;
  }
  ops.sub(stream, into, truncated as Tensor<'float32'>, dones as Tensor<'float32'>);
  ops.clamp(stream, into, into, -1, 0);
  ops.convert(stream, into, into, { scale: gamma, shift: gamma });
  return into;
}
