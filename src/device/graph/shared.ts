/**
 * Objects that all captures of one device share. Captures and warm-up run on one stream, and
 * temporaries of an update get their memory from a pool. The functions are Megatron's
 * get_shared_capture_stream, get_shared_graph_pool and get_graph_pool.
 */
import { isMainThread } from 'node:worker_threads';
import { answered } from '../../base/addon.ts';
import { checkFlag, checkKeys } from '../../base/checks.ts';
import { checkDType, checkShape, type DType, dtypes } from '../../base/dtype.ts';
import { DeviceError, stateError, typeError } from '../../base/errors.ts';
import { Deadline } from '../../shm/wait.ts';
import { checkDevice } from '../checks.ts';
import { type Device, type GraphExec, type Stream, Tensor } from '../device.ts';
import { Handle, type HandleOwner } from '../handle.ts';
import { nativeGraphs, nativePools, nativeShared } from '../native.ts';
import { sliceOf } from '../open.ts';
import { MemoryStorage } from '../storage.ts';
import { belongingStream, capturedBy, dropFailed } from '../stream.ts';

/**
 * Maximum milliseconds that enterCapture() waits for another thread to leave the shared capture
 * stream. Then it throws. The main thread waits only briefly.
 */
const WAIT_MS = isMainThread ? 50 : 5000;

/**
 * Returns the device's capture stream. The process has one, with the same handle in every thread.
 */
export function getSharedCaptureStream(device: Device): Stream {
  checkDevice('getSharedCaptureStream', device);
  return belongingStream(device, nativeShared().sharedCaptureStream(device.handle));
}

const shared = new WeakMap<Device, GraphPool>();

/**
 * Returns the device's graph pool. The process has one, with the same handle in every thread.
 * Closing the pool does nothing.
 */
export function getSharedGraphPool(device: Device): GraphPool {
  checkDevice('getSharedGraphPool', device);
  const handle = nativeShared().sharedGraphPool(device.handle);
  const known = shared.get(device);
  if (known?.handle === handle) return known;
  const pool = new GraphPool(device, handle, 'device');
  shared.set(device, pool);
  return pool;
}

/**
 * Returns the device's shared pool, or a new pool that the caller closes.
 *
 * @param useSingleMempool true selects the shared pool
 */
export function getGraphPool(device: Device, useSingleMempool: boolean): GraphPool {
  checkFlag('useSingleMempool', useSingleMempool);
  if (useSingleMempool) return getSharedGraphPool(device);
  checkDevice('getGraphPool', device);
  return new GraphPool(device, nativePools().createGraphPool(device.handle));
}

/**
 * Runs `fn` with memory from `pool`. The tensors that `fn` allocates stay open until the pool's
 * next eager run, or until forgetEager().
 */
let eagerly: <T>(pool: GraphPool, fn: () => T) => T;
/** Closes the tensors of the pool's last eager run. The package does not export this function. */
export let forgetEager: (pool: GraphPool) => void;

/**
 * Allocates memory for temporaries of captured functions. Each capture gets the same bytes. Graphs
 * of one pool run one at a time, so a tensor's content lasts until the pool's next graph runs. A
 * function that runs eagerly gets separate memory, which lasts until the pool's next eager run.
 * @example
 * pipeline.capture((batch, { stream, pool }) => {
 *   const hidden = pool.allocate({ shape: [64, 32] });
 * });
 */
export class GraphPool extends Handle {
  readonly device: Device;
  /** tensors that the last eager function allocated */
  #eager: Tensor[] = [];

  constructor(device: Device, handle: number, owner: HandleOwner = 'caller') {
    super(handle, owner);
    this.device = device;
  }

  /** Bytes of device memory that the pool's graphs share. */
  get bytes(): number {
    return nativePools().graphPoolBytes(this.handle);
  }

