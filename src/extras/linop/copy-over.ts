/** Copies of an operand's bytes from one spec's device to another's, ordered by events. */

import { arrayOf, type TypedArray } from '../../base/dtype.ts';
import type { CpuTensor } from '../../device/cpu-tensor.ts';
import type { Device, DeviceEvent, Stream, Tensor } from '../../device/device.ts';
import { Handle } from '../../device/handle.ts';
import { nativeDevices, nativeEvents, nativeMemory, nativeStreams } from '../../device/native.ts';
import { waitEventSync } from '../../device/open.ts';
import { allOrNothing } from '../../device/owner.ts';
import { OpenedEvent } from '../../device/stream.ts';
import { denseCopy } from './dense.ts';
import type { DeviceSpec } from './device-spec.ts';

/**
 * Orders work enqueued on `later` from now on after the work on `earlier`. The devices wait, the
 * host does not.
 */
function follow(later: Stream, earlier: Stream): void {
  if (later.handle === earlier.handle) return;
  // Not through the device object: a stream outlives it. A wait is for the latest record, so the
  // event may close at once.
  const { device } = earlier;
  using mark = new OpenedEvent(device, nativeEvents().createEvent(device.handle, false), false);
  earlier.record(mark);
  later.wait(mark);
}

/**
 * Returns the stream that reads the input, ordered after `startEvent`, or else after the source's
 * current stream.
 */
export function readerOf(source: DeviceSpec, startEvent: DeviceEvent | undefined): Stream {
  const reader = source.transferStream ?? source.current;
  if (startEvent) reader.wait(startEvent);
  else follow(reader, source.current);
  return reader;
}

/** Allocates memory on a device and fills it by `fill`. Closes it if that throws. */
function filled(device: Device, like: Tensor | CpuTensor, fill: (out: Tensor) => void): Tensor {
  // Memory is reused only when the work that used it is done, so a copy into it need not wait.
  return allOrNothing((own) => {
    const out = own(device.allocate({ shape: like.shape, dtype: like.dtype, zeroed: false }));
    if (out.size > 0) fill(out);
    return out;
  });
}

/**
 * Copies from one device of a family to another. The target's current stream waits for the copy.
 */
export function copyOver(x: Tensor, transfer: Stream, from: DeviceSpec, to: DeviceSpec): Tensor {
  const [source, target] = [from.device, to.device] as [Device, Device];
  return filled(target, x, (out) => {
    using made = x.contiguous ? null : denseCopy(x, source, transfer);
    const dense = made ?? x;
    const { current } = to;
    if (nativeDevices().reaches(source.handle, target.handle)) {
      transfer.copy(out, dense);
      follow(current, transfer);
      return;
    }
    // In two steps, through pinned memory of the source. The second copy runs on the target, and
    // the memory is kept until it is done.
    using staging = new Handle(
      nativeMemory().read(transfer.handle, dense.handle, dense.byteOffset, dense.bytes),
    );
    follow(current, transfer);
    nativeStreams().copy(
      current.handle,
      out.handle,
      out.byteOffset,
      staging.handle,
      0,
      dense.bytes,
    );
  });
}

/** Copies from process memory to a device. The bytes are read before it returns. */
export function enter(values: CpuTensor, to: DeviceSpec): Tensor {
  return filled(to.device as Device, values, (out) => {
    out.write(values.data, to.current);
  });
}

/**
 * Returns the elements, row-major. Blocks this thread, which helps the device. Never call it on the
 * main thread.
 */
export function readSync(x: Tensor, reader: Stream, from: DeviceSpec): TypedArray {
  const data = arrayOf(x.dtype, x.size);
  if (x.size === 0) return data;
  const source = from.device as Device;
  using made = x.contiguous ? null : denseCopy(x, source, reader);
  const { handle, byteOffset, bytes } = made ?? x;
  using staging = new Handle(nativeMemory().read(reader.handle, handle, byteOffset, bytes));
  using done = source.createEvent();
  reader.record(done);
  waitEventSync(source, done);
  nativeMemory().copyOut(staging.handle, new Uint8Array(data.buffer));
  return data;
}
