/**
 * Plain SharedArrayBuffers with an aligned place inside, and the distances in them. Any module may
 * import it.
 */
import { freemem } from 'node:os';
import { types } from 'node:util';
import { checkCount, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { systemMemory } from '../base/system-addon.ts';

/** Int32 words of a cache line: words that different threads write are a line apart. */
export const LINE = 16;
/** bytes of a page, which drivers register whole */
export const PAGE = 4096;
/** bytes: an allocation of at most this size does not read how much memory is free */
const UNCHECKED = 2 ** 16;
/** bytes: device copies are fastest from and to multiples of it */
export const STRIDE = 256;

/**
 * Zeroed shared memory: `bytes` from `offset` on start at a multiple of the alignment asked for.
 */
export interface Place {
  memory: SharedArrayBuffer;
  offset: number;
}

/**
 * Over-allocates a plain (never growable: those are 40 times slower to read) SharedArrayBuffer. The
 * address decides the offset, and the address is the same in every thread. `widest`: bytes of the
 * widest elements that it is viewed by as a whole. Throws ERR_HOTSLOT_MEMORY with the bytes
 * requested and free.
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
    // Views have a maximum length in elements: the widest one must reach the end.
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
 * Returns whether memory is shared, whatever its prototype says. Native code keeps the address, and
 * other memory can go.
 */
export const isShared = (memory: unknown): memory is SharedArrayBuffer =>
  types.isSharedArrayBuffer(memory);

/**
 * Throws a TypeError with the rule unless `shared` describes an object of this kind and its memory
 * is shared.
 */
export function checkShared(kind: string, shared: unknown, memory: unknown, rule: string): void {
  if ((shared as { kind?: unknown } | null | undefined)?.kind === kind && isShared(memory)) return;
  throw typeError(`${rule}, got ${describeValue(shared)}`);
}

/** Throws a RangeError unless `bytes` bytes lie at `offset`. */
export function checkRoom({ memory, offset }: Place, bytes: number): void {
  checkCount('offset', offset, 0, memory.byteLength);
  if (offset % 8 !== 0 || !(offset + bytes <= memory.byteLength))
    throw rangeError(`shared memory of ${memory.byteLength} bytes has no ${bytes} at ${offset}`);
}

/**
 * Looks a second time at a word, after a copy of bytes that another thread may have overwritten
 * meanwhile. It adds 0: a load would let earlier reads of the bytes come after it (on arm64), and
 * the half of an addition that stores does not.
 */
export const secondLook = (words: Int32Array, index: number): number =>
  Atomics.add(words, index, 0);

/** Returns `bytes` rounded up to a multiple of `to`. */
export function roundUp(bytes: number, to: number): number {
  return Math.ceil(bytes / to) * to;
}
