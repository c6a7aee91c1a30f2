/**
 * What operator tests share: the places there are to move between, random operands, an operator
 * that computes.
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
 * Two devices of one family where there are two. The host device lists its first only; it has
 * eight.
 */
export const family = TESTED.split(':')[0] as string;
export const first = `${family}:0`;
export const second = `${family}:1`;
export const paired = ON_HOST || listDevices().some(({ name }) => name === second);

/** Everything an operator may move between here: a GPU has the host device as the other family. */
export const places: readonly string[] = [
  ...new Set(['cpu', first, ...(paired ? [second] : []), 'host:0', 'host:1']),
];
const opened = new Map<string, Device>();
/** Open until closeDevices(). */
export function deviceOf(place: string): Device {
  const device = opened.get(place) ?? openDevice(place);
  opened.set(place, device);
  return device;
}

/** After each suite: what belongs to a device goes only when no thread has it open. */
export function closeDevices(): void {
  for (const device of opened.values()) device.close();
  opened.clear();
}

export const allDtypes = Object.keys(dtypes) as DType[];

/** Small whole numbers: sums of their products are exact in every dtype's doubles. */
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

/** Memory of this size that is given out next holds sevens: who reads it too early sees them. */
export async function soil(device: Device, length: number): Promise<void> {
  const old = device.allocate({ shape: [length], zeroed: false });
  device.currentStream.fill(old, 7);
  await device.currentStream.synchronize();
  old.close();
  device.memoryInfo();
}

/** y = by · x on the device's current stream: fresh memory, as a chain expects. */
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

/** Bytes of any kind: NaNs, denormals, both zeros. */
export function randomBytes(dtype: DType, length: number, random: Random): TypedArray {
  const out = arrayOf(dtype, length);
  const bytes = new Uint8Array(out.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
  return out;
}

/** An event behind everything that the stream was given so far. */
export const behind = (stream: Stream): DeviceEvent => {
  const event = stream.device.createEvent();
  stream.record(event);
  return event;
};

export function close(...values: Operand[]): void {
  for (const each of values) (each as Partial<Tensor>).close?.();
}
