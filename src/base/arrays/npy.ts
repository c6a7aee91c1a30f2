/** Encodes and decodes npy files, which contain one numpy array, as np.save() writes it. */
import { type ArrayOf, type DType, dtypes } from '../dtype.ts';
import {
  makeNpyHeader,
  type NpyHeader,
  npyPlaces,
  PREAMBLE,
  parseNpyHeader,
} from './npy-header.ts';
import {
  bytesOf,
  checkBools,
  checkBytes,
  checkTensor,
  freshArray,
  putBytes,
  type TensorData,
} from './tensors.ts';

/**
 * Returns the bytes of an npy file with the tensor: version 1.0, little-endian, row-major.
 *
 * @throws {TypeError|RangeError} if dtype, shape and data do not match each other. TypeError for
 *   bfloat16, which numpy lacks
 * @example
 * const data = Float32Array.of(1, 2, 3, 4);
 * writeFileSync('obs.npy', encodeNpy({ dtype: 'float32', shape: [2, 2], data }));
 */
export function encodeNpy(tensor: TensorData): Uint8Array {
  const what = 'encodeNpy';
  const checked = checkTensor(`${what}: the tensor`, tensor);
  const header = makeNpyHeader(what, checked);
  const bytes = freshArray(what, 'uint8', header.length + checked.data.byteLength);
  bytes.set(header);
  let at = header.length;
  for (const part of bytesOf(checked.data)) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Decodes the bytes of an npy file (versions 1.0 to 3.0) into a new array. Converts big-endian data
 * and Fortran order.
 * @param bytes the whole file
 * @returns dtype, shape, and data in row-major order
 * @throws {RangeError} if the bytes are not an npy file
 * @throws {TypeError} for a dtype that Hotslot lacks: objects, structured dtypes, complex numbers,
 *   text, dates. The text names the remedy
 * @example
 * const { dtype, shape, data } = decodeNpy(readFileSync('obs.npy'));
 */
export function decodeNpy(bytes: Uint8Array): TensorData {
  const what = 'decodeNpy';
  checkBytes(what, bytes);
  const places = npyPlaces(what, bytes.subarray(0, PREAMBLE), bytes.length);
  const dictionary = bytes.subarray(places.dictionary, places.data);
  const header = parseNpyHeader(what, dictionary, bytes.length - places.data);
  const data = freshArray(what, header.dtype, header.count);
  putBytes(data, bytes.subarray(places.data));
  return tensorOf(what, header, data);
}

/**
 * Returns the tensor that `header` describes. `data` has the elements in the file's byte order and
 * dimension order, and may be changed in place.
 */
export function tensorOf(what: string, header: NpyHeader, data: ArrayOf<DType>): TensorData {
  const { dtype, shape, bigEndian, fortran } = header;
  if (bigEndian) for (const part of bytesOf(data)) swap(dtypes[dtype].bytes, part);
  checkBools(what, dtype, data);
  // Fortran order equals row-major order if at most one dimension is longer than 1.
  const turned = fortran && shape.filter((d) => d > 1).length > 1;
  return { dtype, shape, data: turned ? rowMajor(what, header, data) : data };
}

function swap(width: number, { buffer, byteOffset, length }: Uint8Array): void {
  const bytes = Buffer.from(buffer, byteOffset, length);
  if (width === 2) bytes.swap16();
  if (width === 4) bytes.swap32();
  if (width === 8) bytes.swap64();
}

/** Returns a copy of the elements in row-major order. `from` has them in Fortran order. */
function rowMajor(
  what: string,
  { dtype, shape, count }: NpyHeader,
  from: ArrayOf<DType>,
): ArrayOf<DType> {
  const to = freshArray(what, dtype, count);
  // Copies elements as unsigned integers, because copying a float could change the bits of a NaN.
  const words = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[
    dtypes[dtype].bytes
  ];
  const [source, target] = [from, to].map(
    (each) => new words(each.buffer as ArrayBuffer, each.byteOffset, count),
  ) as [Uint32Array, Uint32Array];
  let step = 1;
  const strides = shape.map((d) => {
    const stride = step;
    step *= d;
    return stride;
  });
  const index = shape.map(() => 0);
  let at = 0;
  for (let i = 0; i < count; i++) {
    target[i] = source[at] as number;
    for (let d = shape.length - 1; d >= 0; d--) {
      at += strides[d] as number;
      if (++(index[d] as number) < (shape[d] as number)) break;
      at -= (strides[d] as number) * (shape[d] as number);
      index[d] = 0;
    }
  }
  return to;
}
