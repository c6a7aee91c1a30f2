/**
 * The header of a safetensors file: eight bytes with its length, little-endian, then JSON with each
 * tensor's dtype, shape, and the place of its bytes.
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
 * Our dtypes by the format's names, in the order in which a file has their tensors: those of the
 * most bytes come first.
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
/** The format's limit, in bytes. */
const MAX_HEADER_BYTES = 100_000_000;
/** Bytes of the length in front. */
export const LENGTH = 8;

/** The place of a tensor in the bytes after the header. */
interface Place {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}
export interface Placed extends Place {
  readonly dtype: DType;
  readonly shape: readonly number[];
}
/** A tensor of a dtype that Hotslot lacks, with the error for a caller that asks for it. */
interface Foreign extends Place {
  readonly refusal: TypeError;
}

/** Returns length and header as bytes, and the tensors in the order in which they follow. */
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

/** Compares names in UTF-8's order, which is not that of JavaScript's strings. */
const byBytes = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b));

/**
 * Returns the header's length in bytes, from the first eight bytes (or all, if fewer) and the size
 * of all.
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
 * Parses a header, and returns its tensors in the order of their bytes. `room` is the number of
 * bytes after it. All of it is checked. `names`: the tensors that are asked for, by default all.
 * Throws for one that is not there, and TypeError for one of a dtype that Hotslot lacks.
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
    // Some writers write null instead of leaving it out.
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
  const given = names ? placed.filter(({ name }) => names.includes(name)) : placed;
  return { placed: given.map(known), metadata };
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
