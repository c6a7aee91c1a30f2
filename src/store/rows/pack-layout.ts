/**
 * The layout of packed rows: the offset of each field. A layout is frozen, so any thread may read
 * it.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkMaskSize, maskWords } from '../../base/mask-bits.ts';
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
  /**
   * number of actions, if the field stores masks. `dtype` and `shape` are then those of the words
   * in a row: uint32 [⌈mask / 32⌉]
   */
  readonly mask?: number;
}

/**
 * Returns a field as add(), read() and files have it: masks as booleans, one per action. Other
 * fields stay as they are.
 */
export const shownField = <F extends Pick<FieldLayout, 'dtype' | 'shape' | 'mask'>>(field: F): F =>
  field.mask === undefined ? field : { ...field, dtype: 'bool', shape: [field.mask] };

/** Describes a field in a word, such as float32[4] or mask[6]. */
export const describeField = (
  { dtype, shape, mask }: Pick<FieldLayout, 'dtype' | 'shape' | 'mask'>,
  by = '×',
): string => (mask === undefined ? `${dtype}[${shape.join(by)}]` : `mask[${mask}]`);

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
  mask?: number;
}

/** Returns the draft of a field that stores masks of `n` actions. */
const maskDraft = (name: string, key: string, n: number): Draft => ({
  ...{ name, key, mask: n },
  dtype: 'uint32',
  shape: [maskWords(n)],
});

function place(drafts: readonly Draft[]): PackLayout {
  const fields: Record<string, FieldLayout> = {};
  let end = 0;
  let widest = 1;
  for (const { name, key, dtype, shape, mask } of drafts) {
    const item = dtypes[dtype].bytes;
    const bytes = elementCount(shape) * item;
    const offset = Math.ceil(end / item) * item;
    const masked = mask === undefined ? {} : { mask };
    const own = { dtype, shape: Object.freeze([...shape]), offset, bytes, key, ...masked };
    fields[name] = Object.freeze(own);
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
 * other, followed by the critic's fields and by masks. Throws TypeError or RangeError for dimensions
 * that are not positive whole numbers (criticDim and actionMask may be 0).
 */
export function offPolicyLayout(dims: {
  obsDim: number;
  actionDim: number;
  criticDim?: number;
  actionMask?: number;
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
  const { actionMask = 0 } = dims;
  if (actionMask !== 0) {
    const n = checkMaskSize('actionMask', actionMask);
    drafts.push(maskDraft('action_mask', 'actionMask', n));
    drafts.push(maskDraft('next_action_mask', 'nextActionMask', n));
  }
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
      const { mask, shape, dtype = 'float32' } = (spec ?? {}) as FieldSpec;
      if (
        typeof spec !== 'object' ||
        spec === null ||
        !(Array.isArray(shape) || mask !== undefined)
      )
        throw typeError(
          `fields.${name} must be { shape: number[], dtype? } or { mask: number of actions }, got ${describeValue(spec)}`,
        );
      if (mask !== undefined) {
        checkKeys(`fields.${name} with a mask`, spec, ['mask']);
        return maskDraft(name, name, checkMaskSize(`fields.${name}.mask`, mask));
      }
      checkKeys(`fields.${name}`, spec, ['shape', 'dtype', 'mask']);
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
  for (const { key, dtype, shape, offset, bytes, mask } of fields) {
    const item = dtypes[checkDType(`field ${key}`, dtype)].bytes;
    if (!Array.isArray(shape))
      throw typeError(`field ${key} has no shape, but ${describeValue(shape)}`);
    for (const dim of shape) checkCount(`a dimension of field ${key}`, dim);
    if (
      mask !== undefined &&
      (dtype !== 'uint32' || elementCount(shape) !== maskWords(checkMaskSize(`field ${key}`, mask)))
    )
      throw rangeError(`field ${key}, ${dtype}[${shape}], cannot store masks of ${mask} actions`);
    checkCount(`where field ${key} begins`, offset, 0, rowBytes);
    if (bytes !== elementCount(shape) * item || offset % item !== 0 || offset + bytes > rowBytes)
      throw rangeError(
        `field ${key}, ${bytes} bytes at ${offset}, is outside a row of ${rowBytes} bytes`,
      );
  }
}
