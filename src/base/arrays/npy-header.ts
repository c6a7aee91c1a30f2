/**
 * Makes and parses the header of an npy file. The header is a magic word, a version, the length of
 * the rest, and a Python dictionary with dtype, order and shape. Versions 1.0 to 3.0 differ in the
 * width of the length, and in the encoding of the dictionary. For arrays of numbers the dictionary
 * is ASCII in all versions.
 */
import { describeValue } from '../checks.ts';
import { type DType, dtypes } from '../dtype.ts';
import { typeError } from '../errors.ts';
import { Scanner } from './scanner.ts';
import { countOf, malformed, type TensorData } from './tensors.ts';

/** numpy's name of each dtype, without the prefix for the byte order. */
const NAMES: Readonly<Record<Exclude<DType, 'bfloat16'>, string>> = {
  float64: 'f8',
  float32: 'f4',
  float16: 'f2',
  int64: 'i8',
  int32: 'i4',
  int16: 'i2',
  int8: 'i1',
  uint64: 'u8',
  uint32: 'u4',
  uint16: 'u2',
  uint8: 'u1',
  bool: 'b1',
};
const dtypeOfName = new Map(Object.entries(NAMES).map(([dtype, name]) => [name, dtype as DType]));

const MAGIC = Uint8Array.of(0x93, ...Buffer.from('NUMPY'));
/**
 * Number of bytes of the magic word, the version and the length field of versions 2.0 and 3.0.
 * Version 1.0 has a shorter length field, but every npy file is longer than this number.
 */
export const PREAMBLE = MAGIC.length + 2 + 4;
/**
 * Maximum bytes of a header. A file that claims a longer header is rejected as damaged. numpy
 * writes a few hundred bytes for an array of numbers.
 */
const MAX_HEADER_BYTES = 1 << 20;

/** A header's description of the data after the header. */
export interface NpyHeader {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** number of elements */
  readonly count: number;
  readonly bigEndian: boolean;
  /** whether the data is in Fortran order, in which the first dimension varies fastest */
  readonly fortran: boolean;
}

/**
 * Returns the bytes of the header. Pads the header as numpy does, so that the data begins at a
 * multiple of 64 bytes.
 */
