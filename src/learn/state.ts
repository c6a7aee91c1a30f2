/**
 * A learner's state: the tensors and values on which later updates depend, by name. These functions
 * read it from the device and write it back.
 */

import type { NamedTensors, TensorData } from '../base/arrays/tensors.ts';
import { describeValue } from '../base/checks.ts';
import { type ArrayOf, type DType, dtypes } from '../base/dtype.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { savedName } from '../base/old-names.ts';
import type { Stream, Tensor } from '../device/device.ts';
import type { DeviceGenerator } from '../device/graph/generator.ts';
import { type Adam, optionsOf, resumeOptions } from './adam.ts';
import type { Network } from './network/network.ts';

/** Saved data of one entry of a learner's state. */
export type Saved = TensorData;

/** Saved data of a learner's state, by the names of its entries. */
export type LearnerState = NamedTensors;

/**
 * An entry of a learner's state: device memory, or values in CPU memory. States are read from it
 * and written to it.
 */
export type Part =
  | { readonly tensor: Tensor }
  | {
      readonly dtype: DType;
      /** number of elements */
      readonly size: number;
      /** throws if the saved values are invalid */
      check(data: ArrayOf<DType>): void;
      read(stream: Stream): Promise<ArrayOf<DType>>;
      write(data: ArrayOf<DType>, stream: Stream): void;
    }
  | Addition;

/** A part that is missing in the states of earlier versions. */
interface Addition {
  readonly dtype: DType;
  readonly size: number;
  read(stream: Stream): Promise<ArrayOf<DType>>;
  /**
   * applies the saved values after the parts before this one were written. `data` is undefined if
   * the state lacks the part. Returns texts for a warning
   */
  resume(data: ArrayOf<DType> | undefined, record: LearnerState, stream: Stream): string[];
}

/**
 * Returns a network's parameters as parts. Their names are `name` and the names in torch's
 * state_dict.
 */
export function networkParts(
  name: string,
  network: Network,
  flat: Tensor<'float32'>,
  offset = 0,
): [string, Part][] {
  return network.parameters.map((parameter) => [
    `${name}.${parameter.name}`,
    { tensor: flat.view({ shape: [...parameter.shape], offset: offset + parameter.offset }) },
  ]);
}

/** Returns tensors as parts, with `name` as the prefix of their names. */
export const tensorParts = (
  name: string,
  tensors: Readonly<Record<string, Tensor>>,
): [string, Part][] =>
  Object.entries(tensors).map(([key, tensor]) => [`${name}.${key}`, { tensor }]);

/**
 * Returns an optimizer's moments, step count, learning rate and options as parts. On loading,
 * resumeOptions() decides which of the saved options apply.
 */
export function adamParts(member: string, adam: Adam): [string, Part][] {
  const name = savedName(member);
  const { mean, spread, steps, learningRate } = adam;
  const options: Addition = {
    dtype: 'float64',
    size: optionsOf(adam).length,
    read: async () => optionsOf(adam),
    resume(saved, record, stream) {
      const [rate] = (record[`${name}.learningRate`] as Saved).data as Float32Array;
      return resumeOptions(adam, saved as Float64Array | undefined, rate as number, stream).map(
        (text) => `${member}.${text}`,
      );
    },
  };
  return [
    ...tensorParts(name, { mean, spread, steps, learningRate }),
    [`${name}.options`, options],
  ];
}

export async function readState(
  parts: readonly (readonly [string, Part])[],
  stream: Stream,
): Promise<LearnerState> {
  const saved = parts.map(async ([name, part]) => {
    if ('tensor' in part) {
      const data = await part.tensor.toArray(stream);
      return [name, { dtype: part.tensor.dtype, shape: [...part.tensor.shape], data }] as const;
    }
    const data = await part.read(stream);
    return [name, { dtype: part.dtype, shape: [data.length], data }] as const;
  });
  // If one read fails, wait for the others before throwing. The caller may then close the learner,
  // and a read must not use closed memory.
  await Promise.allSettled(saved);
  return Object.fromEntries(await Promise.all(saved));
}

/**
 * Writes a state to its parts. Throws before the first write if a name, dtype, shape or value does
 * not fit. The error names it. Emits one process warning that names the options of this learner
 * that replace saved ones.
 */
export function writeState(
  what: string,
  parts: readonly (readonly [string, Part])[],
  record: LearnerState,
  stream: Stream,
): void {
  if (typeof record !== 'object' || record === null)
    throw typeError(`${what}: a state must be a result of state(), got ${describeValue(record)}`);
  const known = new Map(parts);
  const unknown = Object.keys(record).find((name) => !known.has(name));
  if (unknown !== undefined) throw rangeError(`${what}: this learner's state has no '${unknown}'`);
  const writes = parts.map(([name, part]) => {
    const entry = record[name];
    if (entry === undefined && 'resume' in part)
      return () => part.resume(undefined, record, stream);
    if (entry === undefined) throw rangeError(`${what}: the state lacks '${name}'`);
    if (typeof entry !== 'object' || entry === null)
      throw typeError(
        `${what}: '${name}' must be { dtype, shape, data }, got ${describeValue(entry)}`,
      );
    const [dtype, shape] =
      'tensor' in part ? [part.tensor.dtype, part.tensor.shape] : [part.dtype, [part.size]];
    const { data } = entry;
    if (entry.dtype !== dtype || !(data instanceof dtypes[dtype].array))
      throw typeError(
        `${what}: '${name}' is ${dtype}, the state has ${entry.dtype} in ${describeValue(data)}`,
      );
    const sizes = (of: readonly number[] | undefined) => of?.join('×') || 'a scalar';
    if (entry.shape?.join() !== shape.join() || data.length !== shape.reduce((n, d) => n * d, 1))
      throw rangeError(
        `${what}: '${name}' is ${sizes(shape)}, the state has ${sizes(entry.shape)} of ${data.length} elements`,
      );
    if ('check' in part) part.check(data);
    return () => {
      if ('resume' in part) return part.resume(data, record, stream);
      if ('tensor' in part) part.tensor.write(data as never, stream);
      else part.write(data, stream);
      return [];
    };
  });
  // Runs the writes in order. An optimizer's options come after its tensors, because
  // resumeOptions() may replace the loaded learning rate.
  const differing = writes.flatMap((write) => write());
  if (differing.length > 0)
    learnerWarning(
      `${what}: this learner's options replace those of the loaded state: ${differing.join(', ')}`,
    );
}

export const learnerWarning = (text: string): void => process.emitWarning(text, 'LearnerWarning');

/** Returns the part that saves the seed and offset of a generator. */
export const generatorPart = (generator: DeviceGenerator): Part => ({
  dtype: 'uint64',
  size: 2,
  check() {}, // any two words are a valid seed and offset
  async read(stream) {
    const { seed, offset } = await generator.state(stream);
    return BigUint64Array.of(seed, offset);
  },
  write(data, stream) {
    const [seed, offset] = data as BigUint64Array;
    generator.restore({ seed: seed as bigint, offset: offset as bigint }, stream);
  },
});
