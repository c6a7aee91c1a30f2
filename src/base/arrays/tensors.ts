/** Defines and checks tensors in memory, which the modules for file formats read and write. */
import { checkCount, checkKeys, describeValue } from '../checks.ts';
import { type ArrayOf, arrayOf, checkDType, type DType, dtypes } from '../dtype.ts';
import { type CodedError, rangeError, typeError } from '../errors.ts';

/** A tensor in process memory, such as an entry of a learner's state. */
export interface TensorData {
  readonly dtype: DType;
  /** size of each dimension, `[]` for a scalar */
  readonly shape: readonly number[];
  /** elements in row-major order, in the typed array of `dtype` */
  readonly data: ArrayOf<DType>;
}

/** Tensors by name. `await learner.state()` returns such a record. */
export type NamedTensors = Readonly<Record<string, TensorData>>;

/** Returns the RangeError for bytes that break a rule of their format. */
export const malformed = (what: string, why: string): CodedError => rangeError(`${what}: ${why}`);

/**
 * Returns the number of elements of a shape. `bytes` is the size of an element. Throws RangeError
 * if a dimension is not a whole number of at least 0, or if the bytes of all elements exceed
 * MAX_SAFE_INTEGER.
 */
export function countOf(what: string, shape: readonly unknown[], bytes: number): number {
  let count = 1;
  for (const [i, d] of shape.entries()) {
    count *= checkCount(`${what}: shape[${i}]`, d, 0);
    if (!Number.isSafeInteger(count * bytes))
      throw malformed(what, `a shape of ${describeValue(shape)} is too large to count`);
  }
  return count;
}

/**
 * Returns a new object with the dtype, a copy of the shape, and the same `data` array. Throws
 * unless dtype, shape and data match each other.
 */
export function checkTensor(what: string, tensor: unknown): TensorData {
  if (typeof tensor !== 'object' || tensor === null)
    throw typeError(`${what} must be { dtype, shape, data }, got ${describeValue(tensor)}`);
  const { dtype, shape, data } = tensor as TensorData;
  checkDType(`${what}: dtype`, dtype);
  if (!Array.isArray(shape))
    throw typeError(
      `${what}: shape must be an array of whole numbers, got ${describeValue(shape)}`,
    );
  const { array, bytes } = dtypes[dtype];
  if (!(data instanceof array))
    throw typeError(
      `${what}: data of ${dtype} must be a ${array.name}, got ${describeValue(data)}`,
    );
  const count = countOf(what, shape, bytes);
  if (data.length !== count)
    throw rangeError(
      `${what}: a shape of [${shape}] has ${count} elements, data has ${data.length}`,
    );
  checkBools(what, dtype, data);
  return { dtype, shape: [...shape], data };
}

/**
 * Returns the option `names` of a reader, or undefined if the caller wants all tensors. Throws
 * TypeError for a wrong value.
 */
export function namesOf(
  what: string,
  options: { readonly names?: readonly string[] },
): readonly string[] | undefined {
  checkKeys(what, options, ['names']);
  const { names } = options;
  if (
    names !== undefined &&
    !(Array.isArray(names) && names.every((name) => typeof name === 'string'))
  )
    throw typeError(`${what}: names must be an array of names, got ${describeValue(names)}`);
  return names;
}

/**
 * Throws RangeError if one of `names` is not in `there`, the names in the file. `what` names the
 * reader and its file for the error.
 */
export function checkThere(
  what: string,
  names: readonly string[] | undefined,
  there: readonly string[],
): void {
  for (const name of names ?? [])
    if (!there.includes(name))
      throw rangeError(`${what} has no ${describeValue(name)}; it has ${there.join(', ')}`);
}

/** Throws RangeError if an element of dtype bool is neither 0 nor 1. */
export function checkBools(what: string, dtype: DType, data: ArrayOf<DType>): void {
  if (dtype !== 'bool') return;
  const invalid = (data as Uint8Array).findIndex((each) => each > 1);
  if (invalid >= 0) throw malformed(what, `bool is 0 or 1, element ${invalid} is ${data[invalid]}`);
}

