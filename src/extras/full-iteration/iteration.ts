/**
 * One iteration's arguments for FullGraphWrapper, checked by name, and the properties that a
 * captured graph depends on.
 */

import { checkCount, checkFlag, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { Tensor } from '../../device/device.ts';
import { hasParameters } from '../../device/parameters.ts';
import { describe, structureOf, type TensorStruct, tensorsIn } from './struct.ts';

/** Yields one microbatch after the other: objects of named tensors, on the device or the cpu. */
export type DataIterator = Iterator<TensorStruct> | Iterable<TensorStruct>;

export interface IterationOptions<Model = unknown> {
  /** passed to the function unchanged, an array for several models */
  model: Model;
  /** for several models an array of the same length, null if a model reads nothing */
  dataIterator: DataIterator | null | readonly (DataIterator | null)[];
  /** microbatches read from each iterator */
  numMicrobatches: number;
  seqLength: number;
  /** true: validation, with graph, counter and buffers of its own */
  forwardOnly: boolean;
}

const names = ['model', 'dataIterator', 'numMicrobatches', 'seqLength', 'forwardOnly'] as const;

export function checkIteration(args: readonly unknown[]): IterationOptions {
  const [options] = args;
  const needs = `run takes one object with ${names.join(', ')}, all by name`;
  if (
    args.length !== 1 ||
    typeof options !== 'object' ||
    options === null ||
    Array.isArray(options)
  )
    throw typeError(
      `${needs}; got ${args.length === 1 ? describeValue(options) : `${args.length} arguments`}`,
    );
  for (const key of Object.keys(options))
    if (!names.includes(key as (typeof names)[number]))
      throw typeError(`${needs}; '${key}' is unknown`);
  for (const key of names) if (!(key in options)) throw typeError(`${needs}; '${key}' is missing`);
  const { numMicrobatches, seqLength, forwardOnly } = options as IterationOptions;
  checkCount('numMicrobatches', numMicrobatches);
  checkCount('seqLength', seqLength);
  checkFlag('forwardOnly', forwardOnly);
  return options as IterationOptions;
}

/** Returns each model's iterator, or null if the model reads nothing. */
export function iteratorsOf({
  model,
  dataIterator,
}: IterationOptions): (Iterator<TensorStruct> | null)[] {
  const many = Array.isArray(dataIterator)
    ? (dataIterator as readonly (DataIterator | null)[])
    : [dataIterator];
  const models = Array.isArray(model) ? model.length : 1;
  if (many.length !== models) {
    throw rangeError(
      `${models} models need as many data iterators (null for a model that reads nothing), got ${many.length}`,
    );
  }
  return many.map((each, i) => {
    if (each === null) return null;
    if (typeof (each as Iterator<TensorStruct>)?.next === 'function')
      return each as Iterator<TensorStruct>;
    const make = (each as Iterable<TensorStruct>)?.[Symbol.iterator];
    if (typeof make === 'function' && typeof each !== 'string') return make.call(each);
    throw typeError(
      `data iterator ${i} must be an iterator, an iterable or null, got ${describeValue(each)}; an array is one iterator per model: for its elements give array.values()`,
    );
  });
}

/** Returns the next microbatch of an iterator. */
export function nextOf(
  iterator: Iterator<TensorStruct>,
  where: { i: number; microbatch: number; of: number; stage: string },
): TensorStruct {
  const { i, microbatch, of, stage } = where;
  const next = iterator.next();
  if (typeof (next as { then?: unknown } | null)?.then === 'function')
    throw typeError(
      `data iterator ${i} returns promises; read ahead, and pass an iterator of values`,
    );
  if (!next?.done) return next.value;
  throw rangeError(
    `the data iterator ended at microbatch ${microbatch} of ${of} (${stage}): it must give ${of} for every iteration`,
  );
}

/**
 * The counts, models and tensors that the buffers and the graph of one kind of iteration were made
 * for.
 */
export class IterationShape {
  readonly #counts: string;
  readonly #models: readonly unknown[];
  readonly #nulls: string;
  /** per iterator and microbatch, each tensor's dtype and shape by its path */
  readonly #tensors = new Map<string, ReadonlyMap<string, string>>();

  constructor(options: IterationOptions, iterators: readonly unknown[]) {
    this.#counts = countsOf(options);
    this.#models = modelsOf(options);
    this.#nulls = nullsIn(iterators);
  }

  /** Number of tensors that an iteration must supply, over all microbatches. */
  get tensors(): number {
    return [...this.#tensors.values()].reduce((sum, each) => sum + each.size, 0);
  }

  /**
   * Returns null if this is an iteration of the same kind, as far as that is known before its data
   * is read. Otherwise returns the difference.
   */
  differs(options: IterationOptions, iterators: readonly unknown[]): string | null {
    const [counts, models, nulls] = [countsOf(options), modelsOf(options), nullsIn(iterators)];
    if (counts !== this.#counts) return `${counts} instead of ${this.#counts}`;
    if (
      models.length !== this.#models.length ||
      models.some((each, i) => others(each, this.#models[i]))
    )
      return 'another model';
    return nulls === this.#nulls ? null : `${nulls} instead of ${this.#nulls}`;
  }

  /**
   * Returns null if the microbatch fits, or if none at its position was seen before. Otherwise
   * returns the difference. A microbatch may bring more tensors, but must have all that a graph
   * reads.
   */
  misfit(i: number, microbatch: number, given: TensorStruct): string | null {
    const known = this.#tensors.get(`${i} ${microbatch}`);
    if (!known) return null;
    const tensors = tensorsOf(given);
    for (const [path, wanted] of known) {
      const got = tensors.get(path);
      if (got !== wanted)
        return `'${path}' of microbatch ${microbatch}, iterator ${i} is ${got ?? 'missing'} instead of ${wanted}`;
    }
    return null;
  }

  /**
   * Records the tensors of the first microbatch at this position: later ones must have them too.
   */
  see(i: number, microbatch: number, given: TensorStruct): void {
    const at = `${i} ${microbatch}`;
    if (!this.#tensors.has(at)) this.#tensors.set(at, tensorsOf(given));
  }

  /**
   * Records that a graph reads these buffers from now on, including keys that came later: every
   * iteration must supply all of them.
   */
  settle(data: IterationData): void {
    for (const [i, microbatches] of data.entries())
      for (const [microbatch, buffers] of (microbatches ?? []).entries())
        this.#tensors.set(`${i} ${microbatch}`, tensorsOf(buffers));
  }
}

function tensorsOf(given: TensorStruct): Map<string, string> {
  return new Map([...tensorsIn(given)].map(([path, tensor]) => [path, describe(tensor)]));
}

const countsOf = ({ numMicrobatches, seqLength }: IterationOptions) =>
  `${numMicrobatches} microbatches of sequence length ${seqLength}`;
const modelsOf = ({ model }: IterationOptions): readonly unknown[] =>
  Array.isArray(model) ? model : [model];

/** Whether two models have different parameters. Models without named parameters count as equal. */
function others(model: unknown, known: unknown): boolean {
  if (model === known) return false;
  const [own, wanted] = [parametersOf(model), parametersOf(known)];
  return own !== null && wanted !== null && own !== wanted;
}

function parametersOf(model: unknown): string | null {
  if (!hasParameters(model)) return null;
  const named = [...model.namedParameters()];
  return named.map(([name, each]) => `${name} ${each instanceof Tensor ? each.handle : ''}`).join();
}

const nullsIn = (iterators: readonly unknown[]) =>
  `data iterators ${iterators.map((each) => (each === null ? 'null' : 'given')).join(', ')}`;

/** The microbatches of each iterator, or null if the model reads nothing. */
export type IterationData = readonly (readonly Record<string, unknown>[] | null)[];

/**
 * Returns iterators over the buffers, in the form the caller has: alone, or one per model. Each
 * call gets new ones, because it uses them up, with a copy of the structures: the function may
 * delete and swap keys there.
 */
export function iteratorsOver(
  { dataIterator }: IterationOptions,
  buffers: IterationData,
): IterationOptions['dataIterator'] {
  const all = buffers.map((each) => (each && structureOf(each).values()) ?? null);
  return Array.isArray(dataIterator) ? all : (all[0] ?? null);
}
