/** What a DQN update reads of a batch, and writes to it: checked at the door, then cut into minibatches. */
import { shown } from '../checks.ts';
import { Tensor } from '../device/device.ts';
import { typeError } from '../errors.ts';
import { checkColumn, checkMatrix, checkRows, rowsOf } from './checks.ts';

interface DqnRows {
  /** [rows, obsDim] */
  obs: Tensor<'float32'>;
  nextObs: Tensor<'float32'>;
  /** [rows] or [rows, 1]: indices of the actions taken, of any dtype */
  actions: Tensor;
  rewards: Tensor<'float32'>;
  /** float32 [rows]: each row's loss and gradient are multiplied by its weight; the mean stays one over rows */
  weights?: Tensor<'float32'> | undefined;
  /** float32 [rows], written: how far off each row's value was, |Q − target|; NaN for an action that is none */
  priorities?: Tensor<'float32'> | undefined;
}

/** Rows of one step: the learner's `gamma` discounts what follows. */
interface DqnEnds {
  /** 1 where the episode ended, terminated or truncated */
  dones: Tensor<'float32'>;
  /** 1 where it ended by a time limit: such rows still bootstrap */
  truncated: Tensor<'float32'>;
}

/** Rows of any number of steps, each with what its bootstrap counts: gamma^k · (1 − terminated). */
interface DqnDiscounts {
  discounts: Tensor<'float32'>;
}

/**
 * Columns of K × batchSize rows, as strided views of packed rows or as tensors of their own. Where there are `discounts`, they
 * say what the bootstrap counts, and `dones` and `truncated` are not looked at.
 */
export type DqnBatch = DqnRows & (DqnEnds | DqnDiscounts);

/** A checked batch; columns are [rows, 1]. */
export interface DqnColumns extends Omit<DqnRows, 'weights' | 'priorities'> {
  dones?: Tensor<'float32'>;
  truncated?: Tensor<'float32'>;
  discounts?: Tensor<'float32'>;
  weights?: Tensor<'float32'>;
  priorities?: Tensor<'float32'>;
}

/** A pipeline's batch is a record of whatever its buffer holds; DQN needs these. Gives the number of rows. */
export function checkFields(batch: DqnBatch): number {
  const ends = given(batch, 'discounts') ? ['discounts'] : ['dones', 'truncated'];
  for (const key of ['obs', 'nextObs', 'actions', 'rewards', ...ends]) {
    const value = given(batch, key);
    if (value instanceof Tensor) continue;
    const own = Object.keys(batch ?? {});
    const instead = key === 'dones' || key === 'truncated' ? " (or 'discounts')" : '';
    const has = value === undefined ? (own.length > 0 ? own.join(', ') : 'none') : `${shown(value)} there`;
    throw typeError(`a DQN batch needs a tensor '${key}'${instead}; this one has ${has}`);
  }
  return batch.obs.shape[0] ?? 0;
}

/** Throws TypeError or RangeError, naming the field, unless all of them have `rows` rows and the dtypes that are said above. */
export function checkBatch(batch: DqnBatch, rows: number, inputs: number): DqnColumns {
  const { obs, nextObs, actions } = batch;
  const columns: Partial<Record<keyof DqnColumns, Tensor>> = {
    obs: checkMatrix('obs', obs, rows, inputs),
    nextObs: checkMatrix('nextObs', nextObs, rows, inputs),
    actions: checkRows('actions', actions, rows),
  };
  const ends = given(batch, 'discounts') ? (['discounts'] as const) : (['dones', 'truncated'] as const);
  for (const key of ['rewards', ...ends, 'weights', 'priorities'] as const) {
    const value = given(batch, key);
    if (value !== undefined) columns[key] = checkColumn(key, value as Tensor<'float32'>, rows);
  }
  return columns as DqnColumns;
}

/** Rows [start, start + rows) of all columns. */
export function sliced(columns: DqnColumns, start: number, rows: number): DqnColumns {
  const parts = Object.entries(columns).map(([key, column]) => [key, rowsOf(column as Tensor, start, rows)]);
  return Object.fromEntries(parts) as DqnColumns;
}

/** A pipeline's batch throws for a field that it does not have. */
function given(batch: DqnBatch, key: string): unknown {
  return Object.hasOwn(batch ?? {}, key) ? (batch as unknown as Record<string, unknown>)[key] : undefined;
}
