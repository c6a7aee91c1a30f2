/** Plain SharedArrayBuffers with an aligned place inside; for the structures of src/buffer, which each own theirs. */
import { freemem } from 'node:os';
import { rangeError } from '../errors.ts';
import { rowsAddon } from './rows-addon.ts';

/** Zeroed shared memory: `bytes` from `offset` on start at a multiple of the alignment asked for. */
export interface Place {
  memory: SharedArrayBuffer;
  offset: number;
}

/**
 * Over-allocates a plain (never growable: those are 40 times slower to read) SharedArrayBuffer. The address decides the
 * offset, and the address is the same in every thread. Throws ERR_HOTSLOT_MEMORY, saying bytes asked and free.
 */
export function allocateShared(what: string, bytes: number, alignment: 64 | 4096): Place {
  const total = bytes + alignment;
  const free = Math.min(freemem(), process.availableMemory?.() ?? Number.POSITIVE_INFINITY);
  const refusal = `${what} asks for ${bytes} bytes of shared memory, ${free} are free`;
  if (!(total <= free)) throw rangeError(refusal, 'ERR_HOTSLOT_MEMORY');
  let memory: SharedArrayBuffer;
  try {
    memory = new SharedArrayBuffer(total);
    new Float64Array(memory, 0, Math.floor(total / 8)); // the longest views there are must reach its end
  } catch (error) {
    throw rangeError(`${refusal}, and the engine refused: ${(error as Error).message}`, 'ERR_HOTSLOT_MEMORY');
  }
  const astray = rowsAddon().misalignment(new Uint8Array(memory, 0, 1), alignment);
  return { memory, offset: (alignment - astray) % alignment };
}

/** `bytes` rounded up to a multiple of `to`. */
export function roundUp(bytes: number, to: number): number {
  return Math.ceil(bytes / to) * to;
}
