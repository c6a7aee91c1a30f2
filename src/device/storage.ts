/** The bytes of tensors: device memory, managed memory, or host memory registered with a device. */

import { types } from 'node:util';
import { checkCount, checkKeys, describeValue } from '../base/checks.ts';
import {
  checkDType,
  checkShape,
  type DType,
  dtypeOf,
  dtypes,
  type TypedArray,
} from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkStream, handleOf } from './checks.ts';
import { type Device, type HostMemory, type Storage, type Stream, Tensor } from './device.ts';
import { type HostKind, hostKinds } from './facts.ts';
import { Handle, type HandleOwner, PATIENCE_MS } from './handle.ts';
import { nativeMemory } from './native.ts';
import { checkTakesPart } from './stream.ts';

interface StorageOptions {
  host?: boolean;
  managed?: boolean;
  owner?: HandleOwner;
  /** the object with which the memory closes, or null if the caller closes it */
  lender?: { readonly closed: boolean } | null;
}

export class MemoryStorage extends Handle implements Storage {
  readonly device: Device;
  readonly bytes: number;
  readonly host: boolean;
  readonly managed: boolean;
  /**
   * function to call after the storage is closed, null for none. A pool uses it to count its open
   * tensors
   */
  onClose: (() => void) | null = null;
  constructor(
    device: Device,
    handle: number,
    bytes: number,
    { host = false, managed = false, owner = 'caller', lender = null }: StorageOptions = {},
  ) {
    super(handle, owner, lender);
    this.device = device;
    this.bytes = bytes;
    this.host = host;
    this.managed = managed;
  }

  async read(byteOffset: number, bytes: number, stream: Stream): Promise<Uint8Array> {
    checkCount('byteOffset', byteOffset, 0);
    checkCount('bytes', bytes, 0);
    checkStream('read', stream);
    using staging = new Handle(
      nativeMemory().read(handleOf('read', 'a stream', stream), this.handle, byteOffset, bytes),
    );
    await stream.synchronize();
    const out = new Uint8Array(bytes);
    nativeMemory().copyOut(staging.handle, out);
    return out;
  }

  write(byteOffset: number, bytes: Uint8Array, stream: Stream): void {
    checkCount('byteOffset', byteOffset, 0);
    if (!(bytes instanceof Uint8Array))
      throw typeError(`write takes a Uint8Array, got ${describeValue(bytes)}`);
    checkStream('write', stream);
    checkTakesPart('a write', stream);
    nativeMemory().write(handleOf('write', 'a stream', stream), this.handle, byteOffset, bytes);
  }

  override close(): void {
    if (this.closed) return;
    super.close();
    this.onClose?.();
  }
  protected override get called(): string {
    return 'tensor';
  }
}

/** The built-in getter of a view's buffer. A view cannot override it. */
const bufferOf = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  'buffer',
)!.get as (this: TypedArray) => ArrayBufferLike;

/**
 * Returns the view. Throws unless it is on shared memory. Memory that is not shared can be
 * transferred to another thread, which moves or frees the bytes while the device uses them.
 */
function shared(view: TypedArray): TypedArray {
  if (!ArrayBuffer.isView(view) || dtypeOf(view) === undefined)
    throw typeError(
      `registerHost takes a typed array that has a dtype, got ${describeValue(view)}`,
    );
  if (types.isSharedArrayBuffer(bufferOf.call(view))) return view;
  throw typeError(
    'registerHost takes a view of a SharedArrayBuffer: an ArrayBuffer could be transferred or detached while the device uses its bytes',
  );
}

/**
 * Pinned host memory of the driver, for readbacks whose destination is not pinned (see
 * readbackBufferFor()). Only native calls can access it.
 */
export class PinnedHost extends MemoryStorage {
  constructor(device: Device, bytes: number) {
    super(device, nativeMemory().allocateHost(device.handle, bytes), bytes, { host: true });
  }
}

export class RegisteredHost extends MemoryStorage implements HostMemory {
  /** prevents garbage collection of the bytes while they are registered */
  view: TypedArray | null;
  readonly kind: HostKind;
  constructor(device: Device, view: TypedArray, pin: boolean) {
    super(
      device,
      nativeMemory().registerHost(device.handle, shared(view), pin, PATIENCE_MS),
      view.byteLength,
      {
        host: true,
      },
    );
    this.kind = hostKinds[nativeMemory().hostKind(this.handle)] as HostKind;
    this.view = view;
  }
  tensor<D extends DType>(options: {
    shape: readonly number[];
    dtype: D;
    byteOffset?: number;
  }): Tensor<D> {
    checkKeys('tensor', options, ['shape', 'dtype', 'byteOffset']);
    const { shape, dtype, byteOffset = 0 } = options;
    checkCount('byteOffset', byteOffset, 0);
    checkShape(shape);
    const { bytes } = dtypes[checkDType('tensor', dtype)];
    const at = (this.view?.byteOffset ?? 0) + byteOffset;
    if (at % bytes !== 0)
      throw rangeError(
        `a tensor of ${dtype} starts at a multiple of ${bytes} bytes in its memory, got ${at}`,
      );
    return new Tensor(this, [...shape], checkDType('tensor', dtype), byteOffset);
  }
  override close(): void {
    super.close();
    this.view = null;
  }
}
