/**
 * Makes and parses the header of a safetensors file. It begins with the length of the JSON text in
 * eight bytes, little-endian. The JSON text has each tensor's dtype, shape and byte range.
 */
import { describeValue } from '../checks.ts';
import { type DType, dtypes } from '../dtype.ts';
import { type CodedError, rangeError, typeError } from '../errors.ts';
import { type Json, parseJson } from './strict-json.ts';
import {
  checkTensors,
  checkText,
  checkThere,
  countOf,
  entriesOf,
  malformed,
  type NamedTensors,
  recordOf,
  type TensorData,
} from './tensors.ts';

/**
 * The format's name of each dtype. Files have their tensors in the order of these dtypes, from
 * those with the most bytes per element to those with the fewest.
 */
const NAMES: Readonly<Record<DType, string>> = {
  uint64: 'U64',
  int64: 'I64',
  float64: 'F64',
  float32: 'F32',
  uint32: 'U32',
  int32: 'I32',
  bfloat16: 'BF16',
  float16: 'F16',
  uint16: 'U16',
  int16: 'I16',
  int8: 'I8',
  uint8: 'U8',
  bool: 'BOOL',
};
const order = Object.keys(NAMES);
const dtypeOfName = new Map(Object.entries(NAMES).map(([dtype, name]) => [name, dtype as DType]));

const METADATA = '__metadata__';
/** Maximum bytes of a header's JSON text, which the format defines. */
const MAX_HEADER_BYTES = 100_000_000;
/** Bytes of the length field at the file's start. */
export const LENGTH = 8;

/** A tensor's byte range, as offsets from the header's end. */
interface Place {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}
export interface Placed extends Place {
  readonly dtype: DType;
  readonly shape: readonly number[];
}
/** A tensor of a dtype that Hotslot lacks. `refusal` is the error for a caller that reads it. */
interface Foreign extends Place {
  readonly refusal: TypeError;
}

/** Returns the bytes of length and JSON text, and the tensors in the order of the file. */
export function makeHeader(
  what: string,
  tensors: NamedTensors,
  metadata: Readonly<Record<string, string>>,
): { header: Uint8Array; sorted: readonly TensorData[] } {
  const checked = checkTensors(what, tensors);
  if (checked.some(([name]) => name === METADATA))
    throw rangeError(
      `${what}: ${METADATA} cannot be a tensor's name: the format reserves it for texts, the second argument`,
    );
  const texts = entriesOf(`${what}: metadata`, metadata);
  for (const [key, text] of texts) {
    checkText(`${what}: a key of the metadata`, key);
    checkText(`${what}: metadata ${describeValue(key)}`, text);
  }
  const rank = ([, { dtype }]: readonly [string, TensorData]) => order.indexOf(dtype);
  const sorted = checked.sort((a, b) => rank(a) - rank(b) || byBytes(a, b));
  let end = 0;
  const parts = sorted.map(([name, { dtype, shape, data }]) => {
    const begin = end;
    end += data.byteLength;
    const entry = { dtype: NAMES[dtype], shape, data_offsets: [begin, end] };
    return `${JSON.stringify(name)}:${JSON.stringify(entry)}`;
  });
  if (texts.length > 0) {
    const written = texts
      .sort(byBytes)
      .map(([key, text]) => `${JSON.stringify(key)}:${JSON.stringify(text)}`);
    parts.unshift(`"${METADATA}":{${written.join()}}`);
  }
  const json = Buffer.from(`{${parts.join()}}`);
  const length = Math.ceil(json.length / 8) * 8;
  if (length > MAX_HEADER_BYTES)
    throw rangeError(
      `${what}: the header would be ${length} bytes, the format allows ${MAX_HEADER_BYTES}: use shorter texts`,
    );
  const header = new Uint8Array(LENGTH + length).fill(0x20, LENGTH);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(json, LENGTH);
  return { header, sorted: sorted.map(([, tensor]) => tensor) };
}

/** Compares names by their UTF-8 bytes. JavaScript's comparison of strings has another order. */
const byBytes = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b));

/**
 * Returns the number of bytes of the JSON text. `first` has the first eight bytes of the file, or
 * all if the file is shorter. `size` is the size of the file.
 */
export function headerLength(what: string, first: Uint8Array, size: number): number {
  if (first.length < LENGTH)
    throw malformed(
      what,
      `${size} bytes are not a safetensors file: the header's length alone has 8`,
    );
  const length = new DataView(first.buffer, first.byteOffset).getBigUint64(0, true);
  if (length > MAX_HEADER_BYTES)
    throw malformed(
      what,
      `the header claims ${length} bytes, the format allows ${MAX_HEADER_BYTES}`,
    );
  if (Number(length) > size - LENGTH)
    throw malformed(
      what,
      `the header claims ${length} bytes, but only ${size - LENGTH} follow its length`,
    );
  return Number(length);
}

