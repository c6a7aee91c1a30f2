/** Streams, events and graphs as objects that only wrap their handles. */

import { checkFlag, checkKeys, describeValue } from '../base/checks.ts';
import { type DType, dtypes, type TypedArray } from '../base/dtype.ts';
import { rangeError, stateError, typeError } from '../base/errors.ts';
import { toBfloat16, toFloat16 } from '../base/float16.ts';
import { checkSignal, orAborted } from '../shm/wait.ts';
import { checkTensor, handleOf } from './checks.ts';
import type {
  Device,
  DeviceEvent,
  Graph,
  GraphExec,
  LaunchArguments,
  LoadedArguments,
  Stream,
  Tensor,
} from './device.ts';
import { Handle, type HandleOwner } from './handle.ts';
import { type KernelName, omittedReals, presentKernelName } from './kernels.ts';
import { type LooseArguments, lineUp, numbers } from './launch.ts';
import {
  nativeEvents,
  nativeGraphs,
  nativeKernels,
  nativeManaged,
  nativeShared,
  nativeStreams,
} from './native.ts';
import { checkNeed, isLoadedKernel, type LoadedKernel } from './own-kernels/declarations.ts';

const none: readonly never[] = [];

/**
 * The stream of the capture whose function this thread is running now, or null outside of such a
 * function.
 */
let capturing: { readonly handle: number } | null = null;

/** Runs the captured function `fn`. Meanwhile, work on a stream outside of the capture throws. */
export function capturedBy<T>(stream: Stream, fn: () => T): T {
  const before = capturing;
  capturing = stream;
  try {
    return fn();
  } finally {
    capturing = before;
  }
}

/** Returns whether a captured function runs now in this thread. */
export const captures = (): boolean => capturing !== null || nativeGraphs().threadCaptures();

/**
 * Throws ERR_HOTSLOT_STATE_CAPTURE if a captured function enqueues work on a stream outside of its
 * capture. That work would run once, immediately, and in no replay.
 */
export function checkTakesPart(what: string, stream: { readonly handle: number }): void {
  if (
    capturing === null ||
    stream.handle === capturing.handle ||
    nativeGraphs().capturing(stream.handle)
  )
    return;
  throw stateError(
    'CAPTURE',
    `${what} on a stream outside of this capture would run once, now, and never again; use the stream that the captured function is given, or let this one wait for an event recorded there`,
  );
}

export class OpenedEvent extends Handle implements DeviceEvent {
  readonly timing: boolean;
  readonly #device: Device;
  constructor(device: Device, handle: number, timing: boolean) {
    super(handle);
    this.#device = device;
    this.timing = timing;
  }
  query(): boolean {
    return nativeEvents().eventQuery(this.handle);
  }
  elapsedMs(start: DeviceEvent): number {
    return nativeEvents().elapsedMs(handleOf('elapsedMs', 'an event', start), this.handle);
  }
  async done(options: { signal?: AbortSignal } = {}): Promise<void> {
    checkKeys('done', options, ['signal']);
    const { signal } = options;
    checkSignal(signal);
    const over = async () => {
      while (
        !signal?.aborted &&
        !(await nativeEvents().waitEventAsync(this.#device.handle, this.handle))
      );
    };
    await orAborted(over(), signal);
  }
}

export class OpenedStream extends Handle implements Stream {
  readonly device: Device;
  readonly priority: number;

  /** `lender`: the object with which the stream closes, or null if the caller closes it */
  constructor(
    device: Device,
    handle: number,
    priority = 0,
    owner: HandleOwner = 'caller',
    lender: { readonly closed: boolean } | null = null,
  ) {
    super(handle, owner, lender);
    this.device = device;
    this.priority = priority;
  }

  record(event: DeviceEvent, options: { external?: boolean } = {}): void {
    checkKeys('record', options, ['external']);
    const { external = false } = options;
    checkFlag('external', external);
    nativeStreams().record(this.handle, handleOf('record', 'an event', event), external);
  }
  wait(event: DeviceEvent, options: { orderOnly?: boolean } = {}): void {
    checkKeys('wait', options, ['orderOnly']);
    const { orderOnly = false } = options;
    checkFlag('orderOnly', orderOnly);
    nativeStreams().wait(this.handle, handleOf('wait', 'an event', event), orderOnly);
  }
  copy(to: Tensor, from: Tensor): void {
    checkTensor('copy', to);
    checkTensor('copy', from);
    if (!to.contiguous || !from.contiguous) {
      throw typeError(
        `copy needs contiguous tensors; got strides [${to.strides}] and [${from.strides}]`,
      );
    }
    checkTakesPart('a copy', this);
    if (to.bytes !== from.bytes)
      throw rangeError(`copy from ${from.bytes} bytes to ${to.bytes} bytes: they must be equal`);
    nativeStreams().copy(
      this.handle,
      to.handle,
      to.byteOffset,
      from.handle,
      from.byteOffset,
      to.bytes,
    );
  }
  fill(to: Tensor, value: number | bigint): void {
    if (!checkTensor('fill', to).contiguous)
      throw typeError(`fill needs a contiguous tensor; got strides [${to.strides}]`);
    checkTakesPart('a fill', this);
    nativeStreams().fill(
      this.handle,
      to.handle,
      to.byteOffset,
      to.bytes,
      elementOf(to.dtype, value),
    );
  }
  launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  launch(kernel: LoadedKernel, args: LoadedArguments): void;
  launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    const named = typeof kernel === 'string';
    if (!named && !isLoadedKernel(kernel))
      throw typeError(
        `launch takes a kernel's name, or a kernel of device.loadKernels(), got ${describeValue(kernel)}`,
      );
    const name = named ? presentKernelName(kernel) : kernel.name;
    checkKeys('launch', args, ['tensors', 'wholes', 'reals']);
    const { tensors = none, wholes = none, reals = named ? omittedReals(kernel) : none } = args;
    lineUp(name, tensors, wholes, reals);
    checkTakesPart(`'${name}'`, this);
    const counts = [tensors.length, wholes.length, reals.length] as const;
    if (named) nativeKernels().launch(this.handle, name, numbers, ...counts);
    else {
      checkNeed(kernel, tensors, { wholes, reals });
      nativeKernels().launchBrought(this.handle, kernel.handle, numbers, ...counts, kernel.index);
    }
  }
  replay(exec: GraphExec): void {
    checkTakesPart('a replay', this);
    nativeGraphs().replay(
      this.handle,
      handleOf('replay', 'a graph made ready by instantiate()', exec),
    );
  }
  prefetch(tensor: Tensor, device: number): void {
    checkTensor('prefetch', tensor).checkOpen();
    if (typeof device !== 'number')
      throw typeError(`prefetch takes a device's index, got ${describeValue(device)}`);
    nativeManaged().prefetch(
      this.handle,
      tensor.handle,
      tensor.byteOffset,
      tensor.spanBytes,
      device,
    );
  }
  query(): boolean {
    return nativeStreams().streamQuery(this.handle);
  }
  async synchronize(options: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.capturing) this.query(); // throws, as every query in a capture does
    // Does not call device.createEvent(), because the stream may still be open after its Device
    // object is closed.
    using event = new OpenedEvent(
      this.device,
      nativeEvents().createEvent(this.device.handle, false),
      false,
    );
    this.record(event);
    await event.done(options);
  }
  beginCapture(): void {
    nativeGraphs().beginCapture(this.handle);
  }
  endCapture(): Graph {
    return new CapturedGraph(nativeGraphs().endCapture(this.handle));
  }
  get capturing(): boolean {
    return nativeGraphs().capturing(this.handle);
  }
  protected override get called(): string {
    return 'stream';
  }
}

