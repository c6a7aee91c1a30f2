/** Opens devices and lists them. The objects made here are thin: the truth is in the native core, once per process. */
import { isMainThread } from 'node:worker_threads';
import { checkDType, type DType, dtypes, elementCount, type TypedArray } from '../dtype.ts';
import { checkCount, checkKeys, rangeError, stateError, typeError } from '../errors.ts';
import type {
  Device,
  DeviceEvent,
  DeviceInfo,
  Graph,
  GraphExec,
  HostMemory,
  LaunchArguments,
  Stream,
} from './device.ts';
import { type DeviceTraits, type HostKind, hostKinds, native } from './native.ts';
import { type Storage, Tensor } from './tensor.ts';

/** Every family with what it has or why it is unavailable. */
export function listDevices(): DeviceInfo[] {
  return native().listDevices();
}

/** Opens a device: 'auto' picks the best there is, 'cpu' means 'host:0'. Throws RangeError for an unknown name. */
export function openDevice(name: 'auto' | (string & {}) = 'auto'): Device {
  if (typeof name !== 'string')
    throw typeError(`a device is named by a string such as 'auto' or 'host:0', got ${String(name)}`);
  return new OpenedDevice(name);
}

/** The element types that kernels distinguish, as native/kernels/kernel.hpp writes them. */
const elementTypes: Partial<Record<DType, number>> = { float32: 0x66, int32: 0x69 };

