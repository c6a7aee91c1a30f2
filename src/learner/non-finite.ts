/** Finds the first operation of an update that wrote a number that is none: every launch is looked at as it is enqueued. */
import { checkDevice, checkFunction } from '../device/checks.ts';
import type { Device, DeviceEvent, LaunchArguments, Stream, Tensor } from '../device/device.ts';
import { type KernelName, kernels } from '../device/kernels.ts';
import { OpenedStream } from '../device/stream.ts';
import { stateError, typeError } from '../errors.ts';

/** An operation that wrote NaN or an infinity, the first that did. */
export interface NonFinite {
  /** operations enqueued before it */
  operation: number;
  /** the kernel's name, or 'copy' or 'fill' */
  kernel: KernelName | 'copy' | 'fill';
  /** the tensor's name, as docs/learner.md has it for the kernel */
  tensor: string;
  /** the element, row-major, and what it became */
  index: number;
  value: number;
  /** names of this operation's tensors in which such a number stood before it: it came from there */
  before: string[];
  /** all of that in a sentence */
  text: string;
}

/**
 * Runs `fn` eagerly on the device's current stream, and reads what each of its operations wrote to float tensors: null when all
 * of it is finite. The operations happen, once. What other streams and replayed graphs do is not seen. Each look is a copy: for
 * finding an error, not for training. Throws ERR_HOTSLOT_STATE_CAPTURE inside a capture.
 */
export async function firstNonFinite(device: Device, fn: (stream: Stream) => void): Promise<NonFinite | null> {
  checkDevice('firstNonFinite', device);
  checkFunction('firstNonFinite', fn);
  const current = device.currentStream;
  if (current.capturing) throw stateError('CAPTURE', 'firstNonFinite reads from the device, which no capture may hold');
  const watched = new WatchedStream(current);
  try {
    const result: unknown = device.withStream(watched, () => fn(watched));
    if (typeof (result as { then?: unknown } | undefined)?.then === 'function')
      throw typeError('firstNonFinite: the function must enqueue its work before it returns; it gave a promise');
    return await watched.first();
  } finally {
    await watched.over();
  }
}

/** A tensor that an operation writes or reads, by the name it has there. */
type Named = readonly [name: string, tensor: Tensor];
/** What stood in a tensor at some point of the stream. */
type Look = readonly [name: string, values: Promise<{ readonly length: number; readonly [i: number]: unknown }>];

interface Operation {
  kernel: NonFinite['kernel'];
  before: Look[];
  behind: Look[];
}

/** Another object for a stream, through which what is enqueued is looked at. */
class WatchedStream extends OpenedStream {
  readonly #operations: Operation[] = [];
  /** tensors of which it is known what stood in them: looked at before, and written by nobody else since */
  readonly #seen = new Set<string>();

  constructor(stream: Stream) {
    super(stream.device, stream.handle, stream.priority, 'device', stream);
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void {
    const { tensors = [] } = ((args as readonly unknown[])[0] ?? {}) as { tensors?: readonly Tensor[] };
    const shape = Object.hasOwn(kernels, kernel) ? kernels[kernel] : null;
    const named = tensors.map((tensor, i): Named => [shape?.tensors[i] ?? `tensor ${i}`, tensor]);
    this.#watch(kernel, named, named.slice(0, shape?.writes), () => super.launch(kernel, ...args));
  }
  override copy(to: Tensor, from: Tensor): void {
    const named = [['to', to] as const, ['from', from] as const];
    this.#watch('copy', named, named.slice(0, 1), () => super.copy(to, from));
  }
  override fill(to: Tensor, value: number | bigint): void {
    this.#watch('fill', [], [['to', to]], () => super.fill(to, value));
  }
  /** What comes after it may have been written by others. */
  override wait(event: DeviceEvent, options?: { orderOnly?: boolean }): void {
    super.wait(event, options);
    this.#seen.clear();
  }

  #watch(kernel: Operation['kernel'], named: readonly Named[], written: readonly Named[], enqueue: () => void): void {
    const before = this.#look(named.filter(([, tensor]) => !this.#seen.has(placeOf(tensor))));
    this.#operations.push({ kernel, before, behind: [] });
    enqueue();
    (this.#operations.at(-1) as Operation).behind = this.#look(written);
  }

  #look(named: readonly Named[]): Look[] {
    const floats = named.filter(([, tensor]) => tensor?.dtype === 'float32' || tensor?.dtype === 'float64');
    for (const [, tensor] of floats) this.#seen.add(placeOf(tensor));
    return floats.map(([name, tensor]) => [name, tensor.toArray(this)]);
  }

  async first(): Promise<NonFinite | null> {
    for (const [operation, { kernel, before, behind }] of this.#operations.entries()) {
      const odd: string[] = [];
      for (const [name, values] of before) if (placeOfOdd(await values) >= 0) odd.push(name);
      for (const [tensor, values] of behind) {
        const read = await values;
        const index = placeOfOdd(read);
        if (index < 0) continue;
        const value = read[index] as number;
        const why = odd.length > 0 ? `; such a number stood in ${odd.join(', ')} before it` : '';
        const text = `operation ${operation}, '${kernel}', wrote ${value} to element ${index} of ${tensor}${why}`;
        return { operation, kernel, tensor, index, value, before: odd, text };
      }
    }
    return null;
  }

  /** Whatever became of them. */
  async over(): Promise<void> {
    await Promise.allSettled(
      this.#operations.flatMap(({ before, behind }) => [...before, ...behind].map(([, v]) => v)),
    );
  }
}

const placeOf = (tensor: Tensor): string =>
  `${tensor?.handle} ${tensor?.byteOffset} ${tensor?.shape} ${tensor?.strides} ${tensor?.dtype}`;

function placeOfOdd(values: { readonly length: number; readonly [i: number]: unknown }): number {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return i;
  return -1;
}
