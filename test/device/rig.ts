/** What device tests share: a latch that holds a stream, bounded asking, refusals as values, handle counts. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { HandleKind, native } from '../../src/device/native.ts';
import { type Device, DeviceError, type DeviceEvent, type Stream, type Tensor } from '../../src/index.ts';

/** Asks again and again, giving the event loop a turn in between; never helps the device. Fails after `ms`. */
export async function until(what: string, met: () => boolean, ms = 5000): Promise<void> {
  for (const end = performance.now() + ms; !met(); await turn())
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
}

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

export interface Refusal extends Error {
  code?: string;
  status?: number;
  statusName?: string;
}

/** The error that `call` throws; fails when it does not. */
export function refusal(call: () => unknown): Refusal {
  try {
    call();
  } catch (error) {
    return error as Refusal;
  }
  throw new Error('nothing was refused');
}

export async function rejection(promise: Promise<unknown>): Promise<Refusal> {
  return promise.then(
    () => {
      throw new Error('nothing was rejected');
    },
    (error: Refusal) => error,
  );
}

/** `call` is refused by the driver with this status. */
export function refusesWith(status: number, statusName: string, call: () => unknown): void {
  const error = refusal(call);
  expect(error, error.message).to.be.instanceOf(DeviceError);
  expect([error.status, error.statusName, error.code]).to.deep.equal([status, statusName, 'ERR_HOTSLOT_DEVICE']);
  expect(error.message).to.include(statusName);
}

/** Open handles by kind. */
export function openHandles(): Record<string, number> {
  return Object.fromEntries(Object.entries(HandleKind).map(([name, kind]) => [name, native().handleCount(kind).open]));
}

/** Open handles that somebody pins. */
export function pinnedHandles(): number {
  return Object.values(HandleKind).reduce<number>((sum, kind) => sum + native().handleCount(kind).pinned, 0);
}

/** An int32 or float32 tensor that holds these values: any stream may use it. */
export async function tensorOf(
  device: Device,
  values: readonly number[],
  dtype: 'int32' | 'float32' = 'float32',
): Promise<Tensor> {
  const array = dtype === 'int32' ? Int32Array : Float32Array;
  const tensor = device.allocate({ shape: [values.length], dtype }).write(new array(values));
  await device.currentStream.synchronize();
  return tensor;
}

export const valuesOf = async (tensor: Tensor, stream?: Stream) => Array.from(await tensor.toArray(stream), Number);

/** y = y + x, elementwise. */
export function add(stream: Stream, y: Tensor, x: Tensor): void {
  stream.launch('axpby', { tensors: [y, x], wholes: [y.size], reals: [1, 1] });
}
