/**
 * Helpers of the operator tests: the devices to move between, random operands, and an operator that
 * computes.
 */
import {
  arrayOf,
  type DType,
  dtypeOf,
  dtypes,
  elementCount,
  type TypedArray,
} from '../../src/base/dtype.ts';
import { NamedLinop, type Operand } from '../../src/entries/linop.ts';
import {
  CpuTensor,
  type Device,
  type DeviceEvent,
  listDevices,
  openDevice,
  type Random,
  type Stream,
  Tensor,
} from '../../src/index.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

/**
 * Two devices of one family, if there are two. The CPU device lists only its first device, and has
 * eight.
 */
export const family = TESTED.split(':')[0] as string;
export const first = `${family}:0`;
export const second = `${family}:1`;
export const paired = ON_HOST || listDevices().some(({ name }) => name === second);

/** The places that an operator can move between. For a GPU, the CPU device is the other family. */
export const places: readonly string[] = [
  ...new Set(['cpu', first, ...(paired ? [second] : []), 'host:0', 'host:1']),
];
const opened = new Map<string, Device>();
/** Opens the device once. It stays open until closeDevices(). */
export function deviceOf(place: string): Device {
  const device = opened.get(place) ?? openDevice(place);
  opened.set(place, device);
  return device;
}

/**
 * Closes the devices. Call it after each suite, because a device's resources are freed only when no
 * thread has it open.
 */
export function closeDevices(): void {
  for (const device of opened.values()) device.close();
  opened.clear();
}

export const allDtypes = Object.keys(dtypes) as DType[];

/** Returns small integers, so that sums of their products are exact in float64. */
export function randomValues(dtype: DType, shape: readonly number[], random: Random): TypedArray {
  const out = arrayOf(dtype, elementCount(shape));
  const whole = () => random.below(100);
  for (let i = 0; i < out.length; i++) {
    if (out instanceof BigInt64Array || out instanceof BigUint64Array) out[i] = BigInt(whole());
    else out[i] = whole();
  }
  return out;
}

export function randomShape(random: Random): number[] {
  return Array.from({ length: random.below(4) }, () => random.below(6));
}

export function operand(
  place: string,
  values: TypedArray,
  shape: readonly number[],
  dtype: DType | undefined = dtypeOf(values),
): Tensor | CpuTensor {
  if (place === 'cpu') return new CpuTensor(values, shape, dtype);
  const device = deviceOf(place);
  const tensor = device.allocate({
    shape,
    dtype: new CpuTensor(values, shape, dtype).dtype,
    zeroed: false,
  });
  return values.length === 0 ? tensor : tensor.write(values);
}

export async function valuesIn(x: Operand): Promise<TypedArray> {
  return x instanceof Tensor || x instanceof CpuTensor ? x.toArray() : x;
}

export function dot(x: TypedArray, y: TypedArray): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += Number(x[i]) * Number(y[i]);
  return sum;
}

/**
 * Fills memory of this size with sevens and frees it. The next allocation gets it, so work that
 * reads too early reads sevens.
 */
export async function soil(device: Device, length: number): Promise<void> {
  const old = device.allocate({ shape: [length], zeroed: false });
  device.currentStream.fill(old, 7);
  await device.currentStream.synchronize();
  old.close();
  device.memoryInfo();
}

/** y = by · x on the device's current stream. The result is new memory, as a chain requires. */
export class Scale extends NamedLinop {
  readonly by: number;
  readonly #place: string;
  made: Tensor[] = [];
  constructor(place: string, by: number, shape: readonly string[] | null = null) {
    super(shape, shape);
    this.#place = place;
    this.by = by;
  }
  override get idevice(): string {
    return this.#place;
  }
  override get odevice(): string {
    return this.#place;
  }
  forward(x: Operand): Tensor {
    if (!(x instanceof Tensor)) throw new Error(`not on ${this.#place}`);
    const y = deviceOf(this.#place).allocate({ shape: x.shape });
    deviceOf(this.#place).currentStream.launch('axpby', {
      tensors: [y, x],
      wholes: [x.size],
      reals: [this.by, 0],
    });
    this.made.push(y);
    return y;
  }
  adjoint(): Scale {
    return new Scale(this.#place, this.by, this.ishape);
  }
}

/** Returns random bits, among them NaNs, denormals and both zeros. */
export function randomBytes(dtype: DType, length: number, random: Random): TypedArray {
  const out = arrayOf(dtype, length);
  const bytes = new Uint8Array(out.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
  return out;
}

/** Returns an event after all work that was enqueued on the stream so far. */
export const behind = (stream: Stream): DeviceEvent => {
  const event = stream.device.createEvent();
  stream.record(event);
  return event;
};

export function close(...values: Operand[]): void {
  for (const each of values) (each as Partial<Tensor>).close?.();
}
