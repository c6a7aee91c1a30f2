/**
 * Running normalization of observations on the device. All work consists of launches that can be
 * captured.
 */
import { checkCount, checkFlag, checkKeys, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkDevice, checkStream } from '../device/checks.ts';
import type { Device, Stream, Tensor } from '../device/device.ts';
import { guardConstruction, Owner, own } from '../device/owner.ts';
import { checkMatrix, checkVector, checkWithin, rowStride } from './checks.ts';
import { ops } from './ops/index.ts';

type Floats = Tensor<'float32'>;

export interface NormalizerOptions {
  /**
   * formula, default 'variance'
   *
   * - 'variance': (x − mean) / √(variance + epsilon). The statistics are by Chan et al., as in
   *   Stable-Baselines3's RunningMeanStd.
   * - 'deviation': (x − mean) / (√variance + epsilon). The variance is that of rsl_rl's and
   *   FastTD3's EmpiricalNormalization. It uses the distance of the batch's mean from the updated
   *   mean
   */
  form?: 'variance' | 'deviation';
  /** summand in the divisor, 1e-30 to 1, default 1e-8, or 1e-2 for 'deviation' */
  epsilon?: number;
  /** largest absolute value of a normalized element, default: no limit */
  clip?: number;
}

/**
 * Normalizes observations on the device, with statistics of all rows that were passed to update().
 * It only launches kernels, so a graph can capture it.
 * @example
 * const normalizer = new Normalizer(device, { size: 17, rows: 256 }, { clip: 5 });
 * normalizer.update(stream, obs);
 * normalizer.apply(stream, normalized, obs);
 */
export class Normalizer extends Owner {
  /** number of elements in a row */
  readonly size: number;
  /**
   * float32 [2 · size]: the means, then the factors by which `element − mean` is multiplied.
   * Policies load this vector as it is
   */
  readonly published: Floats;
  /** float32 [size], a view of `published` */
  readonly mean: Floats;
  /** float32 [size], a view of `published` */
  readonly factor: Floats;
  /** float32 [size] */
  readonly variance: Floats;
  /** int64 [1]: rows in the statistics */
  readonly count: Tensor<'int64'>;
  /** largest absolute value of a normalized element, Infinity without a limit */
  readonly clip: number;
  readonly #after: 0 | 1;
  readonly #outside: 0 | 1;
  readonly #epsilon: number;
  /**
   * number of rows that the statistics count before the first real row. It is 1e-4 as in
   * Stable-Baselines3, or 0 for 'deviation'
   */
  readonly #start: number;
  readonly #batch: Floats;
  readonly #apart: Floats;
  readonly #rows: number;

