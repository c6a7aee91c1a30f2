/**
 * Reads and writes the manifest, which describes a checkpoint. A save writes it last, to a
 * temporary file that then replaces the previous manifest.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from '../../base/arrays/crc32.ts';
import { describeValue } from '../../base/checks.ts';
import { rangeError, unavailableError } from '../../base/errors.ts';
import { type FileFacts, type Folder, MANIFEST } from './folder.ts';

/** A value that JSON can represent. */
export type Plain =
  | string
  | number
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain };
/** An object whose values JSON can represent. */
export type PlainRecord = { readonly [key: string]: Plain };

/**
 * Facts of a saved part. A part can be restored only if its own facts are equal to `is`. The other
 * entries are values of the saved part.
 */
export interface PartFacts {
  readonly is: PlainRecord;
  readonly [value: string]: Plain;
}

/** Names of the values that the manifest contains for each part, in addition to `is`. */
const numbersOfPart = {
  buffer: ['largest', 'stale', 'odd'],
  limiter: ['inserts', 'samples'],
  mailbox: ['version'],
  learner: [],
  pipeline: ['tick', 'sequence', 'beta', 'applied', 'updates', 'prepared'],
  collectors: [],
  extra: [],
} as const;
/** The name of a part of a checkpoint. */
export type PartName = keyof typeof numbersOfPart;
export const parts = Object.keys(numbersOfPart) as PartName[];

export interface Manifest {
  /** id of the run, shared by all saves that resume each other */
  readonly run: string;
  /** number of the save, counted from 1 */
  readonly save: number;
  /** number of the last tick requested, −1 before the first tick and without a pipeline */
  readonly tick: number;
  /** time of the save, ISO 8601 */
  readonly time: string;
  readonly parts: Readonly<Partial<Record<PartName, PartFacts>>>;
  readonly files: readonly FileFacts[];
  readonly segments: readonly FileFacts[];
}

const keys = ['run', 'save', 'tick', 'time', 'parts', 'files', 'segments'];
const FORMAT = 'hotslot checkpoint';
const VERSION = 1;

const sumOf = (body: unknown) => crc32(Buffer.from(JSON.stringify(body)));

export function writeManifest(folder: Folder, manifest: Manifest): Promise<FileFacts> {
  // Converts the manifest to text and back. The checksum is then that of the parsed values, which
  // readManifest() computes again.
  const body: unknown = JSON.parse(JSON.stringify(manifest));
  const text = JSON.stringify(
    { format: FORMAT, version: VERSION, checksum: sumOf(body), body },
    null,
    1,
  );
  return folder.write(MANIFEST, (put) => put(Buffer.from(`${text}\n`)));
}

/**
 * Returns the manifest. Throws an error if the file cannot be read, is not a manifest, is damaged,
 * or was written by a newer version of Hotslot.
 */
export async function readManifest(folder: Folder): Promise<Manifest> {
  const path = join(folder.path, MANIFEST);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw unavailableError(
      `'${path}' cannot be read: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
  let whole: { format?: unknown; version?: unknown; checksum?: unknown; body?: Manifest };
  try {
    whole = JSON.parse(text);
  } catch {
    throw rangeError(`'${path}' is damaged: it is not valid JSON`);
  }
  if (whole?.format !== FORMAT) throw rangeError(`'${path}' is not the manifest of a checkpoint`);
  if (!Number.isSafeInteger(whole.version) || (whole.version as number) < 1)
    throw rangeError(
      `'${path}' is damaged: ${describeValue(whole.version)} is not a format version`,
    );
  if ((whole.version as number) > VERSION)
    throw rangeError(
      `'${folder.path}' was written by a newer Hotslot, in format ${whole.version}: this one reads up to ${VERSION}; update Hotslot`,
    );
  const { body } = whole;
  if (body === undefined || sumOf(body) !== whole.checksum)
    throw rangeError(`'${path}' is damaged: its checksum is not the one that was written`);
  // An entry that this version does not know may change the meaning of the other entries.
  const refuse = (what: string, unknown: readonly string[]) => {
    if (unknown.length > 0)
      throw rangeError(
        `the checkpoint in '${folder.path}' has ${what} that this Hotslot does not know: ${unknown.join(', ')}; update Hotslot`,
      );
  };
  refuse(
    'parts',
    Object.keys(body.parts).filter((name) => !Object.hasOwn(numbersOfPart, name)),
  );
  refuse('entries', [
    ...Object.keys(body).filter((key) => !keys.includes(key)),
    ...parts.flatMap((name) => unknownOf(name, body.parts[name]).map((key) => `${name}.${key}`)),
  ]);
  return body;
}

const unknownOf = (name: PartName, facts: PartFacts | undefined): string[] =>
  Object.keys(facts ?? {}).filter(
    (key) => key !== 'is' && !(numbersOfPart[name] as readonly string[]).includes(key),
  );

/**
 * Returns a text for each difference between two descriptions. `here` describes the given part,
 * `there` the saved part, and `at` is its name in the texts.
 */
export function differences(
  here: Plain | undefined,
  there: Plain | undefined,
  at: string,
): string[] {
  if (isRecord(here) && isRecord(there)) {
    const keys = [...new Set([...Object.keys(here), ...Object.keys(there)])];
    return keys.flatMap((key) => differences(here[key], there[key], `${at}.${key}`));
  }
  const [mine, its] = [JSON.stringify(here), JSON.stringify(there)];
  if (mine === its) return [];
  if (its === undefined) return [`${at} (${mine}) is not in the checkpoint`];
  if (mine === undefined) return [`${at} (${its}) is only in the checkpoint`];
  return [`${at} is ${mine} here, ${its} in the checkpoint`];
}

const isRecord = (value: Plain | undefined): value is PlainRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
