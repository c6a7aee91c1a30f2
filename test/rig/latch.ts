/** A latch that holds a stream: how a test keeps a device's work from being done until it says so, without a clock. */
import type { Device, DeviceEvent, Stream, Tensor } from '../../src/index.ts';

/** A kernel on a stream that ends when it is opened; whatever is enqueued behind it has not run before. */
export class Latch implements Disposable {
  readonly #word: Tensor;
  /** where it is opened from: nothing else is on it */
  readonly #key: Stream;
  readonly #inside: DeviceEvent;
  #held = false;
  constructor(device: Device) {
    this.#word = device.allocate({ shape: [1], dtype: 'int32' });
    this.#key = device.createStream();
    this.#inside = device.createEvent();
  }
  /** Holds `stream` until open(), at most ten seconds. */
  hold(stream: Stream): this {
    if (!stream.capturing) stream.record(this.#inside);
    this.#held = true;
    stream.launch('latch', { tensors: [this.#word], wholes: [10_000] });
    return this;
  }
  /** Everything before it on the stream is done. */
  get reached(): boolean {
    return this.#held && this.#inside.query();
  }
  open(): void {
    this.#key.fill(this.#word, 1);
  }
  async shut(): Promise<void> {
    this.#key.fill(this.#word, 0);
    await this.#key.synchronize();
  }
  [Symbol.dispose](): void {
    this.open();
    for (const part of [this.#word, this.#key, this.#inside]) part.close();
  }
}
