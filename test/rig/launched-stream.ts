/** A stream that records the launches through it, and that can fail before one of them. */
import type { LaunchArguments, LoadedArguments, Stream, Tensor } from '../../src/device/device.ts';
import type { KernelName } from '../../src/device/kernels.ts';
import type { LooseArguments } from '../../src/device/launch.ts';
import type { LoadedKernel } from '../../src/device/own-kernels/declarations.ts';
import { OpenedStream } from '../../src/device/stream.ts';

/** A launch, or a copy with the name 'copy'. */
export interface Launched {
  readonly kernel: string;
  readonly tensors: readonly Tensor[];
}

/** Wraps a stream, and records the launches and copies that are enqueued through it. */
export class LaunchedStream extends OpenedStream {
  readonly launched: Launched[] = [];
  readonly #before: (kernel: string) => void;

  /** `before` is called before each launch. If it throws, the kernel is not launched */
  constructor(stream: Stream, before: (kernel: string) => void = () => {}) {
    super(stream.device, stream.handle, stream.priority, 'device', stream);
    this.#before = before;
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  override launch(kernel: LoadedKernel, args: LoadedArguments): void;
  override launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    const name = typeof kernel === 'string' ? kernel : kernel.name;
    this.#before(name);
    this.launched.push({ kernel: name, tensors: [...(args.tensors ?? [])] });
    super.launch(kernel as LoadedKernel, args as LoadedArguments);
  }
  override copy(to: Tensor, from: Tensor): void {
    this.launched.push({ kernel: 'copy', tensors: [to, from] });
    super.copy(to, from);
  }
}
