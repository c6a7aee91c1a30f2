/** Copies an operand's bytes from the device of one DeviceSpec to that of another. */

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
 * Makes all work that is enqueued on `later` after this call wait for the work that is already on
 * `earlier`. The devices wait, and the host does not.
 */
function follow(later: Stream, earlier: Stream): void {
  if (later.handle === earlier.handle) return;
  // Creates the event by the device's handle, because the Device object may already be closed. The
  // event may be closed as soon as the wait is enqueued.
  const { device } = earlier;
  using mark = new OpenedEvent(device, nativeEvents().createEvent(device.handle, false), false);
  earlier.record(mark);
  later.wait(mark);
}

/**
 * Returns the stream that reads the input. Makes that stream wait for `startEvent`, or without one,
 * for the source's current stream.
 */
export function readerOf(source: DeviceSpec, startEvent: DeviceEvent | undefined): Stream {
  const reader = source.transferStream ?? source.current;
  if (startEvent) reader.wait(startEvent);
  else follow(reader, source.current);
  return reader;
}

/** Allocates a tensor on a device, and calls `fill` with it. Closes the tensor if `fill` throws. */
function filled(device: Device, like: Tensor | CpuTensor, fill: (out: Tensor) => void): Tensor {
  // allocate() reuses memory only after the work that used it is done, so no copy needs to wait.
  return allOrNothing((own) => {
    const out = own(device.allocate({ shape: like.shape, dtype: like.dtype, zeroed: false }));
    if (out.size > 0) fill(out);
    return out;
  });
}

/**
 * Copies a tensor from one device to another device of its family. The target's current stream
 * waits for the copy.
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
    // Copies in two steps, through pinned memory of the source's driver. The second copy runs on
    // the target. The pinned memory stays allocated until that copy is done, although `staging`
    // closes here.
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

/** Copies from process memory to a device. Reads all values before it returns. */
export function enter(values: CpuTensor, to: DeviceSpec): Tensor {
  return filled(to.device as Device, values, (out) => {
    out.write(values.data, to.current);
  });
}

/**
 * Returns the tensor's elements in row-major order. Blocks the calling thread until they are
 * copied. Meanwhile, the thread helps to run the work of a CPU device. Do not call this on the main
 * thread.
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
