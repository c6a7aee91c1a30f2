/**
 * Finds out which scalars a captured update writes. A named scalar that the update does not write
 * would read 0 in every tick, so capture() warns about it.
 */
import type { LaunchArguments, LoadedArguments, Stream, Tensor } from '../../device/device.ts';
import type { KernelName } from '../../device/kernels.ts';
import { type LooseArguments, touched } from '../../device/launch.ts';
import type { LoadedKernel } from '../../device/own-kernels/declarations.ts';
import { OpenedStream } from '../../device/stream.ts';

/**
 * The stream that a captured function receives. The stream records which elements of `out` are
 * written. It cannot see the work of another stream for which it waits, or the work of a replayed
 * graph. After such a wait or replay, every scalar counts as written.
 */
export class CaptureStream extends OpenedStream {
  readonly #out: Tensor<'float32'>;
  readonly #written: boolean[];

  constructor(stream: Stream, out: Tensor<'float32'>) {
    super(stream.device, stream.handle, stream.priority, 'pipeline', stream);
    this.#out = out;
    this.#written = new Array<boolean>(out.size).fill(false);
  }

  /**
   * Returns those names of `scalars` whose elements of `out` were never written. `scalars` names
   * the first elements.
   */
  unwritten(scalars: readonly string[]): string[] {
    return scalars.filter((_, i) => !this.#written[i]);
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  override launch(kernel: LoadedKernel, args: LoadedArguments): void;
  override launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    super.launch(kernel as LoadedKernel, args as LoadedArguments);
    for (const [, tensor] of touched(kernel, args).writes) this.#note(tensor);
  }
  override copy(to: Tensor, from: Tensor): void {
    super.copy(to, from);
    this.#note(to);
  }
  override fill(to: Tensor, value: number | bigint): void {
    super.fill(to, value);
    this.#note(to);
  }
  override wait(...args: Parameters<Stream['wait']>): void {
    super.wait(...args);
    this.#written.fill(true);
  }
  override replay(...args: Parameters<Stream['replay']>): void {
    super.replay(...args);
    this.#written.fill(true);
  }

  /**
   * Records the elements of `out` that a write to a tensor covers. Gaps between the tensor's rows
   * count as written.
   */
  #note({ handle, byteOffset, spanBytes }: Tensor): void {
    if (handle !== this.#out.handle) return;
    const from = Math.floor((byteOffset - this.#out.byteOffset) / 4);
    const to = Math.ceil((byteOffset + spanBytes - this.#out.byteOffset) / 4);
    this.#written.fill(true, Math.max(from, 0), Math.max(to, 0));
  }
}

export function unwrittenText(names: readonly string[]): string {
  const list = names.map((name) => `'${name}'`).join(', ');
  return `capture: the update does not write ${list}: these scalars will read 0. Write to their elements of out, or leave out their names`;
}
