/**
 * The device of an operator's input or output, and the two streams there: one computes, one copies
 * away.
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
 * Replaces the process's transfer stream from `spec` to `other` after an error, if that stream has
 * failed or is gone. For the package itself, which does not export it.
 */
export let renewTransfer: (spec: DeviceSpec, other: DeviceSpec) => void;

/**
 * A device with its streams: torchlinops' DeviceSpec. The caller keeps the streams and the Device
 * that it passes. A device that is opened here by name is closed here.
 * @example
 * const spec = new DeviceSpec(device, device.createStream());
 * const move = new ToDevice(spec, 'host:1', ['n']);
 */
export class DeviceSpec extends Owner {
  /** 'cpu' means plain process memory */
  readonly device: Device | 'cpu';
  /** the stream that the caller passed, never the default one */
  readonly #given: Stream | null;
  #compute: Stream | null;
  #transfer: Stream | null;
  /** the transfer stream belongs to the process */
  #shared = false;

  /**
   * `device`: an opened one, a name ('cpu', 'host:0', …), or null for 'cpu'. Throws TypeError for
   * anything else and for a stream of another device, RangeError for an unknown name.
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

  /** 'host:0', …, or 'cpu'. */
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
   * The stream that orders copies from and to this device: the compute stream that was passed, else
   * the device's current stream.
   */
  get current(): Stream {
    if (this.device === 'cpu') throw typeError('cpu is plain process memory: it has no streams');
    return this.#given ?? this.device.currentStream;
  }

  /**
   * Sets the transfer stream to the other device, and the compute stream to this device's default
   * one. Streams that are set already stay. Does nothing if one of the two is cpu.
   */
  p2pSetup(other: DeviceSpec | Device): void {
    const target = other instanceof DeviceSpec ? other.device : checkDevice('p2pSetup', other);
    if (this.device === 'cpu' || target === 'cpu') return;
    this.#shared ||= this.#transfer === null;
    this.#transfer ??= DeviceSpec.getTransferStream(this.device, target);
    this.#compute ??= this.device.defaultStream;
  }

  /**
   * Returns the stream that copies from `source` to `target`. It is a stream of the source, one per
   * ordered pair and process, and the same in every thread. It closes with the source, when no
   * thread has that open any more. torchlinops' STREAM_POOL.
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

  /** 'DeviceSpec(host:0, compute=#5, transfer=none)' */
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

/** Throws TypeError for surplus arguments, which the caller must have meant otherwise. */
export function refuseSurplus(rule: string, surplus: readonly unknown[]): void {
  if (surplus.length > 0)
    throw typeError(
      `${rule}; got ${surplus.length} more: ${surplus.map(describeValue).join(', ')}`,
    );
}
