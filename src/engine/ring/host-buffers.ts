/**
 * The slots' host buffers, one after the other in shared memory. Only this file says where a half
 * and its parts lie, and slot.ts draws the parts' own bytes. Any thread may make the views, but
 * only a slot's owner writes to that slot (Slot-1).
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

/** How another thread finds the same buffers. */
export interface HostBuffersShare {
  /** all of them */
  readonly memory: Uint8Array;
  /** bytes that the rows of one slot take */
  readonly batchBytes: number;
  /** bytes of the priorities that are read back with a batch, 0 without */
  readonly priorityBytes: number;
  /**
   * steps of a view that a device does not hold yet: their offset from the rows' start, and the
   * bytes of one step, or null if no steps travel
   */
  readonly fresh: { readonly at: number; readonly bytes: number } | null;
}

type HostBufferSizes = Pick<HostBuffersShare, 'batchBytes' | 'priorityBytes'>;

export class HostBuffers {
  readonly memory: Uint8Array;
  /** bytes from one half to the next */
  readonly stride: number;
  /** offset in a half of `out`, which the graph copies back */
  readonly out: number;
  /** offset in a half of the priorities that are read back, after `out` */
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
        `${describeValue(memory)} bytes are not hostBuffers of ${this.stride} bytes in shared memory`,
      );
    const { buffer } = memory;
    for (let at = memory.byteOffset; at < memory.byteOffset + memory.length; at += this.stride) {
      this.#params.push(new Float64Array(buffer, at, PARAMS_BYTES / 8));
      this.#heads.push(new Int32Array(buffer, at + HEAD_AT, HEAD_WORDS));
      this.#marks.push(new Float64Array(buffer, at + this.out, 1));
      this.#scalars.push(new Float32Array(buffer, at + this.out + OUT_SCALARS, MAX_SCALARS));
    }
  }

  /** Bytes that the buffers of `depth` slots take. */
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

  /** Each half's bytes, slot by slot. */
  each(): Uint8Array[] {
    return this.#params.map((_, slot) =>
      this.memory.subarray(slot * this.stride, (slot + 1) * this.stride),
    );
  }
  /** Returns the float64 parameters by `Param`, which move to the device with the rows. */
  params(slot: number): Float64Array {
    return this.#params[slot] as Float64Array;
  }
  /**
   * Returns the words that say what the tick draws if rows live on the device, next to the
   * parameters (src/engine/device-rows/head.ts).
   */
  head(slot: number): Int32Array {
    return this.#heads[slot] as Int32Array;
  }
  /** Bytes of a packed half that move to the device, from its start on. */
  moves(slot: number): number {
    const { batchBytes, fresh } = this.#share;
    return (
      ROWS_AT +
      (fresh === null ? batchBytes : fresh.at + (this.head(slot)[0] as number) * fresh.bytes)
    );
  }
  /** Returns params and rows, which can move to the device. */
  batchBytes(slot: number): Uint8Array {
    const at = slot * this.stride;
    return this.memory.subarray(at, at + ROWS_AT + this.#share.batchBytes);
  }
  /**
   * One float64: sequence + 1 of the update that the slot's graph was last through with (Slot-8).
   */
  mark(slot: number): Float64Array {
    return this.#marks[slot] as Float64Array;
  }
  /**
   * Returns the bytes that are read back: the whole of `out`, and the priorities if there are any.
   */
  readbackBytes(slot: number): Uint8Array {
    const at = slot * this.stride + this.out;
    return this.memory.subarray(at, at + OUT_BYTES + this.#share.priorityBytes);
  }
  /** Returns the priorities as they were read back, one float32 for each row. */
  priorities(slot: number): Float32Array {
    const { buffer, byteOffset } = this.memory;
    const { priorityBytes } = this.#share;
    return new Float32Array(
      buffer,
      byteOffset + slot * this.stride + this.prioritiesAt,
      priorityBytes / 4,
    );
  }
  /** The batch's column of ids, which lies `at` bytes from its start. */
  ids(slot: number, at: number, rows: number): Float64Array {
    return new Float64Array(
      this.memory.buffer,
      this.memory.byteOffset + slot * this.stride + ROWS_AT + at,
      rows,
    );
  }
  /** Returns the scalars that the learner wrote to `out`, as the graph copied them back. */
  scalars(slot: number): Float32Array {
    return this.#scalars[slot] as Float32Array;
  }
}

function outAt(batchBytes: number): number {
  return roundUp(ROWS_AT + batchBytes, 64);
}
/** A device registers whole pages. */
function strideOf({ batchBytes, priorityBytes }: HostBufferSizes): number {
  return roundUp(outAt(batchBytes) + OUT_BYTES + priorityBytes, PAGE);
}
