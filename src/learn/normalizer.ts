/**
 * Running normalization of observations on the device: statistics of all rows seen, in launches
 * that can be captured.
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
   * formula, default 'variance': (x − mean) / √(variance + epsilon), with statistics by Chan et
   * al., as Stable-Baselines3's RunningMeanStd. With 'deviation': (x − mean) / (√variance +
   * epsilon), with the variance of rsl_rl's and FastTD3's EmpiricalNormalization, which takes the
   * mean's distance after it moved
   */
  form?: 'variance' | 'deviation';
  /** summand in the divisor, 1e-30 to 1, default 1e-8, with 'deviation' 1e-2 */
  epsilon?: number;
  /** limit of normalized numbers to ±clip, default: no limit */
  clip?: number;
}

/**
 * Normalizes observations on the device by statistics of all rows that update() was given. It only
 * launches, so it may be captured.
 * @example
 * const normalizer = new Normalizer(device, { size: 17, rows: 256 }, { clip: 5 });
 * normalizer.update(stream, obs);
 * normalizer.apply(stream, normalized, obs);
 */
export class Normalizer extends Owner {
  /** numbers of a row */
  readonly size: number;
  /** float32 [2 · size]: means, then the factors of (element − mean), as policies take them */
  readonly published: Floats;
  /** float32 [size], a view of `published` */
  readonly mean: Floats;
  /** float32 [size], a view of `published` */
  readonly factor: Floats;
  /** float32 [size] */
  readonly variance: Floats;
  /** int64 [1]: rows in the statistics */
  readonly count: Tensor<'int64'>;
  /** limit of normalized numbers, Infinity without a limit */
  readonly clip: number;
  readonly #after: 0 | 1;
  readonly #outside: 0 | 1;
  readonly #epsilon: number;
  /**
   * rows that count as seen before the first one: 1e-4 as in Stable-Baselines3, or 0 with
   * 'deviation'
   */
  readonly #start: number;
  readonly #batch: Floats;
  readonly #apart: Floats;
  readonly #rows: number;

  /**
   * Allocates the statistics. Mean 0 and variance 1 are written in order of device.currentStream.
   *
   * @param how `size`: numbers of a row. `rows`: most rows of an update. `published`: contiguous
   *   float32 [2 · size] for means and factors, which the caller closes. Default: own memory
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
   * Enqueues the addition of rows to the statistics.
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

/** Returns the options with defaults, and throws for an invalid one. */
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

/** Returns the options of a learner's choice: false, true for the defaults, or options. */
export function normalizerOption(
  option: boolean | NormalizerOptions,
): NormalizerOptions | undefined {
  if (typeof option === 'boolean') return option ? {} : undefined;
  checkFlag('normalizer', typeof option === 'object' && option !== null ? true : option);
  normalizerOptions(option);
  return option;
}

/** @deprecated `NormalizerOptions`, until 0.5 */
export type NormaliserOptions = NormalizerOptions;
/** @deprecated `Normalizer`, until 0.5 */
export type Normaliser = Normalizer;
/** @deprecated `Normalizer`, until 0.5 */
export const Normaliser = Normalizer;
