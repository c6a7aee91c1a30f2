/**
 * The layout of packed rows: the offset of each field. A layout is frozen, so any thread may read
 * it.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { FieldSpec } from './fields.ts';
import { rowsAddon } from './rows-addon.ts';

/** A field, and its offset in a packed row. */
export interface FieldLayout {
  readonly dtype: DType;
  /** shape of one row's value, [] for one scalar per row */
  readonly shape: readonly number[];
  /** bytes from the start of the row */
  readonly offset: number;
  /** bytes of one row's value */
  readonly bytes: number;
  /** the name that add() and batches use */
  readonly key: string;
}

/** The layout of all fields in a packed row. */
export interface PackLayout {
  /** in row order */
  readonly fields: Readonly<Record<string, FieldLayout>>;
  /** bytes of a packed row */
  readonly rowBytes: number;
}

/**
 * Largest number of bytes of a row. The bytes of a batch of rows must fit every device's copy
 * calls.
 */
const MAX_ROW_BYTES = 2 ** 31 - 1;

/**
 * Returns the bytes from the start of one row to the next in memory (native/rows/rows.hpp has the
 * reason). Rows that are copied out of the memory are packed, without these gaps.
 */
export function rowStride(rowBytes: number): number {
  return rowsAddon().rowStride(rowBytes);
}

interface Draft {
  name: string;
  key: string;
  dtype: DType;
  shape: readonly number[];
}

function place(drafts: readonly Draft[]): PackLayout {
  const fields: Record<string, FieldLayout> = {};
  let end = 0;
  let widest = 1;
  for (const { name, key, dtype, shape } of drafts) {
    const item = dtypes[dtype].bytes;
    const bytes = elementCount(shape) * item;
    const offset = Math.ceil(end / item) * item;
    fields[name] = Object.freeze({ dtype, shape: Object.freeze([...shape]), offset, bytes, key });
    end = offset + bytes;
    widest = Math.max(widest, item);
  }
  const rowBytes = Math.ceil(end / widest) * widest;
  if (!(rowBytes <= MAX_ROW_BYTES)) {
    throw rangeError(`a row would take ${rowBytes} bytes; at most ${MAX_ROW_BYTES} are allowed`);
  }
  return Object.freeze({ fields: Object.freeze(fields), rowBytes });
}

/**
 * Returns the layout in which UniLab packs off-policy transitions: float32 fields one after the
 * other, with the critic's fields last. Throws TypeError or RangeError for dimensions that are not
 * positive whole numbers (criticDim may be 0).
 */
export function offPolicyLayout(dims: {
  obsDim: number;
  actionDim: number;
  criticDim?: number;
}): PackLayout {
  const obs = [checkCount('obsDim', dims.obsDim)];
  const actions = [checkCount('actionDim', dims.actionDim)];
  const criticDim = dims.criticDim === undefined ? 0 : checkCount('criticDim', dims.criticDim, 0);
  const float32 = (name: string, shape: number[], key = name): Draft => ({
    name,
    key,
    dtype: 'float32',
    shape,
  });
  const drafts = [
    float32('obs', obs),
    float32('next_obs', obs, 'nextObs'),
    float32('actions', actions),
    float32('rewards', []),
    float32('dones', []),
    float32('truncated', []),
  ];
  if (criticDim > 0)
    drafts.push(float32('critic', [criticDim]), float32('next_critic', [criticDim], 'nextCritic'));
  return place(drafts);
}

/**
 * Returns a layout of any named fields, in the order given. Each field is aligned to the size of
 * its elements, and the row is padded to the largest of these sizes. Throws TypeError for a missing
 * or malformed schema, and RangeError for dimensions that are not positive whole numbers.
 */
export function schemaLayout(fields: Readonly<Record<string, FieldSpec>>): PackLayout {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw typeError(
      `fields must be an object of name → { shape, dtype? }, got ${describeValue(fields)}`,
    );
  }
  const names = Object.keys(fields);
  if (names.length === 0) throw rangeError('fields must name at least one field, got none');
  return place(
    names.map((name) => {
      const spec: unknown = fields[name];
      if (typeof spec !== 'object' || spec === null || !Array.isArray((spec as FieldSpec).shape)) {
        throw typeError(
          `fields.${name} must be { shape: number[], dtype? }, got ${describeValue(spec)}`,
        );
      }
      checkKeys(`fields.${name}`, spec, ['shape', 'dtype']);
      const { shape, dtype = 'float32' } = spec as FieldSpec;
      for (const [i, dim] of shape.entries()) checkCount(`fields.${name}.shape[${i}]`, dim);
      return { name, key: name, dtype: checkDType(`fields.${name}.dtype`, dtype), shape };
    }),
  );
}

/**
 * Throws unless every field of a layout from another thread is aligned and inside the row. Native
 * code reads and writes at these offsets.
 */
export function checkFields(fields: readonly FieldLayout[], rowBytes: number): void {
  if (fields.length === 0) throw typeError('the layout names no fields');
  for (const { key, dtype, shape, offset, bytes } of fields) {
    const item = dtypes[checkDType(`field ${key}`, dtype)].bytes;
    if (!Array.isArray(shape))
      throw typeError(`field ${key} has no shape, but ${describeValue(shape)}`);
    for (const dim of shape) checkCount(`a dimension of field ${key}`, dim);
    checkCount(`where field ${key} begins`, offset, 0, rowBytes);
    if (bytes !== elementCount(shape) * item || offset % item !== 0 || offset + bytes > rowBytes)
      throw rangeError(
        `field ${key}, ${bytes} bytes at ${offset}, is outside a row of ${rowBytes} bytes`,
      );
  }
}
