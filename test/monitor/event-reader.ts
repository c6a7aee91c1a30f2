/**
 * Reads event files as TensorBoard does, up to the first record that is not whole, and checks all
 * of what it reads. TensorBoard itself cannot be had where these tests run: it is a package of
 * Python's that neither npm nor Debian has.
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

/** CRC-32C bit by bit, as its definition says; masked as TFRecord says. */
function masked(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ ((rest & 1) * 0x82f63b78);
  }
  rest = ~rest;
  return (((rest >>> 15) | (rest << 17)) + 0xa282ead8) >>> 0;
}

/** The files of a folder in the order in which they are read. */
export const eventFiles = (folder: string): string[] => readdirSync(folder).sort();

/**
 * Data of the whole records of a file, and bytes behind them. Fails where a checksum of a whole
 * record is wrong.
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

/** An event with a summary: of one value, or of none. */
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

/** The scalars of one file, and bytes of a record that was not finished. */
export function readFile(path: string): { scalars: ReadScalar[]; torn: number } {
  const { events, torn } = readEvents(path);
  return { scalars: events.flatMap(({ scalar }) => scalar ?? []), torn };
}

/**
 * The scalars of a folder that TensorBoard shows, by its two loaders' rules. `fast`, the default
 * one, drops what a curve had from the step of its next scalar on. `python` (`--load_fast=false`,
 * EventAccumulator) does that in files of a version below 2 alone, and only for a scalar whose step
 * is below that of the summary before it, whatever its curve.
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

/** The scalars of all files of a folder, none of them torn. */
export function readFolder(folder: string): ReadScalar[] {
  return eventFiles(folder).flatMap((name) => {
    const { scalars, torn } = readFile(join(folder, name));
    expect(torn, name).to.equal(0);
    return scalars;
  });
}

/** Steps and values of one curve. */
export const curve = (
  scalars: readonly ReadScalar[],
  wanted: string,
): [step: number, value: number][] =>
  scalars.filter(({ tag }) => tag === wanted).map(({ step, value }) => [step, value]);