  /**
   * Allocates the statistics. Mean 0 and variance 1 are written on device.currentStream.
   *
   * @param how `size`: number of elements in a row. `rows`: largest number of rows of an update.
   *   `published`: contiguous float32 [2 · size] for means and factors, which the caller must
   *   close. Default: the normalizer allocates it
   * @throws {TypeError|RangeError} for a wrong option or tensor
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(
    device: Device,
    how: { size: number; rows: number; published?: Floats },
    options: NormalizerOptions = {},
  ) {
    super('this normalizer');
    checkDevice('Normalizer', device);
    checkKeys('Normalizer', how, ['size', 'rows', 'published']);
    const { form, epsilon, clip } = normalizerOptions(options);
    const size = checkCount('size', how.size);
    this.size = size;
    this.#rows = checkCount('rows', how.rows);
    this.clip = clip;
    this.#epsilon = epsilon;
    [this.#after, this.#outside, this.#start] = form === 'deviation' ? [1, 1, 0] : [0, 0, 1e-4];
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    using construction = guardConstruction(this);
    this.published = how.published
      ? checkVector('published', how.published, 2 * size)
      : allocate(2 * size);
    this.mean = this.published.view({ shape: [size] });
    this.factor = this.published.view({ shape: [size], offset: size });
    this.variance = allocate(size).write(new Float32Array(size).fill(1));
    this.count = own(this, device.allocate({ shape: [1], dtype: 'int64' }));
    this.#batch = allocate(2, size);
    this.#apart = allocate(this.#rows, size);
    this.published.write(
      Float32Array.from({ length: 2 * size }, (_, i) => (i < size ? 0 : this.#factorOf(1))),
    );
    construction.done();
  }

  #factorOf(variance: number): number {
    return this.#outside
      ? 1 / (Math.sqrt(variance) + this.#epsilon)
      : 1 / Math.sqrt(variance + this.#epsilon);
  }

  /**
   * Enqueues an update of the statistics with the rows of `x`.
   *
   * @param x float32 [rows, size] with adjacent columns
   * @throws {TypeError} for another dtype or other strides
   * @throws {RangeError} for another shape, or more rows than the constructor was given
   */
  update(stream: Stream, x: Floats): void {
    checkStream('update', stream);
    const { size } = this;
    checkMatrix('x', x, undefined, size);
    const rows = x.shape[0] as number;
    if (rows < 1 || rows > this.#rows)
      throw rangeError(`this normalizer takes 1 to ${this.#rows} rows, got ${rows}`);
    const [mean, variance] = [0, size].map((offset) =>
      this.#batch.view({ shape: [size], offset }),
    ) as [Floats, Floats];
    const apart = this.#apart.view({ shape: [rows, size] });
    const reals = [1 / rows, 0] as const;
    stream.launch('column_sums', { tensors: [mean, x], wholes: [rows, size, rowStride(x)], reals });
    ops.sub(stream, apart, x, mean);
    ops.square(stream, apart, apart);
    stream.launch('column_sums', { tensors: [variance, apart], wholes: [rows, size, size], reals });
    stream.launch('moments', {
      tensors: [this.mean, this.variance, this.factor, mean, variance, this.count as Tensor],
      wholes: [size, rows, this.#after, this.#outside],
      reals: [this.#start, this.#epsilon],
    });
    stream.launch('moments_advance', { tensors: [this.count], wholes: [rows] });
  }

  /**
   * Enqueues the normalization of `x` by the current statistics.
   *
   * @param out float32 [rows, size], which may be `x`
   * @param x float32 [rows, size]
   * @throws {TypeError|RangeError} for other dtypes or shapes
   */
  apply(stream: Stream, out: Floats, x: Floats): void {
    ops.sub(stream, out, x, this.mean);
    ops.mul(stream, out, out, this.factor);
    if (this.clip < Number.POSITIVE_INFINITY) ops.clamp(stream, out, out, -this.clip, this.clip);
  }
}

/** Returns the options with defaults filled in. Throws for an invalid option. */
export function normalizerOptions(options: NormalizerOptions): Required<NormalizerOptions> {
  checkKeys('normalizer', options, ['form', 'epsilon', 'clip']);
  const { form = 'variance' } = options;
  if (form !== 'variance' && form !== 'deviation')
    throw typeError(
      `normalizer: form must be 'variance' or 'deviation', got ${describeValue(form)}`,
    );
  const { epsilon = form === 'deviation' ? 1e-2 : 1e-8, clip = Number.POSITIVE_INFINITY } = options;
  checkWithin('normalizer: epsilon', epsilon, 1e-30, 1);
  checkWithin('normalizer: clip', clip, Number.MIN_VALUE, Number.POSITIVE_INFINITY);
  return { form, epsilon, clip };
}

/**
 * Returns the options that a learner's option `normalizer` stands for. `true` stands for the
 * defaults, and the result for `false` is undefined.
 */
export function normalizerOption(
  option: boolean | NormalizerOptions,
): NormalizerOptions | undefined {
  if (typeof option === 'boolean') return option ? {} : undefined;
  checkFlag('normalizer', typeof option === 'object' && option !== null ? true : option);
  normalizerOptions(option);
  return option;
}

/** @deprecated Use `NormalizerOptions`. This name is removed in 0.5. */
export type NormaliserOptions = NormalizerOptions;
/** @deprecated Use `Normalizer`. This name is removed in 0.5. */
export type Normaliser = Normalizer;
/** @deprecated Use `Normalizer`. This name is removed in 0.5. */
export const Normaliser = Normalizer;