/**
 * Parses and checks a whole header. Returns the tensors in `names` (default: all) in the order of
 * their bytes. `room` is the number of bytes after the header. Throws RangeError if a name is
 * missing or the header breaks a rule. Throws TypeError if a returned tensor would have a dtype
 * that Hotslot lacks.
 */
export function parseHeader(
  what: string,
  header: Uint8Array,
  room: number,
  names?: readonly string[],
): { placed: readonly Placed[]; metadata: Record<string, string> } {
  if (header[0] !== 0x7b) throw malformed(what, "the header must begin with '{'");
  const json = parseJson(what, decoded(what, header)) as ReadonlyMap<string, Json>;
  const placed: (Placed | Foreign)[] = [];
  let metadata: Record<string, string> = recordOf([]);
  for (const [name, entry] of json) {
    // Some writers write null instead of omitting `__metadata__`.
    if (name === METADATA) metadata = entry === null ? recordOf([]) : textsOf(what, entry);
    else placed.push(placedOf(`${what}: ${describeValue(name)}`, name, entry, room));
  }
  placed.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let last = 0;
  for (const { name, begin, end } of placed) {
    if (begin !== last) {
      const why =
        begin > last ? `no tensor has bytes ${last} to ${begin}` : 'it overlaps the one before';
      throw malformed(what, `${describeValue(name)} begins at byte ${begin} of the data: ${why}`);
    }
    last = end;
  }
  if (last !== room)
    throw malformed(what, `the tensors end at byte ${last} of the data, which has ${room}`);
  checkThere(
    what,
    names,
    [...json.keys()].filter((name) => name !== METADATA),
  );
  const chosen = names ? placed.filter(({ name }) => names.includes(name)) : placed;
  return { placed: chosen.map(known), metadata };
}

function known(place: Placed | Foreign): Placed {
  if ('refusal' in place) throw place.refusal;
  return place;
}

function decoded(what: string, header: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header);
  } catch {
    throw malformed(what, 'the header is not UTF-8');
  }
}

function textsOf(what: string, entry: Json): Record<string, string> {
  const wrong = (): CodedError =>
    malformed(what, `${METADATA} must hold texts by name, got ${describeValue(entry)}`);
  if (!(entry instanceof Map)) throw wrong();
  const texts = [...(entry as ReadonlyMap<string, Json>)];
  for (const [key, text] of texts)
    if (typeof text !== 'string')
      throw malformed(
        what,
        `${METADATA} must hold texts by name, ${describeValue(key)} is ${describeValue(text)}`,
      );
  return recordOf(texts as [string, string][]);
}

const KEYS = ['dtype', 'shape', 'data_offsets'];

function placedOf(what: string, name: string, entry: Json, room: number): Placed | Foreign {
  if (!(entry instanceof Map))
    throw malformed(what, `a tensor must be an object, got ${describeValue(entry)}`);
  const fields = entry as ReadonlyMap<string, Json>;
  for (const key of KEYS) if (!fields.has(key)) throw malformed(what, `${key} is missing`);
  for (const key of fields.keys())
    if (!KEYS.includes(key))
      throw malformed(what, `unknown key ${describeValue(key)}; a tensor has ${KEYS.join(', ')}`);
  const [called, shape, offsets] = KEYS.map((key) => fields.get(key));
  if (typeof called !== 'string')
    throw malformed(what, `dtype must be a text, got ${describeValue(called)}`);
  const dtype = dtypeOfName.get(called);
  if (!Array.isArray(shape))
    throw malformed(what, `shape must be an array, got ${describeValue(shape)}`);
  const [begin, end] = Array.isArray(offsets) && offsets.length === 2 ? offsets : [];
  if (typeof begin !== 'number' || typeof end !== 'number')
    throw malformed(what, `data_offsets must be two numbers, got ${describeValue(offsets)}`);
  if (begin > end || end > room)
    throw malformed(
      what,
      `data_offsets [${begin},${end}] must increase, within the ${room} bytes after the header`,
    );
  if (dtype === undefined) {
    const ours = Object.values(NAMES).join(', ');
    const way = `save it as one of ${ours}, or read the other tensors with names: […]`;
    return {
      name,
      begin,
      end,
      refusal: typeError(`${what}: Hotslot has no ${describeValue(called)}: ${way}`),
    };
  }
  const { bytes } = dtypes[dtype];
  const size = countOf(what, shape, bytes) * bytes;
  if (end - begin !== size)
    throw malformed(
      what,
      `${called} of shape [${shape}] is ${size} bytes, data_offsets [${begin},${end}] are ${end - begin}`,
    );
  return { name, dtype, shape: [...(shape as number[])], begin, end };
}
