/**
 * Specifies the device of an operator's input or output, and its two streams. The compute stream
 * computes, and the transfer stream copies to another device.
 */

import { describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { checkDevice } from '../../device/checks.ts';
import type { Device, Stream } from '../../device/device.ts';
import type { DeviceFamily } from '../../device/facts.ts';
import { nativeShared } from '../../device/native.ts';
import { openDevice } from '../../device/open.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { belongingStream, dropFailed } from '../../device/stream.ts';

/**
 * Replaces the process's transfer stream from `spec` to `other` if that stream has failed or is
 * closed. Call this after an error. The package does not export this function.
 */
export let renewTransfer: (spec: DeviceSpec, other: DeviceSpec) => void;

/**
 * Describes a device with its streams. The caller closes the streams and the Device that it passes.
 * close() closes a device that the constructor opened by name. This is the counterpart of
 * torchlinops' DeviceSpec.
 * @example
 * const spec = new DeviceSpec(device, device.createStream());
 * const move = new ToDevice(spec, 'host:1', ['n']);
 */
export class DeviceSpec extends Owner {
  /** the device, or 'cpu' for process memory */
  readonly device: Device | 'cpu';
  /** compute stream that the caller passed, or null */
  readonly #given: Stream | null;
  #compute: Stream | null;
  #transfer: Stream | null;
  /** whether the transfer stream is the process's, and not one that the caller passed */
  #shared = false;

  /**
   * `device` is an open Device, a name ('cpu', 'host:0', …), or null for 'cpu'. Throws TypeError
   * for any other device, and for a stream of another device. Throws RangeError for an unknown
   * name.
   */
  constructor(
    device: Device | string | null = 'cpu',
    computeStream: Stream | null = null,
    transferStream: Stream | null = null,
    ...surplus: never[]
  ) {
    super('this DeviceSpec');
    refuseSurplus('DeviceSpec takes a device, a compute stream and a transfer stream', surplus);
    using construction = guardConstruction(this);
    if (device === null || device === 'cpu') this.device = 'cpu';
    else if (typeof device === 'string') this.device = own(this, openDevice(device));
    else this.device = checkDevice('DeviceSpec, unless it is given a name or null,', device);
    this.#given = this.#compute = this.#ofHere('compute', computeStream);
    this.#transfer = this.#ofHere('transfer', transferStream);
    construction.done();
  }

  /** Name of the device, such as 'host:0', or 'cpu'. */
  get name(): string {
    return this.device === 'cpu' ? 'cpu' : this.device.name;
  }
  get type(): DeviceFamily | 'cpu' {
    return this.device === 'cpu' ? 'cpu' : this.device.family;
  }
  get computeStream(): Stream | null {
    return this.#compute;
  }
  get transferStream(): Stream | null {
    return this.#transfer;
  }

  /**
   * The stream that orders copies from and to this device. It is the compute stream that was
   * passed, or without one, the device's current stream.
   */
  get current(): Stream {
    if (this.device === 'cpu') throw typeError('cpu is plain process memory: it has no streams');
    return this.#given ?? this.device.currentStream;
  }

  /**
   * Sets the transfer stream to the stream that copies to the other device, and the compute stream
   * to this device's default stream. Does not replace a stream that is already set. Does nothing if
   * one of the devices is 'cpu'.
   */
  p2pSetup(other: DeviceSpec | Device): void {
    const target = other instanceof DeviceSpec ? other.device : checkDevice('p2pSetup', other);
    if (this.device === 'cpu' || target === 'cpu') return;
    this.#shared ||= this.#transfer === null;
    this.#transfer ??= DeviceSpec.getTransferStream(this.device, target);
    this.#compute ??= this.device.defaultStream;
  }

  /**
   * Returns the stream that copies from `source` to `target`. The stream belongs to the source
   * device. The process has one such stream for each ordered pair of devices, and all threads share
   * it. The stream closes after the last thread has closed the source. torchlinops keeps these
   * streams in its STREAM_POOL.
   */
  static getTransferStream(source: Device | DeviceSpec, target: Device | DeviceSpec): Stream {
    const [from, to] = [source, target].map((each) =>
      checkDevice('getTransferStream', (each instanceof DeviceSpec ? each.device : each) as Device),
    ) as [Device, Device];
    return belongingStream(from, nativeShared().transferStream(from.handle, to.handle));
  }

  static {
    renewTransfer = (spec, { device: other }) => {
      const { device } = spec;
      const stream = spec.#transfer;
      if (device === 'cpu' || other === 'cpu' || !stream || !spec.#shared) return;
      if (dropFailed(stream)) spec.#transfer = DeviceSpec.getTransferStream(device, other);
    };
  }

  /** Returns text such as 'DeviceSpec(host:0, compute=#5, transfer=none)'. */
  override toString(): string {
    const id = (stream: Stream | null) => (stream ? `#${stream.handle}` : 'none');
    return `DeviceSpec(${this.name}, compute=${id(this.#compute)}, transfer=${id(this.#transfer)})`;
  }

  #ofHere(what: string, stream: Stream | null): Stream | null {
    if (stream === null) return null;
    if (typeof stream !== 'object' || !('record' in stream))
      throw typeError(
        `DeviceSpec: the ${what} stream must be a Stream or null, got ${describeValue(stream)}`,
      );
    if (stream.device.name !== this.name)
      throw typeError(
        `DeviceSpec: the ${what} stream is one of ${stream.device.name}, the device is ${this.name}`,
      );
    return stream;
  }
}

/** Throws TypeError if there are surplus arguments, which would have no effect. */
export function refuseSurplus(rule: string, surplus: readonly unknown[]): void {
  if (surplus.length > 0)
    throw typeError(
      `${rule}; got ${surplus.length} more: ${surplus.map(describeValue).join(', ')}`,
    );
}
