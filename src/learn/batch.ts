/**
 * The columns of a batch that an update reads and writes: checked when called, then cut into
 * minibatches.
 */
import { describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { type Stream, Tensor } from '../device/device.ts';
import { checkColumn, checkMatrix, checkRows, rowsOf } from './checks.ts';
import { ops } from './ops/index.ts';

/**
 * Rows of one step with a flag that is 1 if the episode terminated. The learner's `gamma` discounts
 * the bootstrap of the other rows.
 */
interface Terminated {
  /** [rows] or [rows, 1], of any dtype */
  terminated: Tensor;
}

/**
 * Rows of one step with two flags, as in Gym and in replay buffers modeled on it. A row terminated
 * if it is done and not truncated.
 */
interface Ends {
  /** 1 if the episode ended, terminated or truncated */
  dones: Tensor<'float32'>;
  /** 1 if a time limit ended it: such rows still bootstrap */
  truncated: Tensor<'float32'>;
}

/**
 * Rows of any number of steps k, each with the factor of its bootstrap: gamma^k · (1 − terminated).
 */
interface Discounts {
  discounts: Tensor<'float32'>;
}

interface Given {
  /** [rows] or [rows, 1] */
  rewards: Tensor<'float32'>;
  /**
   * importance weights, float32 [rows]: factors of each row's loss and gradient. The mean still
   * divides by the number of rows
   */
  weights?: Tensor<'float32'> | undefined;
  /**
   * output, float32 [rows]: each row's absolute TD error, or its cross-entropy if values are
   * distributions
   */
  priorities?: Tensor<'float32'> | undefined;
}

/**
 * Columns that every learner needs of a batch of K × batchSize rows, as strided views of packed
 * rows or as separate tensors. The bootstrap's factors come from the first of these that is
 * present, and the others are ignored: `discounts`, `terminated`, `dones` with `truncated`.
 */
export type Rows = Given & (Ends | Terminated | Discounts);

/** Checked columns by name. Columns of one number a row are [rows, 1]. */
export type Columns = Readonly<Record<string, Tensor<'float32'>>>;

/** The width of each field, or 'index' for one number a row of any dtype. */
export type ColumnWidths = Readonly<Record<string, number | 'index'>>;

/** A pipeline's batch throws for a field that it does not have. */
function given(batch: unknown, key: string): unknown {
  const own = typeof batch === 'object' && batch !== null && Object.hasOwn(batch, key);
  return own ? (batch as Record<string, unknown>)[key] : undefined;
}

/**
 * Returns the batch's columns: `fields`, rewards, ends or discounts, and weights and priorities if
 * they are given. Throws TypeError for a field that is missing or of another dtype. Throws
 * RangeError for other shapes, and unless the rows are a multiple of `batchSize`.
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

/** Returns the names of the fields that give the bootstrap's factors. */
function endsOf(batch: unknown): readonly string[] {
  for (const key of ['discounts', 'terminated']) if (given(batch, key)) return [key];
  return ['dones', 'truncated'];
}

/** Returns rows [start, start + rows) of all columns. */
export function sliced(columns: Columns, start: number, rows: number): Columns {
  const parts = Object.entries(columns).map(([key, column]) => [key, rowsOf(column, start, rows)]);
  return Object.fromEntries(parts) as Columns;
}

/**
 * Returns the factor of each row's bootstrap: the batch's discounts, or `gamma` for rows that did
 * not terminate, computed in `into`.
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
