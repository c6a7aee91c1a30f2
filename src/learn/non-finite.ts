/**
 * Finds the first operation of an update that wrote NaN or infinity. To do so, it copies the float
 * tensors of every launch back from the device.
 */

import { stateError, typeError } from '../base/errors.ts';
import { checkDevice, checkFunction } from '../device/checks.ts';
import type { Device, LaunchArguments, LoadedArguments, Stream, Tensor } from '../device/device.ts';
import type { KernelName } from '../device/kernels.ts';
import { type LooseArguments, type Named, touched } from '../device/launch.ts';
import type { LoadedKernel } from '../device/own-kernels/declarations.ts';
import { OpenedStream } from '../device/stream.ts';

/** First operation that wrote NaN or infinity. */
export interface NonFinite {
  /** number of operations that were enqueued before this one */
  operation: number;
  /** name of the kernel, which may be one of your own, or 'copy' or 'fill' */
  kernel: KernelName | 'copy' | 'fill' | (string & {});
  /** name of the tensor as docs/reference/kernels.md lists it for the kernel */
  tensor: string;
  /** row-major index of the first such element in the tensor. `value` is the element's new value */
  index: number;
  value: number;
  /** names of the tensors that already contained NaN or infinity when the operation read them */
  before: string[];
  /** op of a trace that the operation computes. Operations outside of traces have none */
  op?: string;
  /** line of your program that made the op */
  line?: string;
  /** the fields above as a sentence */
  text: string;
}

/**
 * Runs `fn` once on the device's current stream, and checks the floats that each operation writes.
 * Each operation runs once, and no graph is captured or replayed. The function does not check work
 * on other streams or in replayed graphs. Each check copies the tensors that the operation reads
 * and writes, so use it to find an error, not to train.
 *
 * @param fn enqueues its work on the given stream before it returns
 * @returns the first operation that wrote NaN or infinity, or null if all numbers were finite
 * @throws {TypeError} for another device, or if `fn` returns a promise
 * @throws {ERR_HOTSLOT_STATE_CAPTURE} inside a capture
 * @throws the error of `fn`
 * @example
 * const found = await firstNonFinite(device, (stream) => learner.update(stream, batch, out));
 * if (found) console.log(found.text);
 */
export async function firstNonFinite(
  device: Device,
  fn: (stream: Stream) => void,
): Promise<NonFinite | null> {
  checkDevice('firstNonFinite', device);
  checkFunction('firstNonFinite', fn);
  const current = device.currentStream;
  if (current.capturing)
    throw stateError(
      'CAPTURE',
      'firstNonFinite() reads back from the device, which a capture cannot contain',
    );
  const watched = new WatchedStream(current);
  try {
    const result: unknown = device.withStream(watched, () => fn(watched));
    if (typeof (result as { then?: unknown } | undefined)?.then === 'function') {
      Promise.resolve(result).catch(() => {});
      throw typeError(
        'firstNonFinite: the function must enqueue its work before it returns, but it returned a promise',
      );
    }
    return await watched.first();
  } finally {
    await watched.over();
  }
}

/** Name of a tensor, and a promise of its values at one point of the stream. */
type Check = readonly [name: string, values: Promise<ArrayLike<unknown>>];

/** The op of a trace that a launch computes. */
export interface OpLabel {
  op: string;
  line: string;
  /** whether the op reads an infinite constant, as a mask has. Its result may be infinite */
  infinite: boolean;
  /** the parts that the launch writes of each tensor, if it leaves gaps between them */
  parts?: readonly (readonly Tensor[] | null)[];
}

interface Operation {
  kernel: NonFinite['kernel'];
  label: OpLabel | null;
  before: Check[];
  after: Check[];
}

/** Wraps a stream, and checks the operations that are enqueued through the wrapper. */
export class WatchedStream extends OpenedStream {
  readonly #operations: Operation[] = [];
  /** the op whose launches follow */
  label: OpLabel | null = null;

  constructor(stream: Stream) {
    super(stream.device, stream.handle, stream.priority, 'device', stream);
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  override launch(kernel: LoadedKernel, args: LoadedArguments): void;
  override launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    const { reads, writes: whole } = touched(kernel, args);
    const writes = whole.flatMap((each, i): Named[] => {
      const parts = this.label?.parts?.[i];
      return parts ? parts.map((part) => [each[0], part]) : [each];
    });
    const name = typeof kernel === 'string' ? kernel : kernel.name;
    this.#watch(name, reads, writes, () =>
      super.launch(kernel as LoadedKernel, args as LoadedArguments),
    );
  }
  override copy(to: Tensor, from: Tensor): void {
    this.#watch('copy', [['from', from]], [['to', to]], () => super.copy(to, from));
  }
  override fill(to: Tensor, value: number | bigint): void {
    this.#watch('fill', [], [['to', to]], () => super.fill(to, value));
  }

  #watch(
    kernel: NonFinite['kernel'],
    reads: readonly Named[],
    writes: readonly Named[],
    enqueue: () => void,
  ): void {
    const { label } = this;
    const operation: Operation = { kernel, label, before: this.#check(reads), after: [] };
    this.#operations.push(operation);
    enqueue();
    operation.after = this.#check(writes);
  }

  #check(named: readonly Named[]): Check[] {
    const floats = named.filter(
      ([, tensor]) => tensor?.dtype === 'float32' || tensor?.dtype === 'float64',
    );
    return floats.map(([name, tensor]) => {
      const values = tensor.toArray(this);
      // first() awaits these values and throws their failure. This handler prevents an unhandled
      // rejection of values that first() does not reach.
      values.catch(() => {});
      return [name, values];
    });
  }

  async first(): Promise<NonFinite | null> {
    for (const [
      operation,
      { kernel, label, before: checks, after },
    ] of this.#operations.entries()) {
      const isFault = label?.infinite ? Number.isNaN : isNonFinite;
      const before: string[] = [];
      for (const [name, values] of checks)
        if (placeOf(await values, isNonFinite) >= 0) before.push(name);
      for (const [tensor, values] of after) {
        const read = await values;
        const index = placeOf(read, isFault);
        if (index < 0) continue;
        const value = read[index] as number;
        const why = before.length > 0 ? `; ${before.join(', ')} had NaN or infinity before it` : '';
        const { op, line } = label ?? {};
        const where = label ? ` for '${op}' of ${line}` : '';
        const text = `operation ${operation}, '${kernel}'${where}, wrote ${value} to element ${index} of ${tensor}${why}`;
        const found = { operation, kernel, tensor, index, value, before, text };
        return op === undefined || line === undefined ? found : { ...found, op, line };
      }
    }
    return null;
  }

  /** Waits until all reads have ended, whether they succeeded or failed. */
  async over(): Promise<void> {
    const checks = this.#operations.flatMap(({ before, after }) => [...before, ...after]);
    await Promise.allSettled(checks.map(([, values]) => values));
  }
}

const isNonFinite = (value: unknown): boolean => !Number.isFinite(value);

/** Returns the index of the first value that is a fault, or −1. */
function placeOf(values: ArrayLike<unknown>, isFault: (value: unknown) => boolean): number {
  for (let i = 0; i < values.length; i++) if (isFault(values[i])) return i;
  return -1;
}