/**
 * Returns the entries of a plain object. Throws TypeError for any other value. Object.entries()
 * would return nothing for a Map, for example.
 */
export function entriesOf<T>(what: string, record: Readonly<Record<string, T>>): [string, T][] {
  const above =
    typeof record === 'object' && record !== null ? Object.getPrototypeOf(record) : undefined;
  // A plain object has either no prototype, or a prototype that has none. The Object.prototype of
  // another realm also passes this test.
  if (above === undefined || (above !== null && Object.getPrototypeOf(above) !== null)) {
    const late = record instanceof Promise ? '; await it' : '';
    throw typeError(`${what} must be a plain object, got ${describeValue(record)}${late}`);
  }
  return Object.entries(record);
}

/** Checks the names and tensors of a record, and returns them in the record's order. */
export function checkTensors(what: string, tensors: NamedTensors): [string, TensorData][] {
  return entriesOf(`${what}: tensors`, tensors).map(([name, tensor]) => {
    checkText(`${what}: a tensor's name`, name);
    return [name, checkTensor(`${what}: ${describeValue(name)}`, tensor)];
  });
}

/** Throws unless `text` is a string that UTF-8 can encode. */
export function checkText(what: string, text: unknown): asserts text is string {
  if (typeof text !== 'string')
    throw typeError(`${what} must be a string, got ${describeValue(text)}`);
  if (!text.isWellFormed())
    throw rangeError(`${what} has half of a surrogate pair, which UTF-8 cannot encode`);
}

/** Returns a record without a prototype, in which `__proto__` and `constructor` are plain names. */
export function recordOf<T>(entries: Iterable<readonly [string, T]>): Record<string, T> {
  const record = Object.create(null) as Record<string, T>;
  for (const [name, value] of entries) record[name] = value;
  return record;
}

/** Returns a new typed array. Throws ERR_HOTSLOT_MEMORY if the engine cannot allocate it. */
export function freshArray<D extends DType>(what: string, dtype: D, length: number): ArrayOf<D> {
  try {
    return arrayOf(dtype, length);
  } catch {
    throw rangeError(
      `${what}: ${length * dtypes[dtype].bytes} bytes do not fit into memory`,
      'ERR_HOTSLOT_MEMORY',
    );
  }
}

/**
 * Bytes of one view in bytesOf(). Node 20 limits views to 2³² bytes. This size is a multiple of
 * every dtype's element.
 */
const VIEW = 2 ** 30;

/**
 * Returns views of the array's memory as bytes, in order. The bytes are little-endian, as in the
 * file formats and on every machine that Hotslot supports.
 */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayOf<DType>): Uint8Array[] {
  return Array.from({ length: Math.ceil(byteLength / VIEW) }, (_, i) => {
    return new Uint8Array(buffer, byteOffset + i * VIEW, Math.min(VIEW, byteLength - i * VIEW));
  });
}

/** Copies bytes into the memory of `data`, starting at byte offset `at`. */
export function putBytes({ buffer, byteOffset }: ArrayOf<DType>, bytes: Uint8Array, at = 0): void {
  new Uint8Array(buffer, byteOffset + at, bytes.length).set(bytes);
}

/**
 * Throws a TypeError unless `bytes` is a Uint8Array, such as a Buffer. Also throws one if its
 * memory was transferred away or shrank.
 */
export function checkBytes(what: string, bytes: unknown): asserts bytes is Uint8Array {
  if (!(bytes instanceof Uint8Array))
    throw typeError(`${what} takes a Uint8Array, got ${describeValue(bytes)}`);
  try {
    bytes.subarray(0, 0);
  } catch {
    throw typeError(`${what}: the memory of these bytes was transferred away, or shrank`);
  }
}
