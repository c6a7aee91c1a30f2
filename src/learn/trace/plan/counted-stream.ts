/** Counts the operations that a layer enqueues. */
import type { LaunchArguments, LoadedArguments, Stream, Tensor } from '../../../device/device.ts';
import type { KernelName } from '../../../device/kernels.ts';
import type { LooseArguments } from '../../../device/launch.ts';
import type { LoadedKernel } from '../../../device/own-kernels/declarations.ts';
import { OpenedStream } from '../../../device/stream.ts';

/** Wraps a stream, and counts the launches, copies and fills that are enqueued through it. */
export class CountedStream extends OpenedStream {
  operations = 0;

  constructor(stream: Stream) {
    super(stream.device, stream.handle, stream.priority, 'device', stream);
  }

  override launch<K extends KernelName>(kernel: K, ...args: LaunchArguments<K>): void;
  override launch(kernel: LoadedKernel, args: LoadedArguments): void;
  override launch(kernel: string | LoadedKernel, args: LooseArguments = {}): void {
    this.operations++;
    super.launch(kernel as LoadedKernel, args as LoadedArguments);
  }
  override copy(to: Tensor, from: Tensor): void {
    this.operations++;
    super.copy(to, from);
  }
  override fill(to: Tensor, value: number | bigint): void {
    this.operations++;
    super.fill(to, value);
  }
}
