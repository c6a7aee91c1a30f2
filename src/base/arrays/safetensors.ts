/**
 * Encodes and decodes safetensors files. Such a file has named tensors and no code. torch and other
 * frameworks store weights in it.
 */
import { checkPath, describeValue } from '../checks.ts';
import { dtypes } from '../dtype.ts';
import { type Put, reading, writeWhole } from './files.ts';
import {
  headerLength,
  LENGTH,
  makeHeader,
  type Placed,
  parseHeader,
} from './safetensors-header.ts';
import {
  bytesOf,
  checkBools,
  checkBytes,
  freshArray,
  type NamedTensors,
  namesOf,
  putBytes,
  recordOf,
  type TensorData,
} from './tensors.ts';

/** The contents of a safetensors file. */
export interface Safetensors {
  /**
   * tensors by name, in the order of the file, but with names that are whole numbers first. The
   * record has no prototype, so that `__proto__` is an ordinary name
   */
  readonly tensors: NamedTensors;
  /** `__metadata__`, empty if the file has none */
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Returns the bytes of a safetensors file with the tensors, which may have any dtype and shape.
 * Equal tensors and texts give equal bytes, independent of the order of the arguments' keys.
 * @param metadata texts that the file contains
 * @throws {TypeError|RangeError} if dtype, shape and data do not match each other, and for the name
 *   `__metadata__`. The text names the tensor
 * @throws {ERR_HOTSLOT_MEMORY} if the bytes do not fit into memory. writeSafetensors() needs no
 *   copy
 * @example
 * const bytes = encodeSafetensors(await learner.state(), { format: 'pt' });
 */
export function encodeSafetensors(
  tensors: NamedTensors,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const { header, sorted } = makeHeader('encodeSafetensors', tensors, metadata);
  const size = sorted.reduce((sum, { data }) => sum + data.byteLength, header.length);
  const bytes = freshArray('encodeSafetensors', 'uint8', size);
  bytes.set(header);
  let at = header.length;
  for (const { data } of sorted) {
    for (const part of bytesOf(data)) {
      bytes.set(part, at);
      at += part.length;
    }
  }
  return bytes;
}

export interface ReadSafetensorsOptions {
  /** names of the tensors to read (default: all). All other tensors may have any dtype */
  readonly names?: readonly string[];
}

/**
 * Decodes the bytes of a safetensors file. Returns the tensors in new arrays, and the texts.
 *
 * @param options `names`: the tensors to read (default: all)
 * @throws {RangeError} if the bytes break a rule of the format, or if a name is missing. The text
 *   has the rule and the tensor
 * @throws {TypeError} for a tensor of a dtype that Hotslot lacks, such as `F8_E4M3`. To read the
 *   other tensors, pass their `names`
 * @example
 * const { tensors, metadata } = decodeSafetensors(readFileSync('dqn.safetensors'));
 */
export function decodeSafetensors(
  bytes: Uint8Array,
  options: ReadSafetensorsOptions = {},
): Safetensors {
  const what = 'decodeSafetensors';
  checkBytes(what, bytes);
  const names = namesOf(what, options);
  const start = LENGTH + headerLength(what, bytes.subarray(0, LENGTH), bytes.length);
  const { placed, metadata } = parseHeader(
    what,
    bytes.subarray(LENGTH, start),
    bytes.length - start,
    names,
  );
  const tensors = placed.map((each): [string, TensorData] => {
    const tensor = roomFor(what, each);
    putBytes(tensor.data, bytes.subarray(start + each.begin, start + each.end));
    return [each.name, filled(what, each, tensor)];
  });
  return { tensors: recordOf(tensors), metadata };
}

/**
 * Writes a safetensors file atomically. Writes a temporary file next to `path`, flushes it to the
 * disk, then renames it to `path`. A reader of `path` finds either the complete old file or the
 * complete new file, even after a loss of power. After a failure, `path` is unchanged, and the
 * temporary file is removed.
 *
 * @param tensors the data is not copied, and must not change until the promise resolves
 * @param metadata texts that the file contains
 * @throws {TypeError|RangeError} for the same reasons as encodeSafetensors()
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be written
 * @example
 * await writeSafetensors('dqn.safetensors', await learner.state(), { format: 'pt' });
 */
export async function writeSafetensors(
  path: string | URL,
  tensors: NamedTensors,
  metadata: Readonly<Record<string, string>> = {},
): Promise<void> {
  const to = checkPath('writeSafetensors', path);
  const fill = fillSafetensors('writeSafetensors', tensors, metadata);
  await writeWhole(`writeSafetensors: '${to}'`, to, fill);
}

/**
 * Returns a function that passes the bytes of a safetensors file to its argument `put`, for
 * writeWhole() and writeAtomically(). Throws like encodeSafetensors().
 */
export function fillSafetensors(
  what: string,
  tensors: NamedTensors,
  metadata: Readonly<Record<string, string>> = {},
): (put: Put) => Promise<void> {
  const { header, sorted } = makeHeader(what, tensors, metadata);
  return async (put) => {
    await put(header);
    for (const { data } of sorted) for (const part of bytesOf(data)) await put(part);
  };
}

/**
 * Reads a safetensors file. Reads each tensor directly into its own array, so the file may be
 * larger than an array can be.
 *
 * @param options `names`: the tensors to read (default: all)
 * @throws {RangeError|TypeError} for the same reasons as decodeSafetensors()
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be read
 * @example
 * const { tensors } = await readSafetensors('dqn.safetensors', { names: ['online.0.weight'] });
 */
export async function readSafetensors(
  path: string | URL,
  options: ReadSafetensorsOptions = {},
): Promise<Safetensors> {
  const from = checkPath('readSafetensors', path);
  const names = namesOf('readSafetensors', options);
  const what = `readSafetensors: '${from}'`;
  return reading(what, from, async ({ size, read }) => {
    const first = new Uint8Array(Math.min(LENGTH, size));
    await read(first, 0);
    const header = freshArray(what, 'uint8', headerLength(what, first, size));
    await read(header, LENGTH);
    const start = LENGTH + header.length;
    const { placed, metadata } = parseHeader(what, header, size - start, names);
    const tensors: [string, TensorData][] = [];
    for (const each of placed) {
      const tensor = roomFor(what, each);
      let at = start + each.begin;
      for (const part of bytesOf(tensor.data)) {
        await read(part, at);
        at += part.length;
      }
      tensors.push([each.name, filled(what, each, tensor)]);
    }
    return { tensors: recordOf(tensors), metadata };
  });
}

function roomFor(what: string, { name, dtype, shape, begin, end }: Placed): TensorData {
  return {
    dtype,
    shape,
    data: freshArray(`${what}: ${describeValue(name)}`, dtype, (end - begin) / dtypes[dtype].bytes),
  };
}

function filled(what: string, { name, dtype }: Placed, tensor: TensorData): TensorData {
  checkBools(`${what}: ${describeValue(name)}`, dtype, tensor.data);
  return tensor;
}
