/**
 * Reads event files as TensorBoard does, up to the first incomplete record, and checks every
 * record. TensorBoard is not available to these tests, because neither npm nor Debian packages it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Fields } from '../rig/protobuf.ts';

export interface ReadScalar {
  tag: string;
  value: number;
  step: number;
  wallTime: number;
}

/** Computes CRC-32C bit by bit, as it is defined, and masks it as TFRecord files do. */
function masked(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ ((rest & 1) * 0x82f63b78);
  }
  rest = ~rest;
  return (((rest >>> 15) | (rest << 17)) + 0xa282ead8) >>> 0;
}

/** Returns the names of a folder's files in the order in which TensorBoard reads them. */
export const eventFiles = (folder: string): string[] => readdirSync(folder).sort();

/**
 * Returns the data of a file's complete records, and the number of bytes after them. Fails if a
 * complete record's checksum is wrong.
 */
function records(bytes: Buffer): { whole: Uint8Array[]; torn: number } {
  const whole: Uint8Array[] = [];
  let at = 0;
  while (at + 12 <= bytes.length) {
    expect(bytes.readUInt32LE(at + 8), `checksum of the length at ${at}`).to.equal(
      masked(bytes.subarray(at, at + 8)),
    );
    const end = at + 12 + Number(bytes.readBigUInt64LE(at));
    if (end + 4 > bytes.length) break;
    const data = bytes.subarray(at + 12, end);
    expect(bytes.readUInt32LE(end), `checksum of the data at ${at}`).to.equal(masked(data));
    whole.push(data);
    at = end + 4;
  }
  return { whole, torn: bytes.length - at };
}

/** An event with a summary. `scalar` is null if the summary has no value. */
interface ReadEvent {
  step: number;
  scalar: ReadScalar | null;
}

function readEvents(path: string): { version: number; events: ReadEvent[]; torn: number } {
  const { whole, torn } = records(readFileSync(path));
  const [first, ...rest] = whole.map((data) => new Fields(data));
  expect(first?.numbers, 'fields of the first record').to.deep.equal([1, 3]);
  const version = /^brain\.Event:([12])$/.exec(first?.text(3) ?? '')?.[1];
  expect(version, 'version of the file').to.not.equal(undefined);
  const events = rest.map((event) => {
    expect(event.numbers, 'fields of an event').to.deep.equal([1, 2, 5]);
    const step = event.int(2);
    const summary = event.message(5);
    if (summary.numbers.length === 0) return { step, scalar: null };
    const value = summary.message(1);
    expect(value.numbers, 'fields of a value').to.deep.equal([1, 2]);
    return {
      step,
      scalar: { tag: value.text(1), value: value.float(2), step, wallTime: event.double(1) },
    };
  });
  return { version: Number(version), events, torn };
}

/** Returns the scalars of a file, and the number of bytes of an incomplete last record. */
export function readFile(path: string): { scalars: ReadScalar[]; torn: number } {
  const { events, torn } = readEvents(path);
  return { scalars: events.flatMap(({ scalar }) => scalar ?? []), torn };
}

/**
 * Returns the scalars of a folder that TensorBoard shows with one of its loaders. When `fast`, the
 * default, reads a scalar, it drops the curve's earlier points from that step on. `python`
 * (`--load_fast=false`, EventAccumulator) does that only in files of a version below 2. There it
 * does so only if the scalar's step is below that of the summary before it, of any curve.
 */
export function shownBy(loader: 'fast' | 'python', folder: string): ReadScalar[] {
  let shown: ReadScalar[] = [];
  let recent = -1;
  for (const name of eventFiles(folder)) {
    const { version, events } = readEvents(join(folder, name));
    for (const { step, scalar } of events) {
      if (scalar && (loader === 'fast' || (version < 2 && step < recent)))
        shown = shown.filter((before) => before.tag !== scalar.tag || before.step < step);
      if (scalar) shown.push(scalar);
      recent = step;
    }
  }
  return shown;
}

/** Returns the scalars of all files of a folder. Fails if a record is incomplete. */
export function readFolder(folder: string): ReadScalar[] {
  return eventFiles(folder).flatMap((name) => {
    const { scalars, torn } = readFile(join(folder, name));
    expect(torn, name).to.equal(0);
    return scalars;
  });
}

/** Returns the steps and values of one curve. */
export const curve = (
  scalars: readonly ReadScalar[],
  wanted: string,
): [step: number, value: number][] =>
  scalars.filter(({ tag }) => tag === wanted).map(({ step, value }) => [step, value]);
