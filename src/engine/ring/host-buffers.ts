/**
 * The slots' host buffers, one after the other in shared memory. This file defines the offset of
 * each buffer and of its sections, and slot.ts the bytes inside a section. Any thread may create
 * the views, but only a slot's owner writes to the slot's buffer (Slot-1).
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { allocateShared, isShared, PAGE, roundUp } from '../../shm/memory.ts';
import {
  HEAD_AT,
  HEAD_WORDS,
  MAX_SCALARS,
  OUT_BYTES,
  OUT_SCALARS,
  PARAMS_BYTES,
  ROWS_AT,
} from './slot.ts';

/** Describes the buffers to other threads, as plain data. */
export interface HostBuffersShare {
  /** the memory of all buffers */
  readonly memory: Uint8Array;
  /** bytes of the rows of one slot */
  readonly batchBytes: number;
  /** bytes of the priorities that are read back with a batch, 0 if draws are uniform */
  readonly priorityBytes: number;
  /**
   * offset and bytes of the steps of a view that travel with a batch because they are new to the
   * device. `at` is the offset of the first step from the start of the rows, `bytes` the size of
   * one step. Null if no steps travel
   */
  readonly fresh: { readonly at: number; readonly bytes: number } | null;
}

type HostBufferSizes = Pick<HostBuffersShare, 'batchBytes' | 'priorityBytes'>;

export class HostBuffers {
  readonly memory: Uint8Array;
  /** bytes from the start of one slot's buffer to the next */
  readonly stride: number;
  /** offset in a slot's buffer of `out`, which the graph copies back */
  readonly out: number;
  /** offset in a slot's buffer of the priorities that are read back, after `out` */
  readonly prioritiesAt: number;
  readonly #share: HostBuffersShare;
  readonly #params: Float64Array[] = [];
  readonly #heads: Int32Array[] = [];
  readonly #marks: Float64Array[] = [];
  readonly #scalars: Float32Array[] = [];

  constructor(share: HostBuffersShare) {
    const { memory, batchBytes } = share;
    this.#share = share;
    this.memory = memory;
    this.out = outAt(batchBytes);
    this.prioritiesAt = this.out + OUT_BYTES;
    this.stride = strideOf(share);
    checkCount('batchBytes', batchBytes, 0);
    checkCount('priorityBytes', share.priorityBytes, 0);
    if (!isShared(memory.buffer) || memory.length % this.stride !== 0)
      throw typeError(
        `host buffers must be shared memory with a multiple of ${this.stride} bytes, got ${describeValue(memory)}`,
      );
    const { buffer } = memory;
    for (let at = memory.byteOffset; at < memory.byteOffset + memory.length; at += this.stride) {
      this.#params.push(new Float64Array(buffer, at, PARAMS_BYTES / 8));
      this.#heads.push(new Int32Array(buffer, at + HEAD_AT, HEAD_WORDS));
      this.#marks.push(new Float64Array(buffer, at + this.out, 1));
      this.#scalars.push(new Float32Array(buffer, at + this.out + OUT_SCALARS, MAX_SCALARS));
    }
  }

  /** Returns the number of bytes that the buffers of `depth` slots take. */
  static bytes(depth: number, sizes: HostBufferSizes): number {
    return depth * strideOf(sizes);
  }
  static allocate(depth: number, sizes: Omit<HostBuffersShare, 'memory'>): HostBuffers {
    const { batchBytes } = sizes;
    const bytes = HostBuffers.bytes(depth, sizes);
    const place = allocateShared(`${depth} host slots of ${batchBytes} bytes`, bytes, PAGE);
    return new HostBuffers({ ...sizes, memory: new Uint8Array(place.memory, place.offset, bytes) });
  }
  share(): HostBuffersShare {
    return this.#share;
  }

  /** Returns each slot's buffer, in the order of slots. */
  each(): Uint8Array[] {
    return this.#params.map((_, slot) =>
      this.memory.subarray(slot * this.stride, (slot + 1) * this.stride),
    );
  }
  /** Returns the tick's parameters, float64 by `Param`. They move to the device with the rows. */
  params(slot: number): Float64Array {
    return this.#params[slot] as Float64Array;
  }
  /**
   * Returns the head next to the parameters: int32 words from which the device draws the tick's
   * rows, if rows live there (src/engine/device-rows/head.ts).
   */
  head(slot: number): Int32Array {
    return this.#heads[slot] as Int32Array;
  }
  /** Returns the number of bytes of a packed buffer that move to the device, from its start. */
  moves(slot: number): number {
    const { batchBytes, fresh } = this.#share;
    return (
      ROWS_AT +
      (fresh === null ? batchBytes : fresh.at + (this.head(slot)[0] as number) * fresh.bytes)
    );
  }
  /**
   * Returns the memory of the parameters and the rows, which is the most that can move to the
   * device.
   */
  batchBytes(slot: number): Uint8Array {
    const at = slot * this.stride;
    return this.memory.subarray(at, at + ROWS_AT + this.#share.batchBytes);
  }
  /**
   * Returns the mark, one float64: sequence + 1 of the last update that the slot's graph completed
   * (Slot-8).
   */
  mark(slot: number): Float64Array {
    return this.#marks[slot] as Float64Array;
  }
  /** Returns the memory that is read back: all of `out`, and the priorities if there are any. */
  readbackBytes(slot: number): Uint8Array {
    const at = slot * this.stride + this.out;
    return this.memory.subarray(at, at + OUT_BYTES + this.#share.priorityBytes);
  }
  /** Returns the priorities that were read back, one float32 per row. */
  priorities(slot: number): Float32Array {
    const { buffer, byteOffset } = this.memory;
    const { priorityBytes } = this.#share;
    return new Float32Array(
      buffer,
      byteOffset + slot * this.stride + this.prioritiesAt,
      priorityBytes / 4,
    );
  }
  /** Returns the batch's column of ids, which begins `at` bytes after the start of the batch. */
  ids(slot: number, at: number, rows: number): Float64Array {
    return new Float64Array(
      this.memory.buffer,
      this.memory.byteOffset + slot * this.stride + ROWS_AT + at,
      rows,
    );
  }
  /** Returns the scalars that the learner wrote to `out`, after the graph copied them back. */
  scalars(slot: number): Float32Array {
    return this.#scalars[slot] as Float32Array;
  }
}

function outAt(batchBytes: number): number {
  return roundUp(ROWS_AT + batchBytes, 64);
}
/**
 * Returns the number of bytes from one slot's buffer to the next: whole pages, because a device
 * registers whole pages.
 */
function strideOf({ batchBytes, priorityBytes }: HostBufferSizes): number {
  return roundUp(outAt(batchBytes) + OUT_BYTES + priorityBytes, PAGE);
}