/** A stream of the device's pool. close() returns it to the pool. */
export class LentStream extends OpenedStream {
  #returned = false;
  /** Throws ERR_HOTSLOT_STATE_CAPTURE inside a capture. */
  constructor(device: Device) {
    super(device, nativeShared().lendStream(device.handle));
  }
  override get closed(): boolean {
    return this.#returned;
  }
  override close(): void {
    if (this.#returned) return;
    nativeShared().takeBackStream(this.device.handle, this.handle);
    this.#returned = true;
  }
}

/** Returns an array whose one element is this value in the dtype. */
function elementOf(dtype: DType, value: number | bigint): TypedArray {
  const element = new dtypes[dtype].array(1);
  const wanted = typeof element[0];
  if (typeof value !== wanted)
    throw typeError(`fill of ${dtype} takes a ${wanted}, got ${describeValue(value)}`);
  if (dtype === 'bool' && value !== 0 && value !== 1)
    throw rangeError(`fill of bool takes 0 or 1, got ${value}`);
  if (dtype === 'float16') return toFloat16(Float32Array.of(value as number));
  if (dtype === 'bfloat16') return toBfloat16(Float32Array.of(value as number));
  (element as Float32Array)[0] = value as number;
  return element;
}

class CapturedGraph extends Handle implements Graph {
  get nodeCount(): number {
    return nativeGraphs().nodeCount(this.handle);
  }
  instantiate(): GraphExec {
    return new ReadyGraph(nativeGraphs().instantiate(this.handle));
  }
}

class ReadyGraph extends Handle implements GraphExec {
  update(graph: Graph): boolean {
    return nativeGraphs().update(this.handle, handleOf('update', 'a graph', graph));
  }
}

/** The objects of belongingStream(), by Device object and handle. */
const belonging = new WeakMap<Device, Map<number, Stream>>();

/**
 * Returns the stream of this handle, which belongs to the device. Each call returns the same
 * object, and closing that object does nothing.
 */
export function belongingStream(device: Device, handle: number): Stream {
  const streams = belonging.get(device) ?? new Map<number, Stream>();
  belonging.set(device, streams);
  const stream = streams.get(handle) ?? new OpenedStream(device, handle, 0, 'device');
  streams.set(handle, stream);
  return stream;
}

/**
 * If the stream has failed, drops the stream and returns true. Its error is permanent, so the
 * caller must request another stream. Returns false for a stream that has not failed.
 */
export function dropFailed(stream: Stream): boolean {
  if (!failed(stream)) return false;
  // dropBelonging() has no effect on a stream that belongs to the caller. close() has no effect on
  // a stream that belongs to the device. So only one of the two calls drops the stream.
  nativeShared().dropBelonging(stream.device.handle, stream.handle);
  stream.close();
  return true;
}

/**
 * Returns whether the stream is closed or has a sticky error. Returns false while the stream
 * captures.
 */
export function failed(stream: Stream): boolean {
  try {
    if (!stream.capturing) stream.query();
    return false;
  } catch {
    return true;
  }
}
