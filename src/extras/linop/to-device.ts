/**
 * Moves its input from one device to another, as a linear operator. Between devices of a family it
 * enqueues and returns: a transfer stream of the source waits for the input, copies, and the
 * target's stream waits for the copy.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { CpuTensor } from '../../device/cpu-tensor.ts';
import { type Device, type DeviceEvent, type Stream, Tensor } from '../../device/device.ts';
import { nativeDevices } from '../../device/native.ts';
import { OwnedParts } from '../../device/owner.ts';
import { refuseMainThread } from '../../shm/wait.ts';
import { copyOver, enter, readerOf, readSync } from './copy-over.ts';
import { DeviceSpec, refuseSurplus, renewTransfer } from './device-spec.ts';
import { type ForwardOptions, Identity, NamedLinop } from './named-linop.ts';
import { checkOperand, type NamedShape, named, type Operand } from './operand.ts';

/**
 * torchlinops' ToDevice. Unitary: the adjoint moves back, and adjoint ∘ forward is the identity.
 */
export class ToDevice extends NamedLinop implements Disposable {
  readonly ispec: DeviceSpec;
  readonly ospec: DeviceSpec;
  override readonly takesStart = true;
  /** specs made here of names and devices */
  readonly #made = new OwnedParts();

  /**
   * From and to: a spec, a device, a name, or null for 'cpu'. `ioshape`: names of the dimensions,
   * or null for any.
   */
  constructor(
    idevice: DeviceSpec | Device | string | null = null,
    odevice: DeviceSpec | Device | string | null = null,
    ioshape: NamedShape | null = null,
    ...surplus: never[]
  ) {
    refuseSurplus('ToDevice takes an input device, an output device and a shape', surplus);
    super(ioshape, ioshape);
    const spec = (of: typeof idevice) =>
      of instanceof DeviceSpec ? of : this.#made.own(new DeviceSpec(of));
    using construction = this.#made.construction();
    this.ispec = spec(idevice);
    this.ospec = spec(odevice);
    this.ispec.p2pSetup(this.ospec);
    this.ospec.p2pSetup(this.ispec);
    construction.done();
  }
  override get idevice(): string {
    return this.ispec.name;
  }
  override get odevice(): string {
    return this.ospec.name;
  }
  /** Neither side is cpu; host devices are devices. */
  get isGpu2gpu(): boolean {
    return this.ispec.device !== 'cpu' && this.ospec.device !== 'cpu';
  }

  /**
   * The input's elements, shape and dtype on the output device; the input itself when the devices
   * are the same. Throws TypeError for input of another device or rank, or of strides that cannot
   * be moved (see denseCopy), ERR_HOTSLOT_STATE_CLOSED for closed input. The input may be closed,
   * and an array overwritten, at once; a caller that writes to a device tensor again waits for the
   * copy first, as the source's own stream does not.
   *
   * - device → device of its family: a Tensor at once; work on the target's current stream comes
   *   after the copy
   * - cpu → device: a Tensor at once, likewise
   * - device → cpu: a promise of a CpuTensor with all of its bytes
   * - device → device of another family: a promise of a Tensor; neither's events mean anything to
   *   the other, so the host carries it
   */
  forward(x: Operand, options: ForwardOptions = {}): Operand | Promise<Tensor | CpuTensor> {
    const input = this.#check(x, options);
    const { ispec, ospec } = this;
    if (ispec.name === ospec.name) {
      if (options.startEvent) ispec.current.wait(options.startEvent);
      return x;
    }
    if (!(input instanceof Tensor)) return enter(input, ospec);
    const reader = this.#reader(options.startEvent);
    if (this.#ordered) return this.#renewing(() => copyOver(input, reader, ispec, ospec));
    const read = input
      .toArray(reader)
      .then((data) => new CpuTensor(data, input.shape, input.dtype));
    return ospec.device === 'cpu' ? read : read.then((values) => enter(values, ospec));
  }

  /**
   * As forward, in a worker: what would be a promise is waited for, helping the device.
   * ERR_HOTSLOT_STATE_MAIN_THREAD there.
   */
  forwardSync(x: Operand, options: ForwardOptions = {}): Operand {
    refuseMainThread(`forward() of ${this}`);
    const input = this.#check(x, options);
    const { ispec, ospec } = this;
    if (!(input instanceof Tensor) || this.#ordered) return this.forward(x, options) as Operand;
    const data = readSync(input, this.#reader(options.startEvent), ispec);
    const values = new CpuTensor(data, input.shape, input.dtype);
    return ospec.device === 'cpu' ? values : enter(values, ospec);
  }

  /** Back again, with the same specs: close this operator last. */
  adjoint(): ToDevice {
    return new ToDevice(this.ospec, this.ispec, this.oshape);
  }
  /** The identity; with `inner`, adjoint ∘ inner ∘ forward. */
  override normal(inner?: NamedLinop): NamedLinop {
    return inner === undefined ? new Identity(this.ishape, this.ispec) : super.normal(inner);
  }
  /**
   * The operator for one tile, by dimension name: the same one, for a part goes where the whole
   * goes.
   */
  split(tile: Readonly<Record<string, { start: number; stop: number }>>): ToDevice {
    if (typeof tile !== 'object' || tile === null)
      throw typeError(`split takes { dimension: { start, stop } }, got ${describeValue(tile)}`);
    for (const [name, part] of Object.entries(tile)) {
      checkKeys(`split: '${name}'`, part, ['start', 'stop']);
      const { start, stop } = part;
      if (this.ishape && !this.ishape.includes(name))
        throw rangeError(`split: there is no dimension '${name}' in ${named(this.ishape)}`);
      checkCount(
        `split: stop of '${name}'`,
        stop,
        checkCount(`split: start of '${name}'`, start, 0),
      );
    }
    return new ToDevice(this.ispec, this.ospec, this.ishape);
  }
  override toString(): string {
    const { ispec, ospec } = this;
    const id = (stream: Stream | null) => (stream ? `#${stream.handle}` : 'none');
    const streams = `compute=${id(ispec.computeStream)}->${id(ospec.computeStream)}, transfer=${id(ispec.transferStream)}`;
    return `ToDevice(${ispec.name} -> ${ospec.name}, ${named(this.ishape)}, ${streams})`;
  }
  /** Closes the devices that were opened here by name. */
  close(): void {
    this.#made.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }

  /** The target's streams can wait for the source's events; else the host carries the bytes. */
  get #ordered(): boolean {
    const [source, target] = [this.ispec.device, this.ospec.device];
    return (
      source !== 'cpu' && target !== 'cpu' && nativeDevices().orders(source.handle, target.handle)
    );
  }
  #reader(startEvent: DeviceEvent | undefined): Stream {
    return this.#renewing(() => readerOf(this.ispec, startEvent));
  }
  /** An error on a stream is sticky: the next call shall not meet this one. */
  #renewing<T>(enqueue: () => T): T {
    try {
      return enqueue();
    } catch (error) {
      renewTransfer(this.ispec, this.ospec);
      throw error;
    }
  }

  #check(x: Operand, options: ForwardOptions): Tensor | CpuTensor {
    checkKeys('forward', options, ['startEvent']);
    const { startEvent } = options;
    if (startEvent !== undefined && typeof startEvent?.handle !== 'number')
      throw typeError(`${this}: startEvent must be an event, got ${describeValue(startEvent)}`);
    if (startEvent && this.ispec.device === 'cpu')
      throw typeError(`${this}: the input is on cpu, where no startEvent is waited for`);
    return checkOperand(this, x);
  }
}
