/** The one file that says what a checkpoint is: written last, beside, and put in the place of the one before. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { shown } from '../checks.ts';
import { rangeError, unavailableError } from '../errors.ts';
import { crc32 } from '../formats/crc32.ts';
import { type FileFacts, type Folder, MANIFEST } from './folder.ts';

/** Numbers and texts, as JSON has them. */
export type Plain = string | number | boolean | null | readonly Plain[] | { readonly [key: string]: Plain };
export type PlainRecord = { readonly [key: string]: Plain };

/** What is known of a part: `is` must be the same where it is restored. */
export interface PartFacts {
  readonly is: PlainRecord;
  readonly [value: string]: Plain;
}

export const parts = ['buffer', 'limiter', 'mailbox', 'learner', 'pipeline', 'collectors', 'extra'] as const;
export type PartName = (typeof parts)[number];

export interface Manifest {
  /** of all saves that go on from each other */
  readonly run: string;
  /** counted from 1 */
  readonly save: number;
  /** the last tick that was asked for; −1 before the first, and without a pipeline */
  readonly tick: number;
  /** when it was taken, ISO 8601 */
  readonly time: string;
  readonly parts: Readonly<Partial<Record<PartName, PartFacts>>>;
  readonly files: readonly FileFacts[];
  readonly segments: readonly FileFacts[];
}

const FORMAT = 'hotslot checkpoint';
const VERSION = 1;

const sumOf = (body: unknown) => crc32(Buffer.from(JSON.stringify(body)));

export function writeManifest(folder: Folder, manifest: Manifest): Promise<FileFacts> {
  // Through text and back: what is summed is what will be read.
  const body: unknown = JSON.parse(JSON.stringify(manifest));
  const text = JSON.stringify({ format: FORMAT, version: VERSION, checksum: sumOf(body), body }, null, 1);
  return folder.write(MANIFEST, (put) => put(Buffer.from(`${text}\n`)));
}

/** Throws, in a sentence, for what is no manifest, is damaged, newer, or has a part that this version does not know. */
export async function readManifest(folder: Folder): Promise<Manifest> {
  const path = join(folder.path, MANIFEST);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw unavailableError(`'${path}' cannot be read: ${(error as Error).message}`, undefined, error);
  }
  let whole: { format?: unknown; version?: unknown; checksum?: unknown; body?: Manifest };
  try {
    whole = JSON.parse(text);
  } catch {
    throw rangeError(`'${path}' is damaged: it is not the JSON that was written`);
  }
  if (whole?.format !== FORMAT) throw rangeError(`'${path}' is not the manifest of a checkpoint`);
  if (!Number.isSafeInteger(whole.version) || (whole.version as number) < 1)
    throw rangeError(`'${path}' is damaged: no format has the number ${shown(whole.version)}`);
  if ((whole.version as number) > VERSION)
    throw rangeError(
      `'${folder.path}' was written by a newer Hotslot, in format ${whole.version}: this one reads up to ${VERSION}; update Hotslot`,
    );
  const { body } = whole;
  if (body === undefined || sumOf(body) !== whole.checksum)
    throw rangeError(`'${path}' is damaged: its checksum is not the one that was written`);
  const unknown = Object.keys(body.parts).filter((name) => !(parts as readonly string[]).includes(name));
  if (unknown.length > 0)
    throw rangeError(
      `the checkpoint in '${folder.path}' has parts that this Hotslot does not know: ${unknown.join(', ')}; update Hotslot`,
    );
  return body;
}

/** Where two descriptions differ, a text for each place. */
export function differences(here: Plain | undefined, there: Plain | undefined, at: string): string[] {
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
