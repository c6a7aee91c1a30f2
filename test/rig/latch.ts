/**
 * A latch that holds a stream: how a test keeps a device's work from being done until it says so,
 * without a clock.
 */
import type { Device, DeviceEvent, HostMemory, Stream, Tensor } from '../../src/index.ts';

/**
 * A kernel on a stream that ends when it is opened; whatever is enqueued behind it has not run
 * before. It is opened by a store: work on another stream could stand behind the held one in a
 * queue that both share.
 */
export class Latch implements Disposable {
  readonly #word: Tensor;
  readonly #inside: DeviceEvent;
  readonly #view: Int32Array;
  readonly #lent: HostMemory | null;
  /** opens it where kernels cannot reach host memory */
  readonly #key: Stream | null = null;
  readonly #most: number;
  #held = false;
  constructor(device: Device) {
    provide(device);
    this.#most = device.traits.watchdog ? 1000 : 10_000;
    this.#view = new Int32Array(new SharedArrayBuffer(4));
    this.#lent = lent(device, this.#view);
    this.#inside = device.createEvent();
    if (this.#lent !== null) this.#word = this.#lent.tensor({ shape: [1], dtype: 'int32' });
    else {
      this.#word = device.allocate({ shape: [1], dtype: 'int32' });
      this.#key = device.createStream();
    }
  }
  /** Holds `stream` until open(), at most ten seconds; one where kernels may not run for long. */
  hold(stream: Stream): this {
    if (!stream.capturing) stream.record(this.#inside);
    this.#held = true;
    stream.launch('latch', { tensors: [this.#word], wholes: [this.#most] });
    return this;
  }
  /** Everything before it on the stream is done. */
  get reached(): boolean {
    return this.#held && this.#inside.query();
  }
  open(): void {
    Atomics.store(this.#view, 0, 1);
    this.#key?.fill(this.#word, 1);
  }
  /** Once everything that it held has gone on. */
  async shut(): Promise<void> {
    Atomics.store(this.#view, 0, 0);
    this.#key?.fill(this.#word, 0);
    await this.#key?.synchronize();
  }
  [Symbol.dispose](): void {
    this.open();
    for (const part of [this.#word, this.#lent, this.#key, this.#inside]) part?.close();
  }
}

/**
 * A driver may wait for everything that runs before it gives memory: what tests take while a stream
 * is held is had before, and kept by the device.
 */
function provide(device: Device): void {
  if (device.family === 'host' || device.currentStream.capturing) return;
  const small = Array.from({ length: 12 }, () => device.allocate({ shape: [1], zeroed: false }));
  // Behind work that takes a while, so that each is written through memory of its own.
  const large = device.allocate({ shape: [1 << 16], zeroed: false });
  for (let i = 0; i < 40; i++) device.currentStream.fill(large, i);
  for (const tensor of small.slice(0, 6)) tensor.write(Float32Array.of(0));
  for (const tensor of [...small, large]) tensor.close();
  // What they were written through comes back when the writes are done, unless another latch holds
  // them.
  for (
    const end = performance.now() + 50;
    !device.currentStream.query() && performance.now() < end;
  );
  device.memoryInfo();
}

/** The word lent to a device whose kernels reach it there; null where none does. */
function lent(device: Device, view: Int32Array): HostMemory | null {
  if (device.family === 'host') return device.registerHost(view, { pin: false });
  try {
    const memory = device.registerHost(view);
    if (memory.kind === 'registered') return memory;
    memory.close();
  } catch {
    // it is not pinned here
  }
  return null;
}
