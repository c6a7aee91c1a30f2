/**
 * Allocates SharedArrayBuffers with an aligned offset, and defines sizes and alignments of shared
 * memory. Any module may import this file.
 */
import { freemem } from 'node:os';
import { types } from 'node:util';
import { checkCount, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { systemMemory } from '../base/system-addon.ts';

/**
 * Int32 words of a cache line. Two words that different threads write are at least this far apart.
 */
export const LINE = 16;
/** bytes of a memory page: drivers register whole pages */
export const PAGE = 4096;
/** bytes up to which allocateShared() does not check how much memory is free */
const UNCHECKED = 2 ** 16;
/** bytes to whose multiples device copies are aligned, because such copies are fastest */
export const STRIDE = 256;

/**
 * Zeroed shared memory. The requested bytes begin at `offset`, and their address is a multiple of
 * the requested alignment.
 */
export interface Place {
  memory: SharedArrayBuffer;
  offset: number;
}

/**
 * Allocates `bytes` bytes of shared memory whose address is a multiple of `alignment`. Throws
 * ERR_HOTSLOT_MEMORY with the bytes requested and free.
 *
 * New memory may begin at any address. So allocateShared() allocates `alignment` bytes more, and
 * returns the offset of the first aligned address. The offset is the same in every thread. The
 * SharedArrayBuffer is not growable, because growable ones are 40 times slower to read.
 *
 * `widest` is the size in bytes of the widest elements with which a view covers the whole memory.
 */
export function allocateShared(
  what: string,
  bytes: number,
  alignment: 64 | 4096,
  widest: 1 | 8 = 8,
): Place {
  const total = bytes + alignment;
  // The system takes 0.1 ms to report the free memory.
  const free = () => Math.min(freemem(), process.availableMemory?.() ?? Number.POSITIVE_INFINITY);
  const refusal = () => `${what} needs ${bytes} bytes of shared memory, and ${free()} are free`;
  if (!(total <= UNCHECKED) && !(total <= free()))
    throw rangeError(refusal(), 'ERR_HOTSLOT_MEMORY');
  let memory: SharedArrayBuffer;
  try {
    memory = new SharedArrayBuffer(total);
    // A view has a maximum number of elements, so check that a view of the widest elements can
    // cover the whole memory.
    if (widest === 8) new Float64Array(memory, 0, Math.floor(total / 8));
    else new Uint8Array(memory, 0, total);
  } catch (error) {
    throw rangeError(
      `${refusal()}, which the engine could not allocate: ${(error as Error).message}`,
      'ERR_HOTSLOT_MEMORY',
    );
  }
  const astray = systemMemory().misalignment(new Uint8Array(memory, 0, 1), alignment);
  return { memory, offset: (alignment - astray) % alignment };
}

/**
 * Returns whether memory is a SharedArrayBuffer, even if its prototype was changed. Native code
 * keeps the memory's address. Memory of another kind could be freed while native code still uses
 * the address.
 */
export const isShared = (memory: unknown): memory is SharedArrayBuffer =>
  types.isSharedArrayBuffer(memory);

/**
 * Throws a TypeError that begins with `rule`, unless `shared` describes an object of this kind and
 * `memory` is shared.
 */
export function checkShared(kind: string, shared: unknown, memory: unknown, rule: string): void {
  if ((shared as { kind?: unknown } | null | undefined)?.kind === kind && isShared(memory)) return;
  throw typeError(`${rule}, got ${describeValue(shared)}`);
}

/**
 * Throws a RangeError unless `offset` is a multiple of 8 and the memory has `bytes` bytes from
 * there on.
 */
export function checkRoom({ memory, offset }: Place, bytes: number): void {
  checkCount('offset', offset, 0, memory.byteLength);
  if (offset % 8 !== 0 || !(offset + bytes <= memory.byteLength))
    throw rangeError(`shared memory of ${memory.byteLength} bytes has no ${bytes} at ${offset}`);
}

/**
 * Reads a word again, after a copy of bytes that another thread may have overwritten meanwhile. On
 * arm64, an atomic load could run before the earlier reads of the bytes. The store of an atomic
 * addition cannot run before these reads. So secondLook() adds 0 instead of loading.
 */
export const secondLook = (words: Int32Array, index: number): number =>
  Atomics.add(words, index, 0);

/** Returns `bytes` rounded up to a multiple of `to`. */
export function roundUp(bytes: number, to: number): number {
  return Math.ceil(bytes / to) * to;
}
