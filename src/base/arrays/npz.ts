/** Reads and writes npz files, which are zip files of numpy arrays, as np.savez() writes them. */
import { checkPath, describeValue } from '../checks.ts';
import { rangeError } from '../errors.ts';
import { type Reading, reading, writeWhole } from './files.ts';
import { tensorOf } from './npy.ts';
import { makeNpyHeader, npyPlaces, PREAMBLE, parseNpyHeader } from './npy-header.ts';
import {
  bytesOf,
  checkTensors,
  checkThere,
  freshArray,
  malformed,
  type NamedTensors,
  namesOf,
  putBytes,
  recordOf,
  type TensorData,
} from './tensors.ts';
import { entryBytes, type ZipEntry, zipEntries } from './zip-reader.ts';
import { ZipWriter } from './zip-writer.ts';

const ENDING = '.npy';

/**
 * Writes tensors to an npz file, uncompressed like np.savez(). Each tensor is an entry `name.npy`,
 * in the order of the record. Equal records give equal bytes. The file replaces `path` atomically,
 * as with writeSafetensors(). A file above 4 GiB, or with 65,535 tensors or more, is a zip64 file.
 *
 * @param tensors the data is not copied, and must not change until the promise resolves
 * @throws {TypeError|RangeError} if dtype, shape and data do not match each other, for bfloat16,
 *   and for names that zip cannot store. The text names the tensor
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be written
 * @example
 * const data = Float32Array.of(1, 2);
 * await writeNpz('rows.npz', { obs: { dtype: 'float32', shape: [2], data } });
 */
export async function writeNpz(path: string | URL, tensors: NamedTensors): Promise<void> {
  const to = checkPath('writeNpz', path);
  const entries = checkTensors('writeNpz', tensors).map(([name, tensor]) => {
    const what = `writeNpz: ${describeValue(name)}`;
    if (name.includes('\0') || Buffer.byteLength(name) > 0xffff - ENDING.length)
      throw rangeError(
        `${what}: a name in a zip file is at most ${0xffff - ENDING.length} bytes, without NUL`,
      );
    return [name + ENDING, [makeNpyHeader(what, tensor), ...bytesOf(tensor.data)]] as const;
  });
  await writeWhole(`writeNpz: '${to}'`, to, async (put) => {
    const zip = new ZipWriter(put);
    for (const [name, parts] of entries) await zip.add(name, parts);
    await zip.end();
  });
}

export interface ReadNpzOptions {
  /** names of the arrays to read (default: all). All other arrays are skipped */
  readonly names?: readonly string[];
}

/**
 * Reads an npz file of np.savez() or np.savez_compressed(), with or without zip64. Decodes each
 * entry like decodeNpy(), and checks its CRC-32.
 *
 * @param options `names`: the entries to read (default: all)
 * @returns tensors by name, in a record without a prototype
 * @throws {RangeError} if the file is not an npz file, is damaged, or lacks a name. The text names
 *   the entry
 * @throws {TypeError} for an entry of a dtype that Hotslot lacks. To read the other entries, pass
 *   their `names`
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be read
 * @example
 * const names = ['observations', 'actions'];
 * const { observations, actions } = await readNpz('d4rl.npz', { names });
 */
export async function readNpz(
  path: string | URL,
  options: ReadNpzOptions = {},
): Promise<NamedTensors> {
  const from = checkPath('readNpz', path);
  const names = namesOf('readNpz', options);
  const { tensors, foreign, there } = await arraysOf(from, names);
  checkThere(`readNpz: '${from}'`, names, there);
  for (const refusal of foreign.values()) throw refusal;
  return tensors;
}

/** The arrays of an npz file. `foreign` has the errors for arrays of dtypes that Hotslot lacks. */
export interface NpzArrays {
  readonly tensors: NamedTensors;
  readonly foreign: ReadonlyMap<string, TypeError>;
  /** names of all arrays in the file */
  readonly there: readonly string[];
}

/** Reads the arrays whose names are in `names` (default: all). */
export async function arraysOf(from: string, names?: readonly string[]): Promise<NpzArrays> {
  const what = `readNpz: '${from}'`;
  return reading(what, from, async (file) => {
    const tensors: [string, TensorData][] = [];
    const foreign = new Map<string, TypeError>();
    const there: string[] = [];
    for (const entry of await zipEntries(what, file)) {
      const whose = `${what}: ${describeValue(entry.name)}`;
      if (!entry.name.endsWith(ENDING))
        throw malformed(whose, 'it is not an array: names of arrays in an npz end with .npy');
      const name = entry.name.slice(0, -ENDING.length);
      there.push(name);
      if (names && !names.includes(name)) continue;
      try {
        tensors.push([name, await arrayOf(whose, file, entry)]);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        foreign.set(name, error);
      }
    }
    return { tensors: recordOf(tensors), foreign, there };
  });
}

async function arrayOf(what: string, file: Reading, entry: ZipEntry): Promise<TensorData> {
  let start = new Uint8Array();
  let header: ReturnType<typeof parseNpyHeader> | undefined;
  let data: TensorData['data'] | undefined;
  let at = 0;
  for await (const piece of entryBytes(what, file, entry)) {
    let rest = piece;
    if (data === undefined) {
      start = Buffer.concat([start, piece]);
      if (start.length < Math.min(PREAMBLE, entry.size)) continue;
      const places = npyPlaces(what, start, entry.size);
      if (start.length < places.data) continue;
      header = parseNpyHeader(
        what,
        start.subarray(places.dictionary, places.data),
        entry.size - places.data,
      );
      data = freshArray(what, header.dtype, header.count);
      rest = start.subarray(places.data);
    }
    putBytes(data, rest, at);
    at += rest.length;
  }
  if (header === undefined || data === undefined) throw malformed(what, 'it is empty');
  return tensorOf(what, header, data);
}
