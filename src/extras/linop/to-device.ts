/**
 * A linear operator that moves its input from one device to another. Between devices of one family,
 * it enqueues the move and returns at once. A transfer stream of the source waits for the input,
 * then copies. The target's stream waits for the copy.
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
 * Moves its input between devices. The operator is unitary: its adjoint moves back, and adjoint ∘
 * forward is the identity. This is the counterpart of torchlinops' ToDevice.
 * @example
 * const move = new ToDevice('host:0', 'host:1', ['row', 'column']);
 * const y = move.forward(x); // enqueued
 * move.close();
 */
export class ToDevice extends NamedLinop implements Disposable {
  readonly ispec: DeviceSpec;
  readonly ospec: DeviceSpec;
  override readonly takesStart = true;
  /** DeviceSpecs that the constructor created */
  readonly #made = new OwnedParts();

  /**
   * Creates an operator that moves from `idevice` to `odevice`. Each is a DeviceSpec, a Device, a
   * name, or null for 'cpu'. `ioshape` has the names of the dimensions, or is null for any shape.
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
  /** Whether both sides are devices, not 'cpu'. A CPU device ('host:0') counts as a device. */
  get isGpu2gpu(): boolean {
    return this.ispec.device !== 'cpu' && this.ospec.device !== 'cpu';
  }

  /**
   * Returns the input's elements, with its shape and dtype, on the output device. Returns the input
   * itself if both devices are the same.
   *
   * Throws TypeError if the input's device or number of dimensions is wrong, or if its strides
   * cannot be moved (see denseCopy()). Throws ERR_HOTSLOT_STATE_CLOSED if the input is closed.
   *
   * After forward(), you may close the input at once, or overwrite an array. Do not write to an
   * input tensor before the copy is done, because the source's current stream does not wait for the
   * copy.
   *
   * - device → device of its family: returns a Tensor at once. Later work on the target's current
   *   stream runs after the copy
   * - cpu → device: returns a Tensor at once. Later work on the target's current stream runs after
   *   the copy
   * - device → cpu: returns a promise of a CpuTensor
   * - device → device of another family: returns a promise of a Tensor. The host carries the bytes,
   *   because neither device can wait for events of the other
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
   * Does what forward() does. If forward() would return a promise, blocks the thread until the
   * result is complete. Meanwhile, the thread helps to run the work of a CPU device. Call this in
   * worker threads. Throws ERR_HOTSLOT_STATE_MAIN_THREAD on the main thread.
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

  /**
   * Returns the operator that moves back. It uses this operator's DeviceSpecs, so close this
   * operator last.
   */
  adjoint(): ToDevice {
    return new ToDevice(this.ospec, this.ispec, this.oshape);
  }
  /** Returns the identity, or with `inner`, adjoint ∘ inner ∘ forward. */
  override normal(inner?: NamedLinop): NamedLinop {
    return inner === undefined ? new Identity(this.ishape, this.ispec) : super.normal(inner);
  }
  /**
   * Returns the operator for one tile of the input. `tile` has a range for each dimension that is
   * split. The result has the same devices and dimension names as this operator.
   */
  split(tile: Readonly<Record<string, { start: number; stop: number }>>): ToDevice {
    if (typeof tile !== 'object' || tile === null)
      throw typeError(`split takes { dimension: { start, stop } }, got ${describeValue(tile)}`);
    for (const [name, part] of Object.entries(tile)) {
      checkKeys(`split: '${name}'`, part, ['start', 'stop']);
      const { start, stop } = part;
      if (this.ishape && !this.ishape.includes(name))
        throw rangeError(`split: dimension '${name}' is missing in ${named(this.ishape)}`);
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
  /** Closes the devices that the constructor opened by name. Idempotent. */
  close(): void {
    this.#made.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Whether the target's streams can wait for the source's events. If false, the host carries the
   * bytes.
   */
  get #ordered(): boolean {
    const [source, target] = [this.ispec.device, this.ospec.device];
    return (
      source !== 'cpu' && target !== 'cpu' && nativeDevices().orders(source.handle, target.handle)
    );
  }
  #reader(startEvent: DeviceEvent | undefined): Stream {
    return this.#renewing(() => readerOf(this.ispec, startEvent));
  }
  /**
   * Returns the result of `enqueue`. If `enqueue` throws, replaces a failed transfer stream,
   * because an error on a stream is permanent. The next call then uses the new stream.
   */
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
      throw typeError(`${this}: the input is on cpu, and cpu tensors ignore startEvent`);
    return checkOperand(this, x);
  }
}
