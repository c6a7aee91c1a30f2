/**
 * What captures of one device share, whoever makes them: one stream to capture and warm up on, and memory for what lives only
 * inside an update. Megatron's get_shared_capture_stream, get_shared_graph_pool and get_graph_pool.
 */
import { isMainThread } from 'node:worker_threads';
import { checkDevice } from '../device/checks.ts';
import type { Device, GraphExec, Stream } from '../device/device.ts';
import { Handle } from '../device/handle.ts';
import { native } from '../device/native.ts';
import { checkShape, MemoryStorage } from '../device/storage.ts';
import { belongingStream, failed } from '../device/stream.ts';
import { Tensor } from '../device/tensor.ts';
import { checkDType, type DType, dtypes } from '../dtype.ts';
import { checkKeys, DeviceError, stateError, typeError } from '../errors.ts';

/** How long another thread's capture is waited for: the main thread hardly blocks. */
const WAIT_MS = isMainThread ? 50 : 5000;

/** The device's capture stream: one per process, the same handle in every thread. */
export function getSharedCaptureStream(device: Device): Stream {
  checkDevice('getSharedCaptureStream', device);
  return belongingStream(device, native().sharedCaptureStream(device.handle));
}

const shared = new WeakMap<Device, GraphPool>();

/** The device's graph pool: one per process, the same handle in every thread. Closing it does nothing. */
export function getSharedGraphPool(device: Device): GraphPool {
  checkDevice('getSharedGraphPool', device);
  const handle = native().sharedGraphPool(device.handle);
  const known = shared.get(device);
  if (known?.handle === handle) return known;
  const pool = new GraphPool(device, handle, true);
  shared.set(device, pool);
  return pool;
}

/** The shared pool, or a new one that the caller closes. */
export function getGraphPool(device: Device, useSingleMempool: boolean): GraphPool {
  if (typeof useSingleMempool !== 'boolean')
    throw typeError(`useSingleMempool must be a boolean, got ${String(useSingleMempool)}`);
  if (useSingleMempool) return getSharedGraphPool(device);
  checkDevice('getGraphPool', device);
  return new GraphPool(device, native().createGraphPool(device.handle), false);
}

/**
 * Memory for temporaries of captured functions. Each capture gets the same bytes, and graphs of one pool run one at a time: what
 * is in them lasts until the next graph of this pool. A function that runs eagerly gets memory of its own, until its next run.
 */
export class GraphPool extends Handle {
  readonly device: Device;
  /** belongs to the device: it closes with it */
  readonly shared: boolean;
  /** of the last function that ran eagerly */
  #eager: Tensor[] = [];

  constructor(device: Device, handle: number, shared: boolean) {
    super(handle);
    this.device = device;
    this.shared = shared;
  }

  /** Bytes of device memory that its graphs share. */
  get bytes(): number {
    return native().graphPoolBytes(this.handle);
  }

  /** Whatever is in it; only inside a function that is captured or warmed up with this pool, else ERR_HOTSLOT_STATE_CAPTURE. */
  allocate(options: { shape: readonly number[]; dtype?: DType }): Tensor {
    checkKeys('allocate', options, ['shape', 'dtype']);
    const { shape, dtype = 'float32' } = options;
    const lent = running.get(this.handle);
    if (lent) {
      const tensor = this.device.allocate({ shape, dtype, zeroed: false });
      lent.push(tensor);
      return tensor;
    }
    const bytes = checkShape(shape) * dtypes[checkDType('allocate', dtype)].bytes;
    const [handle, offset] = native().poolAllocate(this.handle, bytes);
    return new Tensor(new PooledStorage(this, handle, offset + bytes), [...shape], dtype, offset);
  }

  /** For `fn`, which runs eagerly: what it allocates stays until the next one, or until forget(). */
  eagerly<T>(fn: () => T): T {
    const before = this.#eager;
    this.#eager = [];
    running.set(this.handle, this.#eager);
    try {
      return fn();
    } finally {
      running.delete(this.handle);
      for (const each of before) each.close();
    }
  }
  forget(): void {
    for (const each of this.#eager.splice(0)) each.close();
  }

  override close(): void {
    this.forget();
    if (!this.shared) super.close();
  }
}

/** What functions that run eagerly in this thread were lent, by their pool's handle: whichever object they ask. */
const running = new Map<number, Tensor[]>();

/** A part of a pool's block: closing the tensor does nothing, closing the pool takes it away. */
class PooledStorage extends MemoryStorage {
  readonly #pool: GraphPool;
  constructor(pool: GraphPool, handle: number, bytes: number) {
    super(pool.device, handle, bytes, { host: false, managed: false });
    this.#pool = pool;
  }
  override get closed(): boolean {
    return this.#pool.closed;
  }
  override close(): void {}
}

/**
 * Runs `fn` eagerly with the shared capture stream as the device's current stream, and `pool` lending. No other thread has the
 * stream meanwhile; ERR_HOTSLOT_STATE_BUSY when another one keeps it too long, or when this is called inside `fn`.
 */
export function onCaptureStream<T>(device: Device, pool: GraphPool | null, fn: (stream: Stream) => T): T {
  return entered(device, 0, (stream) => (pool ? pool.eagerly(() => fn(stream)) : fn(stream)));
}

function entered<T>(device: Device, pool: number, fn: (stream: Stream) => T): T {
  const enter = () => belongingStream(device, native().enterCapture(device.handle, pool, WAIT_MS));
  let stream = enter();
  try {
    // An error on a stream is sticky, and shall be met by nobody whose work did not make it.
    if (failed(stream)) {
      native().dropBelonging(device.handle, stream.handle);
      native().leaveCapture(device.handle);
      stream = enter();
    }
    return device.withStream(stream, () => fn(stream));
  } catch (error) {
    if (failed(stream)) native().dropBelonging(device.handle, stream.handle);
    throw error;
  } finally {
    native().leaveCapture(device.handle);
  }
}

export interface Captured<T> {
  /** ready to replay, on whatever stream of the device */
  readonly exec: GraphExec;
  readonly nodeCount: number;
  /** what the function returned */
  readonly result: T;
}

/**
 * Captures what `fn` enqueues on the shared capture stream. Whatever goes wrong, the capture is ended; the error names
 * `what`, and the cause is the first thing that went wrong.
 */
export function captureGraph<T>(
  device: Device,
  { what, pool }: { what: string; pool: GraphPool | null },
  fn: (stream: Stream) => T,
): Captured<T> {
  return entered(device, pool?.handle ?? 0, (stream) => {
    let result: T | undefined;
    let failed: { error: unknown } | null = null;
    stream.beginCapture();
    try {
      result = fn(stream);
      if (typeof (result as { then?: unknown } | undefined)?.then === 'function') {
        void Promise.resolve(result).catch(() => {});
        throw typeError('the captured function returned a promise: it may only enqueue device work');
      }
    } catch (error) {
      failed = { error };
    }
    try {
      using graph = stream.endCapture();
      if (!failed) return { result: result as T, nodeCount: graph.nodeCount, exec: graph.instantiate() };
    } catch (error) {
      failed ??= { error };
    }
    const cause = failed?.error;
    const advice = cause instanceof DeviceError ? `; ${cause.advice}` : '';
    throw stateError('CAPTURE', `${what} failed: ${(cause as Error)?.message ?? cause}${advice}`, cause);
  });
}
