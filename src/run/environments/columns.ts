/** Provides the results of a step of environments as the columns of a buffer. */
import { describeValue } from '../../base/checks.ts';
import { type DType, dtypes, elementCount, type TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { toBfloat16, toFloat16 } from '../../base/float16.ts';
import type { BufferField } from '../collectors/collector.ts';
import type { SteppedSet } from './environment-set.ts';
import { Narrowing } from './narrow.ts';
import { described, type Spaces } from './spaces.ts';

type Fill = () => TypedArray;
/** A function for each column. Each call returns the column of the latest step. */
export type Columns = Readonly<Record<string, Fill>>;

/**
 * The sources of columns: the observations before a step, the actions, and the set with the step's
 * results.
 */
export interface Stepped {
  readonly vector: SteppedSet;
  readonly obs: TypedArray;
  readonly actions: Float32Array;
  /** legal actions before a step, null if the buffer does not store them */
  readonly actionMask: Uint8Array | null;
}

/**
 * Returns the columns of a ReplayBuffer's rows. Throws for a field that environments do not
 * provide. lacksMasks() later checks whether the environments give masks.
 */
export function rowColumns(
  fields: Readonly<Record<string, BufferField>>,
  stepped: Stepped,
): Columns {
  const { vector, obs, actions } = stepped;
  const { spaces, count } = vector;
  const { observation } = spaces;
  const over = new Uint8Array(count);
  const dones = () => {
    for (let i = 0; i < count; i++)
      over[i] = (vector.terminated[i] as number) | (vector.truncated[i] as number);
    return over;
  };
  const given: Record<string, (field: BufferField) => Fill> = {
    obs: (field) => column('obs', field, observation, () => obs),
    nextObs: (field) => column('nextObs', field, observation, () => vector.nextObs),
    actions: (field) => actionColumn(field, spaces, actions),
    rewards: (field) =>
      column('rewards', field, { size: 1, dtype: 'float32' }, () => vector.rewards),
    dones: (field) => column('dones', field, flag, dones),
    terminated: (field) => column('terminated', field, flag, () => vector.terminated),
    truncated: (field) => column('truncated', field, flag, () => vector.truncated),
    actionMask: (field) => maskColumn('actionMask', field, spaces, () => stepped.actionMask),
    nextActionMask: (field) =>
      maskColumn('nextActionMask', field, spaces, () => vector.nextActionMask),
  };
  const unknown = Object.keys(fields).find((name) => !Object.hasOwn(given, name));
  if (unknown !== undefined)
    throw rangeError(
      `the buffer has a field '${unknown}', which environments do not return; they return ${Object.keys(given).join(', ')}`,
    );
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const fill = (given[name] as (field: BufferField) => Fill)(field);
      return [name, vector.skipped === null ? fill : keeping(fill, vector.skipped)];
    }),
  );
}

/**
 * Returns a function that fills a separate array with the column's rows that are not skipped. The
 * set's own array stays unchanged, because another column may read it.
 */
function keeping(fill: Fill, skipped: Uint8Array): Fill {
  let kept: TypedArray | undefined;
  return () => {
    const rows = fill();
    if (skipped.every((one) => one === 0)) return rows;
    const size = rows.length / skipped.length;
    kept ??= rows.slice() as TypedArray;
    let to = 0;
    for (let i = 0; i < skipped.length; i++)
      if (skipped[i] === 0) kept.set(rows.subarray(size * i, size * (i + 1)) as never, size * to++);
    return kept.subarray(0, size * to) as TypedArray;
  };
}

/** Returns the columns of a TrajectoryBuffer's steps. */
export function stepColumns(
  fields: Readonly<Record<string, BufferField>>,
  stepped: Stepped,
): Columns {
  const { vector, obs, actions } = stepped;
  const { spaces } = vector;
  const { observation } = spaces;
  const wrong = [...new Set([...Object.keys(fields), 'obs', 'actions'])].find(
    (name) => !(name in fields && ['obs', 'actions', 'actionMask'].includes(name)),
  );
  if (wrong !== undefined)
    throw rangeError(
      `environments return the fields obs and actions, and actionMask if they give masks; the buffer ${wrong in fields ? `has a field '${wrong}'` : `lacks '${wrong}'`}`,
    );
  const obsField = fields.obs as BufferField;
  const maskOf = (field: BufferField, read: () => Uint8Array | null) =>
    maskColumn('actionMask', field, spaces, read);
  return {
    obs: column('obs', obsField, observation, () => obs),
    finalObs: column('obs', obsField, observation, () => vector.nextObs),
    actions: actionColumn(fields.actions as BufferField, spaces, actions),
    rewards: () => vector.rewards,
    terminated: () => vector.terminated,
    truncated: () => vector.truncated,
    ...(fields.actionMask && {
      actionMask: maskOf(fields.actionMask, () => stepped.actionMask),
      finalActionMask: maskOf(fields.actionMask, () => vector.nextActionMask),
    }),
    ...(vector.skipped && { skip: () => vector.skipped as Uint8Array }),
  };
}

const flag = { size: 1, dtype: 'uint8' } as const;
const isFloat = (dtype: DType): boolean => dtype.includes('float');

/**
 * Returns a column that converts the values of `read` from the form `from` to the field's dtype.
 * Throws if the field cannot hold them.
 */