  /**
   * Allocates a tensor without zeroing it.
   *
   * @param options shape, and dtype (default float32)
   * @throws {ERR_HOTSLOT_STATE_CAPTURE} outside of a function that is captured or warmed up with
   *   this pool
   */
  allocate<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
  }): Tensor<D> {
    checkKeys('allocate', options, ['shape', 'dtype']);
    const { shape, dtype = 'float32' as D } = options;
    const lent = running.get(this.handle);
    if (lent) {
      const tensor = this.device.allocate({ shape, dtype, zeroed: false });
      lent.push(tensor);
      return tensor;
    }
    const bytes = checkShape(shape) * dtypes[checkDType('allocate', dtype)].bytes;
    const [handle, offset] = nativePools().poolAllocate(this.handle, bytes);
    // The tensor is a range of the pool's block. Closing the tensor does nothing, and closing the
    // pool frees the block.
    const storage = new MemoryStorage(this.device, handle, offset + bytes, {
      owner: 'device',
      lender: this,
    });
    return new Tensor(storage, [...shape], dtype, offset);
  }

  /**
   * Closes the pool. The memory is freed once no graph uses it. Closing the shared pool does
   * nothing.
   */
  override close(): void {
    forgetEager(this);
    super.close();
  }

  static {
    eagerly = (pool, fn) => {
      const before = pool.#eager;
      pool.#eager = [];
      running.set(pool.handle, pool.#eager);
      try {
        return fn();
      } finally {
        running.delete(pool.handle);
        for (const each of before) each.close();
      }
    };
    forgetEager = (pool) => {
      for (const each of pool.#eager.splice(0)) each.close();
    };
  }
}

/**
 * The tensors that functions of this thread allocate while they run eagerly, by their pool's
 * handle. All GraphPool objects of one pool have the same handle.
 */
const running = new Map<number, Tensor[]>();

/**
 * Runs `fn` eagerly, with memory from `pool`. Meanwhile the shared capture stream is the device's
 * current stream, and no other thread can use it. Throws ERR_HOTSLOT_STATE_BUSY if another thread
 * keeps the stream too long, or if `fn` itself calls this function.
 */
export function onCaptureStream<T>(
  device: Device,
  pool: GraphPool | null,
  fn: (stream: Stream) => T,
): T {
  return entered(device, 0, (stream) => (pool ? eagerly(pool, () => fn(stream)) : fn(stream)));
}

/**
 * Reserves the shared capture stream for this thread, and returns its handle. Throws
 * ERR_HOTSLOT_STATE_BUSY after WAIT_MS. It waits in slices, so that a worker that is being
 * terminated can leave between two slices.
 */
function enterCapture(device: Device, pool: number): number {
  const deadline = new Deadline(WAIT_MS);
  for (;;) {
    const handle = answered(nativeGraphs().enterCapture(device.handle, pool, sliceOf(deadline)));
    if (handle !== 0) return handle;
    if (deadline.left > 0) continue;
    const why = 'is in use by another thread; try again later';
    throw stateError('BUSY', `the shared capture stream of ${device.name} ${why}`);
  }
}

function entered<T>(device: Device, pool: number, fn: (stream: Stream) => T): T {
  const enter = () => belongingStream(device, enterCapture(device, pool));
  let stream = enter();
  try {
    // Another thread's work may have failed on this stream, and the error is sticky. This thread
    // must not get that error, so it enters again with a new stream.
    if (dropFailed(stream)) {
      nativeGraphs().leaveCapture(device.handle);
      stream = enter();
    }
    return device.withStream(stream, () => fn(stream));
  } catch (error) {
    dropFailed(stream);
    throw error;
  } finally {
    nativeGraphs().leaveCapture(device.handle);
  }
}

/**
 * Throws TypeError if `result` is a promise. A function that enqueues device work must have
 * enqueued all of it when it returns.
 */
export function checkEnqueued(what: string, result: unknown): void {
  if (typeof (result as { then?: unknown } | undefined)?.then !== 'function') return;
  void Promise.resolve(result).catch(() => {});
  throw typeError(`${what} returned a promise: it may only enqueue device work`);
}

export interface Captured<T> {
  /** ready to replay on any stream of the device */
  readonly exec: GraphExec;
  readonly nodeCount: number;
  /** return value of the captured function */
  readonly result: T;
}

/**
 * Captures the work that `fn` enqueues on the shared capture stream. If anything fails, the capture
 * is ended, and this function throws an error that names `what`. Its cause is the first failure.
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
      result = capturedBy(stream, () => fn(stream));
      checkEnqueued('the captured function', result);
    } catch (error) {
      failed = { error };
    }
    try {
      using graph = stream.endCapture();
      if (!failed)
        return { result: result as T, nodeCount: graph.nodeCount, exec: graph.instantiate() };
    } catch (error) {
      failed ??= { error };
    }
    const cause = failed?.error;
    const advice = cause instanceof DeviceError ? `; ${cause.advice}` : '';
    throw stateError(
      'CAPTURE',
      `${what} failed: ${(cause as Error)?.message ?? cause}${advice}`,
      cause,
    );
  });
}
