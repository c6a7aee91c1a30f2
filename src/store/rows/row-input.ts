/**
 * Checks the arguments of add() and prepares them for the native call. Each ReplayBuffer object has
 * its own RowInput, which only its thread uses.
 */
import { describeValue } from '../../base/checks.ts';
import { type DType, dtypes, elementCount, type TypedArray } from '../../base/dtype.ts';
import { type CodedError, rangeError, typeError } from '../../base/errors.ts';
import { maskWords, packMasks } from '../../base/mask-bits.ts';
import { isNext, notFinite, numberAt, packedNumber } from './field-roles.ts';
import { type FieldLayout, type PackLayout, shownField } from './pack-layout.ts';

interface FieldInput {
  key: string;
  dtype: DType;
  array: abstract new (...args: never[]) => TypedArray;
  /** elements of one row */
  elements: number;
  /** key of the field's terminal rows, or '' */
  terminalKey: string;
  /** whether the field stores masks as bits */
  masks: boolean;
  /** words of the masks of the last add(), and of its terminal rows, if the field stores masks */
  words: { now: Uint32Array; terminal: Uint32Array };
}

/** The arguments of the native call, with one array per field, in row order. */
interface LinedUp {
  rows: number;
  sources: TypedArray[];
  mask: ArrayBufferView | undefined;
  /** with a mask: for each field the array of its terminal rows, or undefined */
  terminals: (TypedArray | undefined)[] | undefined;
}

const MASK = 'terminalMask';
const terminalKeys: Readonly<Record<string, string>> = {
  nextObs: 'terminalNextObs',
  nextCritic: 'terminalNextCritic',
  nextActionMask: 'terminalNextActionMask',
};

export class RowInput {
  readonly #fields: readonly FieldInput[];
  readonly #known: ReadonlySet<string>;
  readonly #capacity: number;
  readonly #offPolicy: boolean;
  readonly #layout: readonly FieldLayout[];

  /** `terminals`: whether add() accepts terminalMask and its fields (off-policy buffers). */
  constructor(layout: PackLayout, capacity: number, terminals: boolean) {
    this.#capacity = capacity;
    this.#offPolicy = terminals;
    this.#layout = Object.values(layout.fields);
    this.#fields = this.#layout.map(shownField).map(({ key, dtype, shape, mask }) => ({
      key,
      dtype,
      array: dtypes[dtype].array,
      elements: elementCount(shape),
      terminalKey: (terminals && terminalKeys[key]) || '',
      masks: mask !== undefined,
      words: { now: new Uint32Array(0), terminal: new Uint32Array(0) },
    }));
    const terminal = this.#fields.map((field) => field.terminalKey).filter((key) => key !== '');
    const more = terminals ? [MASK, 'terminated'] : [];
    this.#known = new Set([...this.#fields.map((field) => field.key), ...terminal, ...more]);
  }

  /**
   * Returns the arguments of the native call. Throws a TypeError or RangeError with the field, what
   * it should hold and what it holds.
   */
  lineUp(given: object): LinedUp {
    if (typeof given !== 'object' || given === null)
      throw typeError(`add() needs an object of fields, got ${describeValue(given)}`);
    let values = given as Readonly<Record<string, unknown>>;
    for (const key in values)
      if (!this.#known.has(key) && values[key] !== undefined) throw this.#unknown(key);
    const first = this.#fields[0]!;
    const rows = this.#countRows(first, values[first.key]);
    if (this.#offPolicy && values.terminated !== undefined)
      values = { ...values, ...endsOf(values, rows) };
    const mask = checkMask(values[MASK], rows, this.#offPolicy);
    const sources = this.#fields.map((field) =>
      packed(field, 'now', checkField(field, field.key, values[field.key], rows)),
    );
    return { rows, sources, mask, terminals: this.#terminals(values, rows, mask !== undefined) };
  }

  /**
   * Returns the error of rows that native code rejected. The first parameter is the rejected
   * value's row, field and element. `given`: the rows that add() was given.
   */
  refused(
    [row, field, element]: Float64Array,
    given: object,
    name = (at: number) => `row ${at}`,
  ): CodedError {
    const { key, dtype, elements, terminalKey } = this.#fields[field as number] as FieldInput;
    const values = given as Readonly<Record<string, TypedArray & ArrayLike<boolean>>>;
    const from = terminalKey !== '' && values[MASK]?.[row as number] ? terminalKey : key;
    const value = numberAt(values[from] as TypedArray, dtype, row! * elements + element!);
    return notFinite(from, element!, value, name(row!), isNext(key));
  }

  /** Returns the same error for packed rows. */
  refusedPacked(
    [row, field, element]: Float64Array,
    bytes: Uint8Array,
    rowBytes: number,
  ): CodedError {
    const { key, dtype, offset } = this.#layout[field as number] as FieldLayout;
    const value = packedNumber(bytes, row! * rowBytes + offset, dtype, element!);
    return Object.assign(notFinite(key, element!, value, `row ${row}`, isNext(key)), { row });
  }

  #terminals(values: Readonly<Record<string, unknown>>, rows: number, masked: boolean) {
    if (masked) {
      return this.#fields.map((field) =>
        field.terminalKey === ''
          ? undefined
          : packed(
              field,
              'terminal',
              checkField(field, field.terminalKey, values[field.terminalKey], rows),
            ),
      );
    }
    for (const { terminalKey } of this.#fields) {
      if (terminalKey !== '' && values[terminalKey] !== undefined) {
        throw typeError(`${terminalKey} is given without ${MASK}`);
      }
    }
    return undefined;
  }

  #countRows(first: FieldInput, value: unknown): number {
    checkArray(first, first.key, value);
    const rows = value.length / first.elements;
    if (rows === 0) throw rangeError(`add() needs at least one row; ${first.key} is empty`);
    if (!Number.isInteger(rows)) {
      throw rangeError(
        `${first.key} must hold whole rows of ${first.elements} elements, got ${value.length} elements`,
      );
    }
    if (rows > this.#capacity)
      throw rangeError(`add() of ${rows} rows is more than the capacity of ${this.#capacity} rows`);
    return rows;
  }

  #unknown(key: string): CodedError {
    const why = /critic/i.test(key) && this.#known.has(MASK) ? ' (criticDim is 0)' : '';
    return typeError(
      `add() was given ${key}, which this buffer does not have${why}; it has ${[...this.#known].join(', ')}`,
    );
  }
}

