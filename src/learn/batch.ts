/**
 * Columns of a batch that an update reads and writes. update() checks them and then cuts them into
 * minibatches.
 */
import { describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { type Device, type Stream, Tensor } from '../device/device.ts';
import { guardConstruction, Owner, own } from '../device/owner.ts';
import { checkColumn, checkMatrix, checkRows, rowStride, rowsOf } from './checks.ts';
import { checkMask } from './masks.ts';
import { ops } from './ops/index.ts';

type Floats = Tensor<'float32'>;

/**
 * Rows of one step with a flag that is 1 if the episode terminated. The update multiplies the
 * bootstrap of all other rows by the learner's `gamma`.
 */
interface Terminated {
  /** [rows] or [rows, 1], of any dtype */
  terminated: Tensor;
}

/**
 * Rows of one step with two flags, as in Gym and in replay buffers modeled on it. The episode
 * terminated in a row if the row is done and not truncated.
 */
interface Ends {
  /** 1 if the episode ended, by termination or by truncation */
  dones: Tensor<'float32'>;
  /** 1 if a time limit ended the episode. The update bootstraps from such rows */
  truncated: Tensor<'float32'>;
}

/**
 * Rows of any number of steps k. A row's discount is `gamma^k · (1 − terminated)`, the factor of
 * its bootstrap.
 */
interface Discounts {
  discounts: Tensor<'float32'>;
}

interface Given {
  /** [rows] or [rows, 1] */
  rewards: Tensor<'float32'>;
  /**
   * importance weights, float32 [rows]: factors of each row's loss and gradient. The update divides
   * the sum of the weighted losses by the number of rows, not by the sum of the weights
   */
  weights?: Tensor<'float32'> | undefined;
  /**
   * output, float32 [rows]: each row's absolute TD error, or its cross-entropy with a categorical
   * head or critic
   */
  priorities?: Tensor<'float32'> | undefined;
}

/**
 * Columns of K × batchSize rows that every learner needs. They are strided views of packed rows, or
 * separate tensors. The update computes the factors of the bootstrap from `discounts`. If the batch
 * lacks them, it uses `terminated`. If the batch lacks this too, it uses `dones` and `truncated`.
 * It ignores further flags.
 */
export type Rows = Given & (Ends | Terminated | Discounts);

/**
 * Checked columns by name. A column with one value per row has the shape [rows, 1], whatever its
 * shape in the batch.
 */
export type Columns = Readonly<Record<string, Tensor<'float32'>>>;

/**
 * Width of each field, 'index' for a field with one value per row, of any dtype, or { mask } with the
 * number of actions for a mask.
 */
export type ColumnWidths = Readonly<Record<string, number | 'index' | { readonly mask: number }>>;

/**
 * Returns a field of the batch, or undefined if the batch does not have the field. Reading a
 * missing field of a pipeline's batch throws, so this function first checks that the field exists.
 */
export function given(batch: unknown, key: string): unknown {
  const own = typeof batch === 'object' && batch !== null && Object.hasOwn(batch, key);
  return own ? (batch as Record<string, unknown>)[key] : undefined;
}

/**
 * Returns the batch's columns: `fields`, the rewards, the flags or discounts, and the weights and
 * priorities if the batch has them. Throws TypeError for a field that is missing or has a wrong
 * dtype. Throws RangeError for a wrong shape, or if the number of rows is not a multiple of
 * `batchSize`.
 */
function columnsOf(
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
    if (typeof width === 'object') columns[key] = checkMask(key, value, rows, width.mask);
    else
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

/**
 * Returns a function that checks a learner's batch. It refuses `discounts` if the learner was given
 * `gamma`.
 */
export const reader =
  (what: string, fields: ColumnWidths, batchSize: number, gamma: number | undefined) =>
  (batch: object): { columns: Columns; rows: number } => {
    const checked = columnsOf(what, batch, fields, batchSize);
    if (checked.columns.discounts && gamma !== undefined)
      throw typeError(
        `${what}: this batch has discounts, which contain gamma; omit the option gamma (${gamma})`,
      );
    return checked;
  };

/** Returns the names of the fields from which the factors of the bootstrap are computed. */
export function endsOf(batch: unknown): readonly string[] {
  for (const key of ['discounts', 'terminated']) if (given(batch, key)) return [key];
  return ['dones', 'truncated'];
}

/** Returns views of the rows [start, start + rows) of all columns. */
export function sliced(columns: Columns, start: number, rows: number): Columns {
  const parts = Object.entries(columns).map(([key, column]) => [key, rowsOf(column, start, rows)]);
  return Object.fromEntries(parts) as Columns;
}

/** Computes the factors of the bootstrap from the columns of a minibatch. */
export class DiscountColumn extends Owner {
  readonly #gamma: number;
  readonly #factors: Floats;
  /** [rows, 1]: columns of 0 and of 1 */
  readonly #zeros: Floats;
  readonly #ones: Floats;

  constructor(device: Device, rows: number, gamma = 0.99) {
    super('this column of discounts');
    this.#gamma = gamma;
    const column = () => own(this, device.allocate({ shape: [rows, 1] }));
    using construction = guardConstruction(this);
    [this.#factors, this.#zeros] = [column(), column()];
    this.#ones = column().write(new Float32Array(rows).fill(1));
    construction.done();
  }

  /**
   * Returns the factor of each row's bootstrap, [rows, 1]. If the batch has discounts, returns these.
   * Otherwise writes the factors to memory of its own: gamma for rows in which the episode did not
   * terminate, else 0.
   */
  of(stream: Stream, { discounts, terminated, dones, truncated }: Columns): Floats {
    const [gamma, into] = [this.#gamma, this.#factors];
    if (discounts) return discounts;
    if (terminated) {
      ops.convert(stream, into, terminated, { scale: -gamma, shift: gamma });
      return into;
    }
    // The target of a row with reward 0 and next value 1 is its discount.
    const [zeros, ones] = [this.#zeros, this.#ones];
    const ends = [dones, truncated] as [Floats, Floats];
    stream.launch('td_target', {
      tensors: [into, ones, ones, zeros, ...ends],
      wholes: [into.size, 1, 1, 1, 1, rowStride(ends[0]), rowStride(ends[1])],
      reals: [gamma],
    });
    return into;
  }
}
