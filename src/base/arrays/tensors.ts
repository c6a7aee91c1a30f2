/** Tensors in memory, as files are read into and written from them, and their checks. */
import { checkCount, checkKeys, describeValue } from '../checks.ts';
import { type ArrayOf, arrayOf, checkDType, type DType, dtypes } from '../dtype.ts';
import { type CodedError, rangeError, typeError } from '../errors.ts';

/** A tensor in the host's memory. An entry of a learner's state is one. */
export interface TensorData {
  readonly dtype: DType;
  /** `[]` is a scalar */
  readonly shape: readonly number[];
  /** row-major, the typed array of `dtype`, as long as the shape's product */
  readonly data: ArrayOf<DType>;
}

/** Tensors by name. `await learner.state()` returns such a record. */
export type NamedTensors = Readonly<Record<string, TensorData>>;

/** Makes the error for bytes that are not what they should be. */
export const malformed = (what: string, why: string): CodedError => rangeError(`${what}: ${why}`);

/**
 * Returns the elements of a shape. Throws RangeError if a dimension is not a whole number of at
 * least 0, or if the bytes of all elements are more than a number can hold exactly.
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
 * Throws unless `tensor` is { dtype, shape, data } that belong together. Returns them as they are
 * now.
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
 * Returns the names that a reader is to read, or undefined for all. Throws TypeError for other
 * values.
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

/** Throws RangeError for a name that is not `there`. `what`: the reader and its file. */
export function checkThere(
  what: string,
  names: readonly string[] | undefined,
  there: readonly string[],
): void {
  for (const name of names ?? [])
    if (!there.includes(name))
      throw rangeError(`${what} has no ${describeValue(name)}; it has ${there.join(', ')}`);
}

/** Throws RangeError for a bool that is neither 0 nor 1. */
export function checkBools(what: string, dtype: DType, data: ArrayOf<DType>): void {
  if (dtype !== 'bool') return;
  const invalid = (data as Uint8Array).findIndex((each) => each > 1);
  if (invalid >= 0) throw malformed(what, `bool is 0 or 1, element ${invalid} is ${data[invalid]}`);
}

/**
 * Returns the entries of a plain object. Throws TypeError for any other value, such as a Map, whose
 * entries would be ignored.
 */
export function entriesOf<T>(what: string, record: Readonly<Record<string, T>>): [string, T][] {
  const above =
    typeof record === 'object' && record !== null ? Object.getPrototypeOf(record) : undefined;
  // A plain object has no prototype, or one that has none itself: another realm's Object.prototype
  // is good too.
  if (above === undefined || (above !== null && Object.getPrototypeOf(above) !== null)) {
    const late = record instanceof Promise ? '; await it' : '';
    throw typeError(`${what} must be a plain object, got ${describeValue(record)}${late}`);
  }
  return Object.entries(record);
}

/** Returns names and tensors, checked, in the order of the record. */
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

/** Returns a record in which every name is only a name, `__proto__` and `constructor` too. */
export function recordOf<T>(entries: Iterable<readonly [string, T]>): Record<string, T> {
  const record = Object.create(null) as Record<string, T>;
  for (const [name, value] of entries) record[name] = value;
  return record;
}

/** Returns a new array. Throws ERR_HOTSLOT_MEMORY if it does not fit into memory. */
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

/** Bytes of one view, whole elements of every dtype. Node 20 has no view of more than 2³² bytes. */
const VIEW = 2 ** 30;

/**
 * Returns the same memory as bytes, in views one after the other. Little-endian, as are the formats
 * and every machine that Hotslot runs on.
 */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayOf<DType>): Uint8Array[] {
  return Array.from({ length: Math.ceil(byteLength / VIEW) }, (_, i) => {
    return new Uint8Array(buffer, byteOffset + i * VIEW, Math.min(VIEW, byteLength - i * VIEW));
  });
}

/** Puts bytes into the memory of `data`, from byte `at` on. */
export function putBytes({ buffer, byteOffset }: ArrayOf<DType>, bytes: Uint8Array, at = 0): void {
  new Uint8Array(buffer, byteOffset + at, bytes.length).set(bytes);
}

/**
 * Throws a TypeError unless `bytes` is a Uint8Array (a Buffer is one) whose memory is still there.
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
