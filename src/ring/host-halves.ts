/**
 * The slots' host halves, one behind the other in shared memory. The one place that says where a half and its parts lie; the
 * parts' own bytes are drawn in slot.ts. Any thread may make the views; what it writes is its slot's owner's (I1).
 */
import { allocateShared, PAGE, roundUp } from '../shared-memory.ts';
import { MOST_SCALARS, OUT_BYTES, OUT_SCALARS, PARAMS_BYTES, ROWS_AT } from './slot.ts';

/** How another thread finds the same halves. */
export interface HostHalvesShare {
  /** all of them */
  readonly memory: Uint8Array;
  /** bytes that the rows of one slot take */
  readonly batchBytes: number;
}

export class HostHalves {
  readonly memory: Uint8Array;
  /** bytes from one half to the next */
  readonly stride: number;
  /** where `out`, which the graph copies home, lies in a half */
  readonly out: number;
  readonly #batchBytes: number;
  readonly #params: Float64Array[] = [];
  readonly #marks: Float64Array[] = [];
  readonly #scalars: Float32Array[] = [];

  constructor({ memory, batchBytes }: HostHalvesShare) {
    this.memory = memory;
    this.#batchBytes = batchBytes;
    this.out = outAt(batchBytes);
    this.stride = strideOf(batchBytes);
    const { buffer } = memory;
    for (let at = memory.byteOffset; at < memory.byteOffset + memory.length; at += this.stride) {
      this.#params.push(new Float64Array(buffer, at, PARAMS_BYTES / 8));
      this.#marks.push(new Float64Array(buffer, at + this.out, 1));
      this.#scalars.push(new Float32Array(buffer, at + this.out + OUT_SCALARS, MOST_SCALARS));
    }
  }

  /** Bytes that so many halves take. */
  static bytes(depth: number, batchBytes: number): number {
    return depth * strideOf(batchBytes);
  }
  static allocate(depth: number, batchBytes: number): HostHalves {
    const bytes = HostHalves.bytes(depth, batchBytes);
    const place = allocateShared(`${depth} host slots of ${batchBytes} bytes`, bytes, PAGE);
    return new HostHalves({ memory: new Uint8Array(place.memory, place.offset, bytes), batchBytes });
  }
  share(): HostHalvesShare {
    return { memory: this.memory, batchBytes: this.#batchBytes };
  }

  /** Each half's bytes, slot by slot. */
  each(): Uint8Array[] {
    return this.#params.map((_, slot) => this.memory.subarray(slot * this.stride, (slot + 1) * this.stride));
  }
  /** float64, by `Param`; moves to the device with the rows */
  params(slot: number): Float64Array {
    return this.#params[slot] as Float64Array;
  }
  /** One float64: sequence + 1 of the update that the slot's graph was last through with (I8). */
  mark(slot: number): Float64Array {
    return this.#marks[slot] as Float64Array;
  }
  /** The whole of `out`. */
  outBytes(slot: number): Uint8Array {
    return this.memory.subarray(slot * this.stride + this.out, slot * this.stride + this.out + OUT_BYTES);
  }
  /** What the learner wrote to `out`, as the graph copied it home. */
  scalars(slot: number): Float32Array {
    return this.#scalars[slot] as Float32Array;
  }
}

function outAt(batchBytes: number): number {
  return roundUp(ROWS_AT + batchBytes, 64);
}
/** A device registers whole pages. */
function strideOf(batchBytes: number): number {
  return roundUp(outAt(batchBytes) + OUT_BYTES, PAGE);
}
