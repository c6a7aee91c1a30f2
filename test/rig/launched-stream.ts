/** A stream that records what is launched through it, and that can refuse a launch. */
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
  readonly #refuse: (kernel: string) => boolean;

  /** `refuse` returns whether a launch of a kernel throws an error instead of running */
  constructor(stream: Stream, refuse: (kernel: string) => boolean = () => false) {
    super(stream.device, stream.handle, stream.priority, 'device', stream);
    this.#refuse = refuse;
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  override launch(kernel: LoadedKernel, args: LoadedArguments): void;
  override launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    const name = typeof kernel === 'string' ? kernel : kernel.name;
    if (this.#refuse(name)) throw new Error(`the launch of ${name} is refused`);
    this.launched.push({ kernel: name, tensors: [...(args.tensors ?? [])] });
    super.launch(kernel as LoadedKernel, args as LoadedArguments);
  }
  override copy(to: Tensor, from: Tensor): void {
    this.launched.push({ kernel: 'copy', tensors: [to, from] });
    super.copy(to, from);
  }
}
