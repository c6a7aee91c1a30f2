/**
 * How an operand's bytes get from one spec's device to another's, in the order that events give.
 */

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
 * What is enqueued on `later` from now on comes after what is on `earlier`: the devices wait, the
 * host does not.
 */
function follow(later: Stream, earlier: Stream): void {
  if (later.handle === earlier.handle) return;
  // Not through the device object: a stream outlives it. A wait is for the record there was, so the
  // event may go at once.
  const { device } = earlier;
  using mark = new OpenedEvent(device, nativeEvents().createEvent(device.handle, false), false);
  earlier.record(mark);
  later.wait(mark);
}

/**
 * The stream that reads the input, behind whatever makes it: behind `startEvent`, else behind the
 * source's current stream.
 */
export function readerOf(source: DeviceSpec, startEvent: DeviceEvent | undefined): Stream {
  const reader = source.transferStream ?? source.current;
  if (startEvent) reader.wait(startEvent);
  else follow(reader, source.current);
  return reader;
}

/** Fresh memory on a device, filled by `fill`; closed when that fails. */
function filled(device: Device, like: Tensor | CpuTensor, fill: (out: Tensor) => void): Tensor {
  // Memory that was used before is given out again only when what used it is done: a copy into it
  // need not wait.
  return allOrNothing((own) => {
    const out = own(device.allocate({ shape: like.shape, dtype: like.dtype, zeroed: false }));
    if (out.size > 0) fill(out);
    return out;
  });
}

/** From one device of a family to another. The target's current stream waits for it. */
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
    // In two steps, through pinned memory of the source, which is kept until the second is done:
    // that one is the target's.
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

/** From process memory to a device: the bytes are taken at once. */
export function enter(values: CpuTensor, to: DeviceSpec): Tensor {
  return filled(to.device as Device, values, (out) => {
    out.write(values.data, to.current);
  });
}

/** The elements, row-major. Blocks this thread, helping the device; never on the main thread. */
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
