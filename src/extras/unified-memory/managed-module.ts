/**
 * Moves the managed memory of all parameters of a module, and gives the driver advice about it.
 * Checks all parameters before it moves anything. Moves each byte once, even if several parameters
 * share it.
 */

import { checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { closedError, typeError } from '../../base/errors.ts';
import { CpuTensor } from '../../device/cpu-tensor.ts';
import { type Stream, Tensor } from '../../device/device.ts';
import { hasParameters } from '../../device/parameters.ts';
import {
  asText,
  checkLocation,
  isEmpty,
  type MaybeTensor,
  poolAdvice,
  prefer,
  prefetch,
  shapeOf,
  streamFor,
} from './managed-tensor.ts';

/**
 * A module with named tensors. The functions below skip four kinds: null, tensors without elements,
 * CPU tensors, and tensors in host memory that is lent to a device.
 */
export interface ManagedModule {
  namedParameters(): Iterable<readonly [string, MaybeTensor]>;
  namedBuffers?(): Iterable<readonly [string, MaybeTensor]>;
}

/** A byte range of one storage, and the tensor at its start. */
interface Part {
  name: string;
  tensor: Tensor;
  start: number;
  end: number;
}

/**
 * Prefetches all parameters of a module to a device of their family, or to the CPU (−1). With
 * `includeBuffers`, also prefetches its buffers. Ranges of one storage that overlap or touch are
 * one prefetch. Each range moves on `stream`, or on the current stream of its tensor's device.
 * Returns the number of bytes requested, 0 for a null module.
 *
 * Throws like prefetchManagedTensor(), before anything moves, and names the parameter. Both
 * functions are Megatron's, from core.inference.unified_memory.
 */
export function prefetchManagedModuleParameters(
  module: ManagedModule | null | undefined,
  options: { device: number; includeBuffers?: boolean; stream?: Stream | null | undefined },
): number {
  if (module === null || module === undefined) return 0;
  checkKeys('prefetchManagedModuleParameters', options, ['device', 'includeBuffers', 'stream']);
  const { device, stream } = options;
  const parts = partsOf(module, 'prefetchManagedModuleParameters', options);
  const streams = parts.map(({ tensor }) => streamFor(tensor.device, stream));
  return each(parts, (tensor, words, i) => prefetch(tensor, device, streams[i] as Stream, words));
}

/**
 * Sets the preferred location of the pages of a module's parameters. Options, errors and the
 * returned bytes are those of prefetchManagedModuleParameters().
 */
export function adviseManagedModuleParametersPreferredLocation(
  module: ManagedModule | null | undefined,
  options: { device: number; includeBuffers?: boolean },
): number {
  if (module === null || module === undefined) return 0;
  checkKeys('adviseManagedModuleParametersPreferredLocation', options, [
    'device',
    'includeBuffers',
  ]);
  const parts = partsOf(module, 'adviseManagedModuleParametersPreferredLocation', options);
  return each(parts, (tensor, words) => prefer(tensor, options.device, words));
}

function each(
  parts: readonly Part[],
  act: (range: Tensor, words: () => string, i: number) => void,
): number {
  let bytes = 0;
  parts.forEach(({ name, tensor, start, end }, i) => {
    const range = new Tensor(tensor.storage, [end - start], 'uint8', start);
    act(range, () => `${name}, ${asText(tensor)}, in a range of ${range.bytes} bytes`, i);
    bytes += range.bytes;
  });
  return bytes;
}

/** Returns the module's ranges, in the order in which their storages first occur. */
function partsOf(
  module: ManagedModule,
  what: string,
  { device, includeBuffers = false }: { device: number; includeBuffers?: boolean },
): Part[] {
  if (!hasParameters(module))
    throw typeError(
      `${what} takes a module with namedParameters(), or null; got ${describeValue(module)}`,
    );
  if (typeof device !== 'number')
    throw typeError(`device must be a number, got ${typeof device} (${describeValue(device)})`);
  checkFlag('includeBuffers', includeBuffers);
  const byStorage = new Map<number, Part[]>();
  const add = (kind: string, name: string, t: MaybeTensor) => {
    const part = partOf(what, `${kind} '${name}'`, t, device);
    if (!part) return;
    const { handle } = part.tensor;
    byStorage.set(handle, [...(byStorage.get(handle) ?? []), part]);
  };
  for (const [name, t] of pairs(what, 'namedParameters', module.namedParameters()))
    add('parameter', name, t);
  if (includeBuffers && module.namedBuffers)
    for (const [name, t] of pairs(what, 'namedBuffers', module.namedBuffers()))
      add('buffer', name, t);
  return [...byStorage.values()].flatMap(union);
}

/** Yields the [name, tensor] pairs that a module returned. Throws TypeError for any other entry. */
function* pairs(
  what: string,
  method: string,
  given: unknown,
): Iterable<readonly [string, MaybeTensor]> {
  const rule = `${what}: ${method}() must give [name, tensor] pairs`;
  if (typeof (given as Partial<Iterable<unknown>> | null)?.[Symbol.iterator] !== 'function')
    throw typeError(`${rule}, and its result is not iterable: ${describeValue(given)}`);
  let place = 0;
  for (const entry of given as Iterable<unknown>) {
    if (!Array.isArray(entry) || entry.length !== 2)
      throw typeError(`${rule}; entry ${place} is ${describeValue(entry)}`);
    if (typeof entry[0] !== 'string')
      throw typeError(`${rule}; the name of entry ${place} is ${describeValue(entry[0])}`);
    yield entry as [string, MaybeTensor];
    place++;
  }
}

function partOf(what: string, name: string, t: MaybeTensor, device: number): Part | null {
  if (isEmpty(t) || t instanceof CpuTensor || ArrayBuffer.isView(t)) return null;
  if (!(t instanceof Tensor))
    throw typeError(`${what}: ${name} must be a tensor or null, got ${describeValue(t)}`);
  if (t.closed) throw closedError(`${what}: the memory of ${name}, ${shapeOf(t)} ${t.dtype},`);
  if (t.storage.host) return null;
  if (!t.storage.managed)
    throw typeError(
      `${what}: ${name}, ${shapeOf(t)} ${t.dtype} on ${t.device.name}, is not in managed memory: ${poolAdvice}`,
    );
  checkLocation(t.device.family, device, -1);
  return { name, tensor: t, start: t.byteOffset, end: t.byteOffset + t.spanBytes };
}

/** Merges the ranges of one storage that overlap or touch. */
function union(parts: Part[]): Part[] {
  const merged: Part[] = [];
  for (const part of parts.sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && part.start <= last.end) last.end = Math.max(last.end, part.end);
    else merged.push(part);
  }
  return merged;
}