export function makeNpyHeader(what: string, { dtype, shape }: TensorData): Uint8Array {
  if (dtype === 'bfloat16')
    throw typeError(
      `${what}: npy does not support bfloat16; give the float32 of fromBfloat16(data), or write safetensors`,
    );
  const order = dtypes[dtype].bytes === 1 ? '|' : '<';
  const tuple = `(${shape.join(', ')}${shape.length === 1 ? ',' : ''})`;
  const text = `{'descr': '${order}${NAMES[dtype]}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const lengthBytes = text.length < 65_000 ? 2 : 4;
  const start = MAGIC.length + 2 + lengthBytes;
  const total = Math.ceil((start + text.length + 1) / 64) * 64;
  const header = new Uint8Array(total).fill(0x20);
  header.set(MAGIC);
  header.set([lengthBytes === 2 ? 1 : 2, 0], MAGIC.length);
  const view = new DataView(header.buffer);
  if (lengthBytes === 2) view.setUint16(8, total - start, true);
  else view.setUint32(8, total - start, true);
  header.set(Buffer.from(text), start);
  header[total - 1] = 0x0a;
  return header;
}

/**
 * Returns the offsets of the dictionary and of the data. `first` has at least the first PREAMBLE
 * bytes of the file. `size` is the size of the file.
 */
export function npyPlaces(
  what: string,
  first: Uint8Array,
  size: number,
): { dictionary: number; data: number } {
  if (size < PREAMBLE || MAGIC.some((each, i) => first[i] !== each))
    throw malformed(what, 'it is not an npy file: npy files begin with \\x93NUMPY');
  const [major, minor] = [first[6] as number, first[7]];
  if (![1, 2, 3].includes(major) || minor !== 0)
    throw malformed(
      what,
      `npy version ${major}.${minor} is unknown; the versions are 1.0, 2.0 and 3.0`,
    );
  const view = new DataView(first.buffer, first.byteOffset);
  const dictionary = major === 1 ? 10 : 12;
  const length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > MAX_HEADER_BYTES)
    throw malformed(
      what,
      `the header claims ${length} bytes; the header of an array of numbers has a few hundred`,
    );
  if (dictionary + length > size)
    throw malformed(
      what,
      `the header claims ${length} bytes, but only ${size - dictionary} follow its length`,
    );
  return { dictionary, data: dictionary + length };
}

/** Parses the header's dictionary. `room` is the number of bytes after the dictionary. */
export function parseNpyHeader(what: string, dictionary: Uint8Array, room: number): NpyHeader {
  // latin1 is right for all versions, because the checks below reject all text that is not ASCII.
  const scanner = new Scanner(what, Buffer.from(dictionary).toString('latin1'));
  let type: { dtype: DType; bigEndian: boolean } | undefined;
  let fortran: boolean | undefined;
  let shape: number[] | undefined;
  scanner.expect('{');
  while (!scanner.took('}')) {
    const key = plainText(scanner);
    scanner.expect(':');
    if (key === 'descr' && type === undefined) type = typeOf(what, scanner);
    else if (key === 'fortran_order' && fortran === undefined) fortran = flagOf(scanner);
    else if (key === 'shape' && shape === undefined) shape = tupleOf(scanner);
    else scanner.fail(`the key ${describeValue(key)} is unknown or repeated`);
    if (!scanner.took(',')) {
      scanner.expect('}');
      break;
    }
  }
  scanner.end();
  if (type === undefined || fortran === undefined || shape === undefined)
    throw malformed(what, 'the header must contain descr, fortran_order and shape');
  const { bytes } = dtypes[type.dtype];
  const count = countOf(what, shape, bytes);
  if (count * bytes !== room)
    throw malformed(
      what,
      `${type.dtype} of shape [${shape}] is ${count * bytes} bytes, but ${room} follow the header`,
    );
  return { ...type, shape, count, fortran };
}

function plainText(scanner: Scanner): string {
  scanner.blanks();
  return scanner.quoted(scanner.next === "'" ? "'" : '"').slice(1, -1);
}

/**
 * Error texts for numpy dtypes that Hotslot lacks, by the letter of their kind. Each text has a
 * remedy.
 */
const others: Readonly<Record<string, string>> = {
  O: 'objects, which only pickle can read: save an array of numbers, with allow_pickle=False',
  V: 'void, which numpy writes for dtypes that are not its own, such as bfloat16; save the array as float32',
  c: 'complex: save real and imaginary parts as two arrays',
  U: 'text: save an array of numbers',
  S: 'bytes of text: save an array of numbers',
  a: 'bytes of text: save an array of numbers',
  M: "dates: save them as int64, by view('int64')",
  m: "time spans: save them as int64, by view('int64')",
};

function typeOf(what: string, scanner: Scanner): { dtype: DType; bigEndian: boolean } {
  scanner.blanks();
  if (scanner.next === '[' || scanner.next === '(')
    throw typeError(
      `${what}: its dtype is structured: save each field as an array of its own, without pickle`,
    );
  const written = plainText(scanner);
  const [, order = '', name = ''] = /^([<>|=]?)(.*)$/s.exec(written) ?? [];
  const dtype = dtypeOfName.get(name);
  if (dtype === undefined) {
    const why =
      others[name.charAt(0)] ??
      `unknown to Hotslot; save the array as one of ${Object.keys(NAMES).join(', ')}`;
    throw typeError(`${what}: its dtype ${describeValue(written)} is ${why}`);
  }
  if (dtypes[dtype].bytes > 1 && order !== '<' && order !== '>')
    throw malformed(
      what,
      `the dtype ${describeValue(written)} has no byte order: it must begin with < or >`,
    );
  return { dtype, bigEndian: order === '>' };
}

function flagOf(scanner: Scanner): boolean {
  scanner.blanks();
  if (scanner.word('True')) return true;
  if (!scanner.word('False')) scanner.fail('fortran_order must be True or False');
  return false;
}

/** Parses a Python tuple of whole numbers. Python 2 wrote an L after large numbers. */
function tupleOf(scanner: Scanner): number[] {
  const found: number[] = [];
  scanner.expect('(');
  while (!scanner.took(')')) {
    scanner.blanks();
    const digits = scanner.whileIn('0123456789');
    scanner.word('L');
    if (digits === '' || !Number.isSafeInteger(Number(digits)))
      scanner.fail('shape must be whole numbers from 0 to 2⁵³ − 1');
    found.push(Number(digits));
    if (scanner.took(',')) continue;
    scanner.expect(')');
    if (found.length === 1) scanner.fail('a tuple of one number has a comma');
    break;
  }
  return found;
}
