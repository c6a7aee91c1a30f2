/**
 * A latch holds a stream: with it, a test keeps a device's work from finishing until the test
 * allows it. No clock is needed.
 */
import type { Device, DeviceEvent, HostMemory, Stream, Tensor } from '../../src/index.ts';

/**
 * A kernel that ends when the latch is opened. Work that is enqueued after the kernel waits for it.
 * A store opens the latch, because work on another stream could be queued after the kernel if both
 * streams share a queue.
 */
export class Latch implements Disposable {
  readonly #word: Tensor;
  readonly #inside: DeviceEvent;
  readonly #view: Int32Array;
  readonly #lent: HostMemory | null;
  /** the stream that opens the latch if kernels cannot reach host memory */
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
  /**
   * Holds `stream` until open(), for at most ten seconds, or one second if the device has a
   * watchdog.
   */
  hold(stream: Stream): this {
    if (!stream.capturing) stream.record(this.#inside);
    this.#held = true;
    stream.launch('latch', { tensors: [this.#word], wholes: [this.#most] });
    return this;
  }
  /** Whether everything that was enqueued on the stream before the latch is done. */
  get reached(): boolean {
    return this.#held && this.#inside.query();
  }
  open(): void {
    Atomics.store(this.#view, 0, 1);
    this.#key?.fill(this.#word, 1);
  }
  /** Closes the latch for its next use. Call it when all held work has finished. */
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
 * A driver may wait for all running work before it allocates memory. So the memory that tests need
 * while a stream is held is allocated here and freed, and the device keeps it.
 */
function provide(device: Device): void {
  if (device.family === 'host' || device.currentStream.capturing) return;
  const small = Array.from({ length: 12 }, () => device.allocate({ shape: [1], zeroed: false }));
  // The writes come after work that takes a while, so that each write needs its own staging memory.
  const large = device.allocate({ shape: [1 << 16], zeroed: false });
  for (let i = 0; i < 40; i++) device.currentStream.fill(large, i);
  for (const tensor of small.slice(0, 6)) tensor.write(Float32Array.of(0));
  for (const tensor of [...small, large]) tensor.close();
  // The staging memory is free when the writes are done, unless another latch holds them.
  for (
    const end = performance.now() + 50;
    !device.currentStream.query() && performance.now() < end;
  );
  device.memoryInfo();
}

/** Lends the word to the device. Returns null if the device's kernels cannot reach it. */
function lent(device: Device, view: Int32Array): HostMemory | null {
  if (device.family === 'host') return device.registerHost(view, { pin: false });
  try {
    const memory = device.registerHost(view);
    if (memory.kind === 'registered') return memory;
    memory.close();
  } catch {
    // the device cannot pin this memory
  }
  return null;
}