/**
 * Computes `dones` and `truncated` from `terminated` and `truncated`. If both flags of a row are
 * set, the row terminated.
 */
function endsOf(
  values: Readonly<Record<string, unknown>>,
  rows: number,
): Readonly<Record<string, Float32Array>> | undefined {
  const terminated = flagsOf('terminated', values.terminated, rows);
  const truncated = flagsOf('truncated', values.truncated, rows);
  const dones = terminated.map((flag, row) => flag | truncated[row]!);
  const given = values.dones;
  if (given !== undefined) {
    const derived = flagsOf('dones', given, rows);
    const row = dones.findIndex((flag, at) => flag !== derived[at]);
    if (row >= 0)
      throw rangeError(
        `dones of row ${row} is ${derived[row]}, with terminated ${terminated[row]} and truncated ${truncated[row]}: ` +
          'a row is done if it terminated or was truncated. Omit dones, and add() derives it',
      );
  }
  return {
    dones: Float32Array.from(dones),
    truncated: Float32Array.from(truncated, (flag, row) => flag & ~terminated[row]!),
  };
}

function flagsOf(key: string, value: unknown, rows: number): Uint8Array {
  if (!(value instanceof Float32Array || value instanceof Uint8Array || Array.isArray(value)))
    throw typeError(
      `${key} must be a Float32Array, a Uint8Array or an array of booleans, got ${describeValue(value)}`,
    );
  if (value.length !== rows)
    throw rangeError(`${key} must hold one element per row = ${rows}, got ${value.length}`);
  return Uint8Array.from(value as ArrayLike<unknown>, (flag, row) => {
    if (flag === 0 || flag === false) return 0;
    if (flag === 1 || flag === true) return 1;
    throw rangeError(`${key} of row ${row} must be 0 or 1, got ${describeValue(flag)}`);
  });
}

function checkArray(field: FieldInput, key: string, value: unknown): asserts value is TypedArray {
  if (value === undefined)
    throw typeError(
      `add() was not given ${key} (${field.dtype}, ${field.elements} elements per row)`,
    );
  if (!(value instanceof field.array)) {
    throw typeError(
      `${key} must be a ${field.array.name} (${field.dtype}), got ${describeValue(value)}`,
    );
  }
}

function checkField(field: FieldInput, key: string, value: unknown, rows: number): TypedArray {
  checkArray(field, key, value);
  if (value.length !== field.elements * rows) {
    throw rangeError(
      `${key} must hold ${field.elements} elements per row × ${rows} rows = ${field.elements * rows}, got ${value.length}`,
    );
  }
  return value;
}

/** Returns the elements as a row stores them. Masks become words, in an array that is used again. */
function packed(field: FieldInput, which: 'now' | 'terminal', values: TypedArray): TypedArray {
  if (!field.masks) return values;
  const length = (values.length / field.elements) * maskWords(field.elements);
  if (field.words[which].length !== length) field.words[which] = new Uint32Array(length);
  return packMasks(values as Uint8Array, field.elements, field.words[which]);
}

function checkMask(mask: unknown, rows: number, understood: boolean): ArrayBufferView | undefined {
  if (mask === undefined || !understood) return undefined;
  const bytes =
    mask instanceof Uint8Array || mask instanceof Int8Array || mask instanceof Uint8ClampedArray;
  if (!bytes && !Array.isArray(mask)) {
    throw typeError(
      `${MASK} must be a Uint8Array or an array of booleans, got ${describeValue(mask)}`,
    );
  }
  if (mask.length !== rows)
    throw rangeError(`${MASK} must hold one element per row = ${rows}, got ${mask.length}`);
  return bytes ? mask : Uint8Array.from(mask, (value) => (value ? 1 : 0));
}