/** What a handle names, closed at most once. */
class Handle implements Disposable {
  readonly handle: number;
  #closed = false;
  constructor(handle: number) {
    this.handle = handle;
  }
  get closed(): boolean {
    return this.#closed;
  }
  close(): void {
    if (this.#closed) return;
    native().close(this.handle);
    this.#closed = true;
    // Closed it is: what the driver would not take back is lost to this process, and whoever watches it should know.
    for (const text of native().releaseFailures()) process.emitWarning(text, 'DeviceWarning');
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** This thread's current stream of each device, by the device's handle: however often the device was opened here. */
const current = new Map<number, Stream>();

class OpenedDevice implements Device {
  readonly name: string;
  readonly family: Device['family'];
  readonly index: number;
  readonly handle: number;
  readonly #main: OpenedStream;
  #closed = false;

  constructor(name: string) {
    const opened = native().openDevice(name);
    this.family = opened.family;
    this.index = opened.index;
    this.handle = opened.handle;
    this.name = `${opened.family}:${opened.index}`;
    this.#main = new OpenedStream(this, opened.stream, 0, true);
  }

  get traits(): DeviceTraits {
    return native().deviceTraits(this.handle);
  }

  memoryInfo() {
    this.#check();
    return native().memoryInfo(this.handle);
  }

  createStream(options: { priority?: number } = {}): Stream {
    this.#check();
    checkKeys('createStream', options, ['priority']);
    const { priority = 0 } = options;
    return new OpenedStream(
      this,
      native().createStream(this.handle, checkCount('priority', priority, -8, 8)),
      priority,
      false,
    );
  }

  createEvent(options: { timing?: boolean } = {}): DeviceEvent {
    this.#check();
    checkKeys('createEvent', options, ['timing']);
    const { timing = false } = options;
    if (typeof timing !== 'boolean') throw typeError(`timing must be a boolean, got ${String(timing)}`);
    return new OpenedEvent(this, native().createEvent(this.handle, timing), timing);
  }

  allocate(options: { shape: readonly number[]; dtype?: DType }): Tensor {
    this.#check();
    checkKeys('allocate', options, ['shape', 'dtype']);
    const { shape, dtype = 'float32' } = options;
    const bytes = checkShape(shape) * dtypes[checkDType('allocate', dtype)].bytes;
    return new Tensor(new MemoryStorage(this, native().allocate(this.handle, bytes), bytes, false), [...shape], dtype);
  }

  registerHost(view: TypedArray, options: { pin?: boolean } = {}): HostMemory {
    this.#check();
    checkKeys('registerHost', options, ['pin']);
    const { pin = true } = options;
    if (typeof pin !== 'boolean') throw typeError(`pin must be a boolean, got ${String(pin)}`);
    return new RegisteredHost(this, view, pin);
  }

  get currentStream(): Stream {
    this.#check();
    return current.get(this.handle) ?? this.#main;
  }

  withStream<T>(stream: Stream, fn: () => T): T {
    this.#check();
    if (stream.device.name !== this.name)
      throw typeError(`a stream of ${stream.device.name} cannot be current on ${this.name}`);
    const before = this.currentStream;
    current.set(this.handle, stream);
    try {
      return fn();
    } finally {
      current.set(this.handle, before);
    }
  }

  get closed(): boolean {
    return this.#closed;
  }
  /** Closes this object; the device itself belongs to the process and what was made of it closes on its own. */
  close(): void {
    this.#closed = true;
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #check(): void {
    if (this.#closed) throw stateError('CLOSED', `device ${this.name} is closed; open it again`);
  }
}

class OpenedEvent extends Handle implements DeviceEvent {
  readonly timing: boolean;
  readonly #device: Device;
  constructor(device: Device, handle: number, timing: boolean) {
    super(handle);
    this.#device = device;
    this.timing = timing;
  }
  query(): boolean {
    return native().eventQuery(this.handle);
  }
  elapsedMs(start: DeviceEvent): number {
    return native().elapsedMs(start.handle, this.handle);
  }
  async done(): Promise<void> {
    while (!(await native().waitEventAsync(this.#device.handle, this.handle)));
  }
}

class OpenedStream extends Handle implements Stream {
  readonly device: Device;
  readonly priority: number;
  readonly #permanent: boolean;

  constructor(device: Device, handle: number, priority: number, permanent: boolean) {
    super(handle);
    this.device = device;
    this.priority = priority;
    this.#permanent = permanent;
  }

  record(event: DeviceEvent, options: { external?: boolean } = {}): void {
    checkKeys('record', options, ['external']);
    const { external = false } = options;
    if (typeof external !== 'boolean') throw typeError(`external must be a boolean, got ${String(external)}`);
    native().record(this.handle, event.handle, external);
  }
  wait(event: DeviceEvent): void {
    native().wait(this.handle, event.handle);
  }
  copy(to: Tensor, from: Tensor): void {
    if (!to.contiguous || !from.contiguous) {
      throw typeError(`copy needs contiguous tensors; got strides [${to.strides}] and [${from.strides}]`);
    }
    if (to.bytes !== from.bytes)
      throw rangeError(`copy from ${from.bytes} bytes to ${to.bytes} bytes: they must be equal`);
    native().copy(this.handle, to.handle, to.byteOffset, from.handle, from.byteOffset, to.bytes);
  }
  fill(to: Tensor, value: number | bigint): void {
    if (!to.contiguous) throw typeError(`fill needs a contiguous tensor; got strides [${to.strides}]`);
    const pattern = new dtypes[to.dtype].array(1);
    const wanted = typeof pattern[0];
    if (typeof value !== wanted) throw typeError(`fill of ${to.dtype} takes a ${wanted}, got ${String(value)}`);
    (pattern as Float32Array)[0] = value as number;
    native().fill(this.handle, to.handle, to.byteOffset, to.bytes, pattern);
  }
  launch(kernel: string, { tensors = [], wholes = [], reals = [] }: LaunchArguments = {}): void {
    const spans: number[] = [];
    for (const tensor of tensors)
      spans.push(tensor.handle, tensor.byteOffset, tensor.spanBytes, elementTypes[tensor.dtype] ?? 0);
    native().launch(this.handle, kernel, spans, wholes, reals);
  }
  replay(exec: GraphExec): void {
    native().replay(this.handle, exec.handle);
  }
  query(): boolean {
    return native().streamQuery(this.handle);
  }
  async synchronize(): Promise<void> {
    // Not through the device: a stream outlives the object it was made with.
    using event = new OpenedEvent(this.device, native().createEvent(this.device.handle, false), false);
    this.record(event);
    await event.done();
  }
  beginCapture(): void {
    native().beginCapture(this.handle);
  }
  endCapture(): Graph {
    return new CapturedGraph(native().endCapture(this.handle));
  }
  get capturing(): boolean {
    return native().capturing(this.handle);
  }
  override close(): void {
    if (!this.#permanent) super.close();
  }
}

class CapturedGraph extends Handle implements Graph {
  get nodeCount(): number {
    return native().nodeCount(this.handle);
  }
  instantiate(): GraphExec {
    return new ReadyGraph(native().instantiate(this.handle));
  }
}

class ReadyGraph extends Handle implements GraphExec {
  update(graph: Graph): boolean {
    return native().update(this.handle, graph.handle);
  }
}

/** The bytes behind tensors: device memory of ours, or registered host memory. */
class MemoryStorage extends Handle implements Storage {
  readonly device: Device;
  readonly bytes: number;
  readonly host: boolean;
  constructor(device: Device, handle: number, bytes: number, host: boolean) {
    super(handle);
    this.device = device;
    this.bytes = bytes;
    this.host = host;
  }

  async read(byteOffset: number, bytes: number, stream: Stream): Promise<Uint8Array> {
    using staging = new Handle(native().read(stream.handle, this.handle, byteOffset, bytes));
    await stream.synchronize();
    const out = new Uint8Array(bytes);
    native().copyOut(staging.handle, out);
    return out;
  }

  write(byteOffset: number, bytes: Uint8Array, stream: Stream): void {
    native().write(stream.handle, this.handle, byteOffset, bytes);
  }
}

class RegisteredHost extends MemoryStorage implements HostMemory {
  /** keeps the bytes from being collected while they are registered */
  view: TypedArray | null;
  readonly kind: HostKind;
  constructor(device: Device, view: TypedArray, pin: boolean) {
    super(device, native().registerHost(device.handle, view, pin), view.byteLength, true);
    this.kind = hostKinds[native().hostKind(this.handle)] as HostKind;
    this.view = view;
  }
  tensor({ shape, dtype, byteOffset = 0 }: { shape: readonly number[]; dtype: DType; byteOffset?: number }): Tensor {
    checkShape(shape);
    const { bytes } = dtypes[checkDType('tensor', dtype)];
    const at = (this.view?.byteOffset ?? 0) + byteOffset;
    if (at % bytes !== 0)
      throw rangeError(`a tensor of ${dtype} starts at a multiple of ${bytes} bytes in its memory, got ${at}`);
    return new Tensor(this, [...shape], checkDType('tensor', dtype), byteOffset);
  }
  override close(): void {
    super.close();
    this.view = null;
  }
}

/** Blocks this thread until the event is done, helping the device; false when `ms` are over. Never on the main thread. */
export function waitEventSync(device: Device, event: DeviceEvent, ms: number): boolean {
  if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await event.done() instead');
  return native().waitEvent(device.handle, event.handle, ms);
}

function checkShape(shape: readonly number[]): number {
  if (!Array.isArray(shape)) throw typeError(`a shape is an array of whole numbers, got ${String(shape)}`);
  for (const d of shape) checkCount(`shape [${shape}]: every dimension`, d, 0);
  return elementCount(shape);
}
