/**
 * Checks the arguments of FullGraphWrapper.run(), and records the properties of an iteration that a
 * captured graph depends on.
 */

import { checkCount, checkFlag, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { Tensor } from '../../device/device.ts';
import { hasParameters } from '../../device/parameters.ts';
import { describe, structureOf, type TensorStruct, tensorsIn } from './struct.ts';

/** Yields the microbatches in order: objects of named tensors, on the device or on the CPU. */
export type DataIterator = Iterator<TensorStruct> | Iterable<TensorStruct>;

export interface IterationOptions<Model = unknown> {
  /** the model or an array of models, which the function receives unchanged */
  model: Model;
  /** one iterator, or an array with one per model. Null for a model that reads no data */
  dataIterator: DataIterator | null | readonly (DataIterator | null)[];
  /** number of microbatches that run() reads from each iterator */
  numMicrobatches: number;
  seqLength: number;
  /** true for validation, which has its own graphs, counter and buffers. False for training */
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

/** Returns one iterator per model, null for a model that reads no data. */
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

/** Returns the next microbatch of an iterator. Throws RangeError if the iterator has ended. */
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
 * The shape of an iteration: its counts, its models, and the tensors of its microbatches. Static
 * buffers and a graph are valid for one such shape.
 */
export class IterationShape {
  readonly #counts: string;
  readonly #models: readonly unknown[];
  readonly #nulls: string;
  /** dtype and shape of each tensor by its path, for each `<iterator> <microbatch>` */
  readonly #tensors = new Map<string, ReadonlyMap<string, string>>();

  constructor(options: IterationOptions, iterators: readonly unknown[]) {
    this.#counts = countsOf(options);
    this.#models = modelsOf(options);
    this.#nulls = nullsIn(iterators);
  }

  /** Number of tensors that an iteration of this shape must supply, over all microbatches. */
  get tensors(): number {
    return [...this.#tensors.values()].reduce((sum, each) => sum + each.size, 0);
  }

  /**
   * Compares the counts, models and null iterators of an iteration with those of this shape, before
   * any data is read. Returns null if they are equal. Otherwise returns the difference as text.
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
   * Compares a microbatch with the tensors that were recorded for iterator `i` and this microbatch
   * index. Returns null if nothing was recorded, or if `given` has all recorded tensors with equal
   * dtype and shape. Otherwise returns the difference as text. `given` may have additional tensors.
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
   * Records dtype and shape of the tensors in `given`, if nothing is recorded yet for iterator `i`
   * and this microbatch index. Every later iteration must supply these tensors there.
   */
  see(i: number, microbatch: number, given: TensorStruct): void {
    const at = `${i} ${microbatch}`;
    if (!this.#tensors.has(at)) this.#tensors.set(at, tensorsOf(given));
  }

  /**
   * Records all tensors of the buffers, because a captured graph reads them. Every later iteration
   * must supply all of them, even those that the first iteration did not have.
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

/**
 * Returns whether two models have different parameters. If one of them has no named parameters,
 * they count as equal.
 */
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

/** The microbatches of each model's iterator, null for a model that reads no data. */
export type IterationData = readonly (readonly Record<string, unknown>[] | null)[];

/**
 * Returns new iterators over the buffers: an array of iterators if the caller of run() passed an
 * array, else one iterator. Each call of the IterationFunction gets new iterators, because it
 * exhausts them. They yield copies of the structures, so the function may delete and swap keys.
 */
export function iteratorsOver(
  { dataIterator }: IterationOptions,
  buffers: IterationData,
): IterationOptions['dataIterator'] {
  const all = buffers.map((each) => (each && structureOf(each).values()) ?? null);
  return Array.isArray(dataIterator) ? all : (all[0] ?? null);
}
