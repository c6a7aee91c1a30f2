/**
 * Finds tensors in nested objects and arrays, copies them to a device, and overwrites them in
 * place. Two names are Megatron's: copy_tensors_in_struct creates tensors, and
 * clone_tensors_in_struct overwrites tensors.
 */

import { describeValue } from '../../base/checks.ts';
import type { TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkDevice, checkStream } from '../../device/checks.ts';
import { CpuTensor } from '../../device/cpu-tensor.ts';
import { type Device, type Stream, Tensor } from '../../device/device.ts';
import { allOrNothing } from '../../device/owner.ts';

/** Values that count as tensors in a structure. A typed array is a tensor of one dimension. */
export type TensorLike = Tensor | CpuTensor | TypedArray;
/** Nested arrays and plain objects. Values that are not tensors are copied unchanged. */
export type TensorStruct = { readonly [key: string]: unknown } | readonly unknown[];

function isTensorLike(value: unknown): value is TensorLike {
  return (
    value instanceof Tensor ||
    value instanceof CpuTensor ||
    (ArrayBuffer.isView(value) && !(value instanceof DataView))
  );
}

export function isStruct(value: unknown): value is TensorStruct {
  if (Array.isArray(value)) return true;
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Yields every tensor with its path, such as `obs.image[0]`, in the order of the structure. */
export function* tensorsIn(
  value: unknown,
  path = '',
): Generator<[path: string, tensor: TensorLike]> {
  if (isTensorLike(value)) yield [path, value];
  else if (isStruct(value))
    for (const [key, each] of entries(value)) yield* tensorsIn(each, join(path, key, value));
}

/** Returns dtype and shape as text, such as 'float32 4×3'. */
export function describe(tensor: TensorLike): string {
  const { dtype, shape } = ArrayBuffer.isView(tensor) ? new CpuTensor(tensor) : tensor;
  return `${dtype} ${shape.join('×') || 'scalar'}`;
}

/**
 * Returns a copy of `src` with new tensors on `device`. Enqueues the copies on `stream` (default:
 * the device's current stream). Throws TypeError unless `src` is an array or a plain object.
 */
export function copyTensorsInStruct<T extends TensorStruct>(
  src: T,
  device: Device,
  stream?: Stream,
): T {
  checkStruct('copyTensorsInStruct', src);
  checkReadable(src, checkDevice('copyTensorsInStruct', device));
  if (stream !== undefined) checkStream('copyTensorsInStruct', stream);
  return allOrNothing((own) => copyOf(src, device, stream ?? device.currentStream, own) as T);
}

/**
 * Overwrites the tensors in `target` with those in `src`, and assigns the other values. Enqueues
 * the copies on `stream` (default: the current stream of the target tensor's device). Throws with
 * the path if a shape or dtype differs, or if an object of the target is frozen.
 */
export function cloneTensorsInStruct(
  target: TensorStruct,
  src: TensorStruct,
  stream?: Stream,
): void {
  checkStruct('cloneTensorsInStruct, as source,', src);
  checkStruct('cloneTensorsInStruct, as target,', target);
  checkFits(target, src);
  if (stream !== undefined) checkStream('cloneTensorsInStruct', stream);
  overwrite(target, src, stream);
}

export function closeTensorsIn(value: unknown): void {
  for (const [, tensor] of tensorsIn(value)) if (tensor instanceof Tensor) tensor.close();
}

function entries(struct: TensorStruct): [string, unknown][] {
  return Object.entries(struct);
}

/**
 * Appends a key to a path. Quotes a key that has other characters than letters, digits, `_`, `$`
 * and `-`, so that two tensors never have the same path.
 */
function join(path: string, key: string, within: TensorStruct): string {
  if (Array.isArray(within)) return `${path}[${key}]`;
  if (!/^[\w$-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path ? `${path}.${key}` : key;
}

/** Returns an own property, or undefined. Ignores inherited properties, such as `toString`. */
const at = (struct: TensorStruct, key: string): unknown =>
  Object.hasOwn(struct, key) ? (struct as Record<string, unknown>)[key] : undefined;

function checkStruct(what: string, value: unknown): void {
  if (!isStruct(value)) {
    const got = isTensorLike(value) ? `a tensor of ${describe(value)}` : describeValue(value);
    throw typeError(`${what} takes an array or a plain object with tensors in it, got ${got}`);
  }
}

/**
 * Copies the arrays and plain objects, but not the tensors in them. The caller may delete and swap
 * keys in the copy.
 */
export function structureOf<T>(value: T): T {
  if (isTensorLike(value) || !isStruct(value)) return value;
  if (Array.isArray(value)) return value.map((each) => structureOf(each) as unknown) as T;
  return Object.fromEntries(entries(value).map(([key, each]) => [key, structureOf(each)])) as T;
}

function copyOf(
  value: unknown,
  device: Device,
  stream: Stream,
  own: (made: Tensor) => Tensor,
): unknown {
  if (isTensorLike(value)) {
    const { shape, dtype } = ArrayBuffer.isView(value) ? new CpuTensor(value) : value;
    const tensor = own(device.allocate({ shape, dtype, zeroed: false }));
    put(tensor, value, stream);
    return tensor;
  }
  if (!isStruct(value)) return value;
  const copied = (each: unknown) => copyOf(each, device, stream, own);
  // map() preserves the holes of a sparse array.
  if (Array.isArray(value)) return value.map(copied);
  return Object.fromEntries(entries(value).map(([key, each]) => [key, copied(each)]));
}

/** Throws, before anything is enqueued, if `device` cannot read one of the tensors. */
function checkReadable(src: unknown, device: Device): void {
  for (const [path, from] of tensorsIn(src))
    if (from instanceof Tensor) checkSource(from, device, path);
}

function checkSource(from: Tensor, device: Device, path: string): void {
  from.checkOpen();
  if (from.device.family !== device.family)
    throw typeError(
      `${path} is on ${from.device.name}, which ${device.name} cannot copy from: use ToDevice first`,
    );
  if (!from.contiguous)
    throw typeError(`${path} has strides [${from.strides}]: only contiguous tensors are copied`);
}

/** Throws, before anything is overwritten, if `src` does not fit `target`. */
export function checkFits(target: TensorStruct, src: TensorStruct, path = ''): void {
  if (Object.isFrozen(target))
    throw typeError(`${path || 'the target'} is frozen; clone into an array or object that is not`);
  if (Array.isArray(target) !== Array.isArray(src))
    throw typeError(
      `${path || 'the source'} is ${Array.isArray(src) ? 'an array' : 'an object'}, the target is not`,
    );
  if (Array.isArray(src) && Array.isArray(target) && src.length !== target.length)
    throw rangeError(
      `${path || 'the source'} has ${src.length} elements, the target ${target.length}: they must be alike`,
    );
  for (const [key, from] of entries(src)) {
    const where = join(path, key, src);
    const to = at(target, key);
    if (isTensorLike(from)) {
      if (!(to instanceof Tensor))
        throw typeError(`${where} is a tensor of ${describe(from)}, which the target lacks`);
      if (describe(to) !== describe(from))
        throw rangeError(
          `${where} is ${describe(from)}, the target's is ${describe(to)}: they must be alike`,
        );
      to.checkOpen();
      if (from instanceof Tensor) checkSource(from, to.device, where);
    } else if (isStruct(from)) {
      if (!isStruct(to)) throw typeError(`${where} is an array or object, which the target lacks`);
      checkFits(to, from, where);
    }
  }
}

function overwrite(target: TensorStruct, src: TensorStruct, stream: Stream | undefined): void {
  for (const [key, from] of entries(src)) {
    const to = at(target, key);
    if (isTensorLike(from)) put(to as Tensor, from, stream ?? (to as Tensor).device.currentStream);
    else if (isStruct(from)) overwrite(to as TensorStruct, from, stream);
    else (target as Record<string, unknown>)[key] = from;
  }
}

/**
 * Enqueues the copy of one tensor on `stream`. If `from` is on another device, the copy runs after
 * all work that is already on that device's current stream. Work that is enqueued there later runs
 * after the copy, because it may overwrite `from`.
 */
function put(to: Tensor, from: TensorLike, stream: Stream): void {
  if (!(from instanceof Tensor)) {
    to.write(from instanceof CpuTensor ? from.data : from, stream);
    return;
  }
  if (from.size === 0) return;
  if (from.device.name === to.device.name) {
    stream.copy(to, from);
    return;
  }
  const source = from.device.currentStream;
  using written = from.device.createEvent();
  source.record(written);
  stream.wait(written);
  stream.copy(to, from);
  using read = to.device.createEvent();
  stream.record(read);
  // With `orderOnly`, `source` does not fail if the copy fails. `stream` reports the failure.
  source.wait(read, { orderOnly: true });
}