function column(
  name: string,
  field: BufferField,
  from: { size: number; dtype: DType },
  read: () => TypedArray,
): Fill {
  const { dtype, shape } = field;
  if (elementCount(shape) !== from.size)
    throw rangeError(
      `the buffer's ${name} are [${shape}], but environments return ${from.size} numbers`,
    );
  if (dtype === from.dtype || (dtype === 'bool' && from === flag)) return read;
  if (!isFloat(dtype) && from !== flag)
    throw typeError(
      `the buffer's ${name} are ${dtype}, which cannot hold what the environments return: ${from.dtype}`,
    );
  let floats: Float32Array | undefined;
  if (dtype === 'float16' || dtype === 'bfloat16') {
    const [round, infinity] = dtype === 'float16' ? [toFloat16, 0x7c00] : [toBfloat16, 0x7f80];
    return () => {
      const values = read();
      if (!(values instanceof Float32Array)) {
        floats ??= new Float32Array(values.length);
        floats.set(values as never);
      }
      const bits = round(values instanceof Float32Array ? values : (floats as Float32Array));
      // Rejects finite numbers that overflow. The buffer checks non-finite numbers itself.
      const over = bits.findIndex(
        (one, i) => (one & 0x7fff) === infinity && Number.isFinite(values[i]),
      );
      if (over >= 0)
        throw rangeError(
          `the buffer's ${name} are ${dtype}, which has no ${describeValue(values[over])}`,
        );
      return bits;
    };
  }
  return dtype === 'float32' ? narrowed(name, from.size, read) : copied(dtype, read);
}

function narrowed(name: string, size: number, read: () => TypedArray): Fill {
  const narrowing = new Narrowing(`the buffer's ${name}`);
  let values: Float32Array | undefined;
  return () => {
    const from = read();
    values ??= new Float32Array(from.length);
    narrowing.copy(from, values, size);
    return values;
  };
}

function actionColumn(field: BufferField, spaces: Spaces, actions: Float32Array): Fill {
  const { action } = spaces;
  const { dtype, shape } = field;
  if (action.kind === 'box')
    return column('actions', field, { size: action.size, dtype: 'float32' }, () => actions);
  if (elementCount(shape) !== 1)
    throw rangeError(`the buffer's actions are [${shape}], these are ${described(spaces)}`);
  const most: Partial<Record<DType, number>> = {
    int8: 2 ** 7,
    uint8: 2 ** 8,
    bool: 2,
    int16: 2 ** 15,
    uint16: 2 ** 16,
  };
  if (dtype === 'int64' || dtype === 'uint64' || dtype === 'float16' || dtype === 'bfloat16')
    throw typeError(`the buffer's actions are ${dtype}: take int32, or one that is smaller`);
  if (action.n > (most[dtype] ?? action.n))
    throw rangeError(`${action.n} actions do not fit ${describeValue(dtype)}`);
  return dtype === 'float32' ? () => actions : copied(dtype, () => actions);
}

/** Returns a column of masks, one byte of 0 or 1 per action, as add() takes them. */
function maskColumn(
  name: string,
  { dtype, shape, mask, observation }: BufferField,
  { action }: Spaces,
  read: () => Uint8Array | null,
): Fill {
  if (action.kind !== 'discrete') throw unmasked(name);
  const { n } = action;
  const isBytes = (dtype === 'bool' || dtype === 'uint8') && shape.length === 1;
  const have = mask === undefined ? `${dtype} [${shape}]` : `{ mask: ${mask} }`;
  if ((mask ?? (isBytes ? shape[0] : undefined)) !== n)
    throw rangeError(
      `the buffer's ${name} are ${have}, but the environments have ${n} actions; make the field { mask: ${n} }`,
    );
  if (observation === false)
    throw rangeError(
      `the buffer's ${name} must be an observation, because learners use the masks of next states; make the field { mask: ${n}, observation: true }`,
    );
  return read as Fill;
}

const unmasked = (name: string): Error =>
  rangeError(
    `the buffer has a field '${name}', but the environments give no action masks; give them actionMask(), or leave the field out`,
  );

/**
 * Throws if the buffer stores masks that the environments do not give. Call it after begin() of the
 * set. Returns whether the environments give masks that the buffer does not store.
 */
export function lacksMasks(
  fields: Readonly<Record<string, BufferField>>,
  { actionMask }: SteppedSet,
): boolean {
  const stored = ['actionMask', 'nextActionMask'].find((name) => name in fields);
  if (actionMask === null && stored !== undefined) throw unmasked(stored);
  return actionMask !== null && stored === undefined;
}

let hasWarned = false;
/** Emits one process warning, MaskWarning. `ofSteps`: whether the buffer is a TrajectoryBuffer. */
export function warnOfMasks(ofSteps: boolean): void {
  if (hasWarned) return;
  hasWarned = true;
  const remedy = ofSteps
    ? 'add a field actionMask: { mask: n, observation: true }'
    : 'add fields actionMask and nextActionMask of { mask: n }, as ReplayBuffer.offPolicy({ actionMask: n }) does';
  process.emitWarning(
    `the environments give action masks, but the buffer stores none, so the learner does not use them: ${remedy}`,
    'MaskWarning',
  );
}

function copied(dtype: DType, read: () => TypedArray): Fill {
  const { array } = dtypes[dtype];
  let values: TypedArray | undefined;
  return () => {
    const from = read();
    values ??= new array(from.length);
    values.set(from as never);
    return values;
  };
}
