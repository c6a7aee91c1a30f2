/** What device tests share: a latch that holds a stream, bounded asking, refusals as values, handle counts. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { HandleKind, native } from '../../src/device/native.ts';
import { type Device, DeviceError, type HostMemory, type Stream, type Tensor } from '../../src/index.ts';

/** Asks again and again, giving the event loop a turn in between; never helps the device. Fails after `ms`. */
export async function until(what: string, met: () => boolean, ms = 5000): Promise<void> {
  for (const end = performance.now() + ms; !met(); await turn())
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
}

/** A kernel on a stream that ends when it is opened; whatever is enqueued behind it has not run before. */
export class Latch implements Disposable {
  static readonly #OPEN = 0;
  static readonly #INSIDE = 1;
  readonly #words = new Int32Array(new SharedArrayBuffer(8));
  readonly #memory: HostMemory;
  readonly #open: Tensor;
  readonly #inside: Tensor;
  constructor(device: Device) {
    this.#memory = device.registerHost(this.#words);
    this.#open = this.#memory.tensor({ shape: [1], dtype: 'int32' });
    this.#inside = this.#memory.tensor({ shape: [1], dtype: 'int32', byteOffset: 4 });
  }
  /** Holds `stream` until open(), at most ten seconds. */
  hold(stream: Stream): this {
    stream.fill(this.#inside, 1);
    stream.launch('latch', { tensors: [this.#open], wholes: [10_000] });
    return this;
  }
  get reached(): boolean {
    return Atomics.load(this.#words, Latch.#INSIDE) === 1;
  }
  open(): void {
    Atomics.store(this.#words, Latch.#OPEN, 1);
  }
  shut(): void {
    this.#words.fill(0);
  }
  [Symbol.dispose](): void {
    this.open();
    this.#memory.close();
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
