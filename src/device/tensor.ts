/** A strided view of device memory (or registered host memory): shape, dtype and strides over one handle. */
import { arrayOf, type DType, dtypes, elementCount, type TypedArray } from '../dtype.ts';
import { rangeError, stateError, typeError } from '../errors.ts';
import type { Device, Stream } from './device.ts';

/** What owns the bytes: closed once, shared by every view of it. */
export interface Storage {
  readonly handle: number;
  readonly device: Device;
  readonly bytes: number;
  readonly host: boolean;
  /** pages that move: see Stream.prefetch */
  readonly managed: boolean;
  readonly closed: boolean;
  close(): void;
  /** Fresh copies in and out through the device's stream order; never blocks the main thread. */
  read(byteOffset: number, bytes: number, stream: Stream): Promise<Uint8Array>;
  write(byteOffset: number, bytes: Uint8Array, stream: Stream): void;
}

export class Tensor implements Disposable {
  readonly storage: Storage;
  readonly shape: readonly number[];
  /** elements between neighbours of each dimension */
  readonly strides: readonly number[];
  readonly dtype: DType;
  /** bytes from the start of the storage */
  readonly byteOffset: number;
  /** elements */
  readonly size: number;

  constructor(
    storage: Storage,
    shape: readonly number[],
    dtype: DType,
    byteOffset = 0,
    strides: readonly number[] = rowMajor(shape),
  ) {
    this.storage = storage;
    this.shape = shape;
    this.strides = strides;
    this.dtype = dtype;
    this.byteOffset = byteOffset;
    this.size = elementCount(shape);
    const element = dtypes[dtype].bytes;
    if (!Number.isSafeInteger(byteOffset) || byteOffset < 0 || byteOffset % element !== 0)
      throw rangeError(`a tensor of ${dtype} starts at a multiple of ${element} bytes, got ${byteOffset}`);
    if (strides.length !== shape.length || strides.some((step) => !Number.isSafeInteger(step) || step < 0))
      throw rangeError(`strides are one whole number of at least 0 per dimension; got [${strides}] for [${shape}]`);
    const end = byteOffset + this.spanBytes;
    if (end > storage.bytes) {
      throw rangeError(
        `a tensor of ${shape.join('×')} ${dtype} at byte ${byteOffset} ends at ${end}, beyond ${storage.bytes} bytes`,
      );
    }
  }

  get device(): Device {
    return this.storage.device;
  }
  get handle(): number {
    return this.storage.handle;
  }
  get closed(): boolean {
    return this.storage.closed;
  }
  /** Bytes of the elements themselves. */
  get bytes(): number {
    return this.size * dtypes[this.dtype].bytes;
  }
  /** Bytes from the first element to the end of the last: more than `bytes` when strided. */
  get spanBytes(): number {
    if (this.size === 0) return 0;
    const last = this.shape.reduce((n, d, i) => n + (d - 1) * (this.strides[i] as number), 0);
    return (last + 1) * dtypes[this.dtype].bytes;
  }
  get contiguous(): boolean {
    const dense = rowMajor(this.shape);
    return this.shape.every((d, i) => d === 1 || this.strides[i] === dense[i]);
  }

  /** Another view of the same bytes: offset and strides in elements of `dtype`, counted from this tensor's start. */
  view(options: { shape: readonly number[]; offset?: number; strides?: readonly number[]; dtype?: DType }): Tensor {
    const dtype = options.dtype ?? this.dtype;
    const offset = this.byteOffset + (options.offset ?? 0) * dtypes[dtype].bytes;
    return new Tensor(this.storage, options.shape, dtype, offset, options.strides ?? rowMajor(options.shape));
  }

  /** Copies `values` (row-major, same element count and dtype) in, in stream order; `values` may change at once. */
  write(values: TypedArray, stream: Stream = this.device.currentStream): this {
    this.checkOpen();
    if (!this.contiguous) throw typeError('write needs a contiguous tensor; write to the storage it is a view of');
    if (!(values instanceof dtypes[this.dtype].array) || values.length !== this.size) {
      throw typeError(
        `write needs ${this.size} elements of ${this.dtype}, got ${values.length} in a ${values.constructor.name}`,
      );
    }
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (this.size > 0) this.storage.write(this.byteOffset, bytes, stream);
    return this;
  }

  /** A row-major copy of the elements once everything enqueued on `stream` so far is done. */
  async toArray(stream: Stream = this.device.currentStream): Promise<TypedArray> {
    this.checkOpen();
    const out = arrayOf(this.dtype, this.size);
    if (this.size === 0) return out;
    const bytes = await this.storage.read(this.byteOffset, this.spanBytes, stream);
    const source = new dtypes[this.dtype].array(
      bytes.buffer as ArrayBuffer,
      bytes.byteOffset,
      this.spanBytes / dtypes[this.dtype].bytes,
    ) as Float32Array;
    if (this.contiguous) (out as Float32Array).set(source);
    else gatherStrided(source, out as Float32Array, this.shape, this.strides);
    return out;
  }

  checkOpen(): void {
    if (this.storage.closed) throw stateError('CLOSED', `this ${this.shape.join('×')} tensor's memory is closed`);
  }

  close(): void {
    this.storage.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Row-major strides in elements. */
export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i] as number;
  }
  return strides;
}

function gatherStrided(
  from: Float32Array,
  to: Float32Array,
  shape: readonly number[],
  strides: readonly number[],
): void {
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0; i < to.length; i++) {
    let at = 0;
    for (let d = 0; d < shape.length; d++) at += (index[d] as number) * (strides[d] as number);
    to[i] = from[at] as number;
    for (let d = shape.length - 1; d >= 0; d--) {
      index[d] = (index[d] as number) + 1;
      if ((index[d] as number) < (shape[d] as number)) break;
      index[d] = 0;
    }
  }
}
